import json
import os
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from executors.blobs import tenant_store
from executors.command import run_command
from poimen.contracts.execution import OutputReference, RenderedContext
from poimen.excerpts import BRIEF, HALF, THIRD, WHOLE


def stored(settings, result):
    return tenant_store(settings, None).find(result.output).read_bytes()


def checkpoint_of(settings, result):
    return tenant_store(settings, None).find(result.checkpoint).read_bytes()


def kept(settings, data):
    settings.state_dir.mkdir(exist_ok=True)
    return tenant_store(settings, None).keep(data, settings.state_dir / "partial")


async def test_a_command_that_succeeds_reports_its_code_and_output(settings, command):
    result = await run_command(command("sh", "-c", "echo out; echo err >&2"), settings)
    assert (result.end, result.exit_code, result.head, result.tail) == ("exited", 0, "out\nerr\n", "")
    assert stored(settings, result) == b"out\nerr\n"
    assert (result.output.host, result.output.bytes, result.output_bytes) == ("here", 8, 8)


async def test_an_exit_code_is_reported(settings, command):
    result = await run_command(command("sh", "-c", "exit 3"), settings)
    assert (result.end, result.exit_code, result.output) == ("exited", 3, None)


async def test_a_signal_is_told_from_an_exit_code(settings, command):
    result = await run_command(command("sh", "-c", "kill -SEGV $$"), settings)
    assert (result.end, result.signal, result.exit_code) == ("signaled", signal.SIGSEGV, None)


async def test_argv_is_not_read_by_a_shell(settings, command):
    result = await run_command(command("printf", "%s", "$HOME; `id` *"), settings)
    assert result.head == "$HOME; `id` *"


async def test_a_command_that_is_not_there_is_named(settings, command):
    result = await run_command(command("no-such-program-here"), settings)
    assert (result.end, result.detail) == ("not_found", 'the command "no-such-program-here" is not on the executor')


async def test_a_long_or_odd_name_of_a_command_is_shown_cut_and_plain(settings, command):
    result = await run_command(command("a\x1b[1mb" + "c" * 100), settings)
    assert result.detail.startswith('the command "a')
    assert result.detail.isprintable()
    assert len(result.detail) < 100


async def test_a_file_that_is_not_executable_is_told_apart(settings, command, workspace):
    (workspace / "tool").write_text("#!/bin/sh\n")
    result = await run_command(command("./tool"), settings)
    assert (result.end, result.detail) == (
        "not_found",
        'the command "./tool" is on the executor but is not executable',
    )


async def test_a_missing_interpreter_is_told_apart(settings, command, workspace):
    tool = workspace / "tool"
    tool.write_text("#!/no/such/interpreter\n")
    tool.chmod(0o755)
    result = await run_command(command("./tool"), settings)
    assert (result.end, result.detail) == (
        "not_found",
        'the interpreter of the command "./tool" is not on the executor',
    )


async def test_a_file_that_is_no_program_is_told_apart(settings, command, workspace):
    tool = workspace / "tool"
    tool.write_text("just text\n")
    tool.chmod(0o755)
    result = await run_command(command("./tool"), settings)
    assert result.end == "not_found"
    assert "not a program" in result.detail


async def test_a_time_out_ends_the_command(settings, command):
    result = await run_command(command("sh", "-c", "echo before; exec sleep 300", timeout_seconds=0.5), settings)
    assert (result.end, result.exit_code, result.head) == ("timed_out", None, "before\n")
    assert result.detail == "the command was ended after 0.5 s"


async def test_a_command_that_ignores_term_is_killed_after_the_grace_period(settings, command):
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    limits = replace(settings, grace_seconds=0.2)
    result = await run_command(command("sh", "-c", stubborn, timeout_seconds=0.3), limits)
    assert (result.end, result.head) == ("timed_out", "ready\n")


async def test_a_time_out_lets_the_command_clean_up(settings, command, workspace):
    tidy = "trap 'echo tidied > note; exit 0' TERM; while :; do sleep 0.02; done"
    result = await run_command(command("sh", "-c", tidy, timeout_seconds=0.3), settings)
    assert result.end == "timed_out"
    assert (workspace / "note").read_text() == "tidied\n"


async def test_a_large_prompt_reaches_standard_input(settings, command):
    result = await run_command(command("wc", "-c", prompt="x" * 5_000_000), settings)
    assert result.head.strip() == "5000000"


async def test_a_command_that_never_reads_its_input_does_not_block(settings, command):
    result = await run_command(command("true", prompt="x" * 5_000_000), settings)
    assert (result.end, result.exit_code) == ("exited", 0)


async def test_without_a_prompt_standard_input_is_empty(settings, command):
    result = await run_command(command("cat"), settings)
    assert (result.end, result.head) == ("exited", "")


async def test_the_prompt_is_filled_with_the_context(settings, command):
    context = RenderedContext(text="ALL", lessons="LESSONS", skills="SKILLS", budget="BUDGET")
    prompt = "{{context}} {{lessons}} {{skills}} {{budget}}"
    result = await run_command(command("cat", prompt=prompt, context=context), settings)
    assert result.head == "ALL LESSONS SKILLS BUDGET"


async def test_the_context_is_in_files(settings, command):
    context = RenderedContext(text="known: ünï", package='{"package_id":"ctx-1"}')
    script = 'cat "$POIMEN_CONTEXT" "$POIMEN_CONTEXT_JSON"'
    result = await run_command(command("sh", "-c", script, context=context), settings)
    assert result.head == 'known: ünï{"package_id":"ctx-1"}'


async def test_without_a_context_its_files_are_empty_ones(settings, command):
    script = 'cat "$POIMEN_CONTEXT" "$POIMEN_CONTEXT_JSON"'
    assert (await run_command(command("sh", "-c", script), settings)).head == "{}"


async def test_a_command_sees_nothing_of_the_workers_environment(settings, command, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    result = await run_command(command("env", env={"MODE": "quick"}), settings)
    names = {line.split("=", 1)[0] for line in result.head.splitlines()}
    assert names == {
        "PATH", "LANG", "MODE", "POIMEN_MARK", "POIMEN_RUN", "POIMEN_STEP", "POIMEN_ATTEMPT",
        "POIMEN_CONTEXT", "POIMEN_CONTEXT_JSON", "POIMEN_RESULT", "POIMEN_CHECKPOINT",
    }  # fmt: skip


async def test_the_keeper_holds_nothing_of_the_workers_environment(settings, command, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    result = await run_command(command("sh", "-c", "cat /proc/$PPID/environ; echo end"), settings)
    assert result.head == "end\n"


async def test_no_descriptor_of_the_worker_reaches_the_command(settings, command):
    script = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])"
    held = os.open(os.devnull, os.O_RDONLY)
    result = await run_command(command("python3", "-c", script), settings)
    os.close(held)
    assert json.loads(result.head) == [0, 1, 2]


async def test_a_broken_pipe_ends_a_program_as_in_a_shell(settings, command):
    result = await run_command(command("sh", "-c", "yes | head -1"), settings)
    assert (result.exit_code, result.head) == (0, "y\n")


async def test_an_allowed_reference_is_resolved_and_masked(settings, command):
    limits = replace(settings, allowed_variables=frozenset({"TOKEN"}), variables={"TOKEN": "s3cr3t-value"})
    script = 'printf "%s" "$API" | wc -c; echo "key=$API"; printf "%s" "$API" > "$POIMEN_CHECKPOINT"; '
    script += 'printf \'{"output": "%s"}\' "$API" > "$POIMEN_RESULT"'
    result = await run_command(command("sh", "-c", script, env={"API": "env:TOKEN"}), limits)
    assert result.head.split() == ["12", "key=[masked]"]
    assert result.report.output == "[masked]"
    assert checkpoint_of(limits, result) == b"[masked]"
    assert b"s3cr3t" not in stored(limits, result)


@pytest.mark.parametrize("allowed", [frozenset(), frozenset({"TOKEN"})])
async def test_a_reference_that_cannot_be_resolved_is_refused(settings, command, allowed):
    limits = replace(settings, allowed_variables=allowed, variables={})
    result = await run_command(command("env", env={"API": "env:TOKEN"}), limits)
    assert result.end == "not_allowed"
    assert "TOKEN" in result.detail


async def test_a_value_off_the_allow_list_stays_hidden_although_the_executor_has_it(settings, command):
    limits = replace(settings, variables={"TOKEN": "s3cr3t-value"})
    result = await run_command(command("env", env={"API": "env:TOKEN"}), limits)
    assert (result.end, result.head) == ("not_allowed", "")


async def test_the_report_is_read(settings, command):
    report = '{"output": "done", "lesson": "check the port", "tokens": 12, "artifacts": ["a.txt"]}'
    script = f"cat > \"$POIMEN_RESULT\" <<'END'\n{report}\nEND"
    result = await run_command(command("sh", "-c", script), settings)
    assert result.report.model_dump(exclude_defaults=True) == json.loads(report) | {"artifacts": ("a.txt",)}
    assert result.warnings == ()


@pytest.mark.parametrize(
    "script",
    [
        'echo "{" > "$POIMEN_RESULT"',
        'echo "[1]" > "$POIMEN_RESULT"',
        'echo \'{"tokens": -1}\' > "$POIMEN_RESULT"',
        'head -c 300000 /dev/zero > "$POIMEN_RESULT"',
        'mkfifo "$POIMEN_RESULT"',
        'ln -s /etc/passwd "$POIMEN_RESULT"',
        'mkdir "$POIMEN_RESULT"',
    ],
)
async def test_a_bad_report_is_a_warning(settings, command, script):
    result = await run_command(command("sh", "-c", script), settings)
    assert (result.end, result.exit_code, result.report) == ("exited", 0, None)
    assert len(result.warnings) == 1
    assert "report" in result.warnings[0]


async def test_a_long_report_is_cut_to_what_a_history_takes(settings, command):
    script = "import json,os; json.dump({'output': 'ü' * 20_000, 'changed_files': ['f' * 50] * 2_000, 'tokens': 3},"
    script += "open(os.environ['POIMEN_RESULT'], 'w'))"
    result = await run_command(command("python3", "-c", script), settings)
    assert result.report.tokens == 3
    assert len(json.dumps(result.report.model_dump(mode="json"))) < 3_000
    assert result.warnings == ("the report was cut: output, changed_files",)


@pytest.mark.parametrize(("purpose", "output"), [("judge", "0.9"), ("verify", None)])
async def test_of_the_report_of_a_check_only_what_is_read_travels(settings, command, purpose, output):
    report = '{"output": "0.9", "lesson": "x", "tokens": 12}'
    script = f"cat > \"$POIMEN_RESULT\" <<'END'\n{report}\nEND"
    result = await run_command(command("sh", "-c", script, purpose=purpose), settings)
    assert (result.report.output, result.report.lesson, result.report.tokens) == (output, None, 12)


LONG = "yes 'a line of an output' | head -c 100000; exit"


@pytest.mark.parametrize(
    ("fields", "script", "room"),
    [
        ({}, f"{LONG} 0", WHOLE),
        ({"purpose": "verify"}, f"{LONG} 1", HALF),
        ({"purpose": "gate"}, f"{LONG} 1", HALF),
        ({"purpose": "judge"}, f"{LONG} 0", THIRD),
        ({}, f"echo '{{}}' > $POIMEN_RESULT; {LONG} 1", THIRD),
        ({"purpose": "verify"}, f"{LONG} 0", BRIEF),
        ({"purpose": "verify", "brief": True}, f"{LONG} 1", BRIEF),
        ({"purpose": "repair"}, f"{LONG} 1", BRIEF),
        ({}, f'echo \'{{"output": "x"}}\' > $POIMEN_RESULT; {LONG} 0', BRIEF),
    ],
)
async def test_as_much_of_an_output_travels_as_is_read_of_it(settings, command, fields, script, room):
    result = await run_command(command("sh", "-c", script, **fields), settings)
    ends = (len(json.dumps(result.head)), len(json.dumps(result.tail)))
    assert all(limit - 64 < end <= limit for end, limit in zip(ends, room, strict=True))
    assert len(stored(settings, result)) == 100_000


async def test_a_stored_output_is_given_on_standard_input(settings, command):
    first = await run_command(command("seq", "20000"), settings)
    result = await run_command(command("tail", "-n", "+3", stdin=first.output, purpose="judge"), settings)
    assert result.head.startswith("3\n4\n")
    assert stored(settings, result) == stored(settings, first).removeprefix(b"1\n2\n")


async def test_a_stored_output_that_is_gone_is_the_executors_failure(settings, command):
    gone = OutputReference(sha256="0" * 64, host="elsewhere", bytes=1)
    with pytest.raises(OSError, match="not on this executor"):
        await run_command(command("cat", stdin=gone), settings)


@pytest.mark.parametrize("sha256", ["", "../../../etc/passwd", "0" * 63, "0" * 64 + "\n", "A" * 64])
def test_a_reference_names_no_file_but_a_stored_one(sha256):
    with pytest.raises(ValidationError):
        OutputReference(sha256=sha256, host="here", bytes=1)


async def test_a_prompt_without_a_context_is_given_as_it_is(settings, command):
    assert (await run_command(command("cat", prompt="see {{context}}"), settings)).head == "see {{context}}"


async def test_the_checkpoint_goes_in_and_comes_out(settings, command):
    script = 'read n < "$POIMEN_CHECKPOINT"; echo $((n + 1)) > "$POIMEN_CHECKPOINT"'
    result = await run_command(command("sh", "-c", script, checkpoint=kept(settings, b"41\n")), settings)
    assert checkpoint_of(settings, result) == b"42\n"


async def test_a_checkpoint_may_hold_whatever_text_it_likes(settings, command):
    script = "import os; open(os.environ['POIMEN_CHECKPOINT'], 'w').write('é\\0' * 20_000)"
    result = await run_command(command("python3", "-c", script), settings)
    assert checkpoint_of(settings, result) == "é\0".encode() * 20_000


async def test_without_a_checkpoint_there_is_no_file(settings, command):
    result = await run_command(command("sh", "-c", 'test ! -e "$POIMEN_CHECKPOINT"'), settings)
    assert (result.exit_code, result.checkpoint) == (0, None)


async def test_a_checkpoint_survives_a_time_out(settings, command):
    script = 'echo half > "$POIMEN_CHECKPOINT"; exec sleep 300'
    result = await run_command(command("sh", "-c", script, timeout_seconds=0.5), settings)
    assert (result.end, checkpoint_of(settings, result)) == ("timed_out", b"half\n")


@pytest.mark.parametrize(
    ("script", "warnings"),
    [
        ('head -c 65537 /dev/zero > "$POIMEN_CHECKPOINT"', 1),
        ('printf "\\377" > "$POIMEN_CHECKPOINT"', 1),
        ('rm "$POIMEN_CHECKPOINT"; mkdir "$POIMEN_CHECKPOINT"', 1),
        (': > "$POIMEN_CHECKPOINT"', 0),
        ('rm "$POIMEN_CHECKPOINT"', 0),
    ],
)
async def test_a_checkpoint_that_cannot_be_used_leaves_the_one_before(settings, command, script, warnings):
    before = kept(settings, b"before")
    result = await run_command(command("sh", "-c", script, checkpoint=before), settings)
    assert result.checkpoint == before
    assert len(result.warnings) == warnings


async def test_a_checkpoint_of_another_executor_is_a_warning(settings, command):
    gone = OutputReference(sha256="0" * 64, host="elsewhere", bytes=1)
    result = await run_command(command("sh", "-c", 'test ! -e "$POIMEN_CHECKPOINT"', checkpoint=gone), settings)
    assert result.exit_code == 0
    assert "checkpoint" in result.warnings[0]


async def test_outputs_are_kept_by_tenant(settings, command):
    names = [None, "acme", "Acme", "..", "a/b", "-", "x" * 128]
    results = [await run_command(command("echo", "same", tenant=name), settings) for name in names]
    paths = [tenant_store(settings, name).find(found.output) for name, found in zip(names, results, strict=True)]
    folders = [path.parent.parent for path in paths]
    assert [folder.name for folder in folders[:2]] == ["-", "acme"]
    assert {folder.parent for folder in folders} == {settings.state_dir / "blobs"}
    assert len({folder.name.lower() for folder in folders}) == len(names)


async def test_binary_output_stays_small_as_json(settings, command):
    script = "import os, sys; sys.stdout.buffer.write(os.urandom(200_000))"
    result = await run_command(command("python3", "-c", script), settings)
    assert result.binary
    assert len(json.dumps(result.head)) <= 2_048
    assert len(json.dumps(result.tail)) <= 4_096
    assert len(stored(settings, result)) == result.output_bytes == 200_000


async def test_a_nul_byte_in_text_is_replaced_and_is_not_binary(settings, command):
    result = await run_command(command("printf", r"name\0value and more text\n"), settings)
    assert (result.head, result.binary) == ("name\u2400value and more text\n", False)


async def test_an_output_beyond_the_limit_is_stored_up_to_it(settings, command):
    limits = replace(settings, output_limit_bytes=1_000)
    result = await run_command(command("sh", "-c", "yes | head -c 100000; echo end"), limits)
    assert (result.end, result.exit_code, result.output.bytes, result.output_bytes) == (
        "exited", 0, 1_000, 100_004,
    )  # fmt: skip
    assert result.tail.endswith("end\n")
    assert "1,000 bytes" in result.warnings[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_a_full_disk_costs_the_stored_output_and_nothing_else(settings, command, monkeypatch):
    real_open = os.open

    def full(path, *args, **kwargs):
        # The partial output lands on a device that has no room, as on a full disk.
        return real_open("/dev/full", os.O_WRONLY) if Path(path).name == "output" else real_open(path, *args, **kwargs)

    monkeypatch.setattr("executors.blobs.os.open", full)
    result = await run_command(command("sh", "-c", "yes | head -c 300000"), settings)
    assert (result.end, result.exit_code, result.output, result.output_bytes) == ("exited", 0, None, 300_000)
    assert result.head.startswith("y\n")
    assert "No space left" in result.warnings[0]


async def test_nothing_of_an_attempt_is_left_but_its_output(settings, command):
    await run_command(command("sh", "-c", 'cat; echo x > "$POIMEN_RESULT"', prompt="hello"), settings)
    left = [path for path in settings.state_dir.rglob("*") if path.is_file()]
    assert [path.parent.parent.parent.name for path in left] == ["blobs"]


async def test_the_files_of_an_attempt_are_for_its_user_only(settings, command):
    result = await run_command(command("sh", "-c", 'stat -c %a "$(dirname "$POIMEN_RESULT")"'), settings)
    assert result.head == "700\n"
    path = tenant_store(settings, None).find(result.output)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("argument", ["a\0b", "a\ud800b"])
async def test_an_argument_no_program_can_be_given_is_refused(settings, command, argument):
    result = await run_command(command("echo").model_copy(update={"argv": ("echo", argument)}), settings)
    assert result.end == "not_allowed"
    assert "argument" in result.detail


async def test_a_command_line_that_is_too_long_is_a_clear_answer(settings, command):
    result = await run_command(command("echo", *["x" * 131_000] * 100), settings)
    assert result.end == "not_allowed"
    assert "command line" in result.detail


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
async def test_a_variable_name_no_program_can_be_given_is_refused(settings, command, name):
    assert (await run_command(command("env", env={name: "x"}), settings)).end == "not_allowed"


async def test_a_switched_off_executor_runs_nothing(settings, command, workspace):
    result = await run_command(command("touch", "mark"), replace(settings, command_enabled=False))
    assert result.end == "not_allowed"
    assert "switched off" in result.detail
    assert not (workspace / "mark").exists()


async def test_a_step_cannot_replace_the_harness_own_variables(settings, command):
    result = await run_command(
        command("sh", "-c", 'echo "$POIMEN_RUN"', env={"POIMEN_RUN": "other", "POIMEN_MARK": "none"}), settings
    )
    assert result.head == "run-1\n"
