"""`poimen diagnose` and `poimen repair --dry-run`, over what real runs left on record."""

import re
import shlex
from typing import Any

import pytest
import pytest_asyncio

from tests.cli.test_runs_told import ADDRESS_IN_USE, definition, fails_once
from tests.worker.running import POIMEN, Ended, Place, run_program, until

SCOPE = "acme/diagnosed"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def failed(served: Place) -> dict[str, Any]:
    """A run whose step failed once for a known reason and then passed."""
    ended = await served.poimen("run", fails_once(served.folder, SCOPE), "--json")
    assert ended.code == 0, ended.err
    await until_learned(served, SCOPE)
    return dict(ended.json)


async def until_learned(served: Place, scope: str) -> None:
    """Return when memory knows how the step ended; on a busy machine it may hear of it after the run."""
    condition = f"scope = '{scope}' AND kind = 'execution_learned'"
    await until(lambda: served.count(condition))


async def diagnose(served: Place, text: str, *options: str) -> Ended:
    """Paste a text on standard input."""
    (served.folder / "error.txt").write_text(text)
    command = shlex.join([str(POIMEN), "diagnose", *options])
    return await run_program("sh", "-c", f"{command} < error.txt", variables=served.variables, cwd=served.folder)


async def test_a_pasted_error_is_told_with_what_ended_it(served: Place, failed: dict[str, Any]) -> None:
    assert failed["end"] == "succeeded"
    ended = await diagnose(served, f"$ ./serve\n{ADDRESS_IN_USE}\n", "--scope", SCOPE)
    assert (ended.code, ended.err) == (0, "")
    known, recovery, *notes = ended.out.splitlines()
    assert re.fullmatch(r"Known: address in use \(s2:[0-9a-f]{4}…\) in serve, 1 run, last \d+ (s|min) ago", known)
    assert re.fullmatch(r"  1\. plain retry  worked 1 of 1   les-[0-9a-f]{8}", recovery)
    assert [line.split(":")[0] for line in notes] == ["Read"]
    assert max(map(len, ended.out.splitlines())) <= 100


async def test_without_a_scope_every_scope_is_asked_and_named(served: Place, failed: dict[str, Any]) -> None:
    assert failed["end"] == "succeeded"
    ended = await diagnose(served, ADDRESS_IN_USE, "--limit", "20")
    assert any(f" in serve of {SCOPE}, 1 run" in line for line in ended.out.splitlines())


async def test_a_signature_is_taken_for_what_it_is(served: Place, failed: dict[str, Any]) -> None:
    assert failed["end"] == "succeeded"
    by_text = await diagnose(served, ADDRESS_IN_USE, "--scope", SCOPE, "--json")
    assert by_text.json["known"] is True
    diagnosis = by_text.json["diagnoses"][0]
    by_key = await diagnose(served, diagnosis["signature"] + "\n", "--scope", SCOPE, "--json")
    assert by_key.json["diagnoses"][0]["causes"][0] == diagnosis["causes"][0]


async def test_what_nobody_knows_ends_with_0_and_the_reason(served: Place) -> None:
    ended = await diagnose(served, "ZyzzyvaError: the qoph is quux", "--scope", "acme/empty")
    assert ended.code == 0
    first, *second = ended.out.splitlines()
    assert first.startswith("Not known: ZyzzyvaError: the qoph is quux (s2:")
    assert second[0].startswith("acme/empty: neither this failure nor one like it is on record here")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ((), "There is no text: name a FILE, or give it on standard input."),
        (("missing.txt",), "missing.txt is not there."),
        (("state",), "state cannot be read: Is a directory."),
    ],
    ids=["no text", "no file", "a folder"],
)
async def test_without_a_text_it_ends_with_2(served: Place, files: tuple[str, ...], sentence: str) -> None:
    ended = await diagnose(served, "  \n", *files)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{sentence}\n")


async def test_a_text_of_any_bytes_and_any_length_is_read(served: Place) -> None:
    (served.folder / "long.bin").write_bytes(b"\xff\x00 noise\n" * 40_000 + ADDRESS_IN_USE.encode())
    ended = await served.poimen("diagnose", "long.bin", "--scope", SCOPE, "--json")
    assert ended.code == 0
    assert ended.err == "The text is long: 100,042 characters in its middle are left out.\n"
    assert ended.json["diagnoses"][0]["title"] == "address in use"


async def test_without_a_database_it_ends_with_3(served: Place) -> None:
    down = {**served.variables, "POIMEN_POSTGRES_DSN": "postgresql://app@127.0.0.1:9/none"}
    (served.folder / "error.txt").write_text(ADDRESS_IN_USE)
    argv = [str(POIMEN), "diagnose", "error.txt", "--scope", SCOPE]
    ended = await run_program(*argv, variables=down, cwd=served.folder)
    assert ended.code == 3
    assert ended.out.startswith("Not found where it could be read: address in use (s2:")


async def test_a_dry_run_shows_what_memory_would_do_and_records_nothing(served: Place) -> None:
    repairs = "        repairs: [{id: mend, command: [touch, mended.txt]}]\n"
    script = f'test -e mended.txt || {{ echo "{ADDRESS_IN_USE}" >&2; exit 1; }}'
    name = definition(served.folder, script, scope="acme/mended")
    with (served.folder / name).open("a") as file:
        file.write(repairs)
    ran = await served.poimen("run", name, "--id", "mended", "--json")
    assert (ran.code, ran.json["attempts"]) == (0, 2)
    await until_learned(served, "acme/mended")
    ended = await served.poimen("repair", "--dry-run", "mended/serve")
    assert (ended.code, ended.err) == (0, "")
    first, said, *steps, last = ended.out.splitlines()
    assert re.fullmatch(r"If serve failed again as in mended: address in use \(s2:[0-9a-f]{4}…\)", first)
    assert said == "memory would say repair mend: address in use, known since mended; mend worked 1 of 1"
    assert steps[0] == "  1. repair mend  worked 1 of 1"
    assert last == "Nothing was run, and nothing is recorded."
    again = await served.poimen("repair", "--dry-run", "mended/serve", "--json")
    assert (again.json["advice"]["repair"], again.json["seen_before"]["occurrences"]) == ("mend", 1)
    assert await served.count("scope = 'acme/mended' AND origin = 'operator'") == 0
    others = f"select count(*) from attempts where scope = 'acme/mended' and run <> '{ran.json['run']}';"
    assert (await served.database.run_sql(others)).strip() == "0"


async def test_without_dry_run_nothing_is_repaired(served: Place) -> None:
    ended = await served.poimen("repair", "mended/serve")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("poimen repair runs nothing: a repair is run by the harness")


@pytest.mark.parametrize(
    ("step", "code", "sentence"),
    [
        ("mended", 2, "Name a run and its step as RUN/STEP."),
        ("mended/nothing", 1, "mended has no step of that name on record."),
        ("nobody/serve", 1, "A run with memory off leaves no record."),
    ],
)
async def test_a_step_that_is_not_on_record_is_told(served: Place, step: str, code: int, sentence: str) -> None:
    ended = await served.poimen("repair", "--dry-run", step)
    assert ended.code == code
    assert sentence in ended.err


async def test_why_says_that_a_run_without_memory_leaves_no_record(served: Place) -> None:
    name = fails_once(served.folder, "acme/silent")
    ran = await served.poimen("run", name, "--id", "silent", "--memory", "off")
    assert ran.code == 0
    why = await served.poimen("why", "silent")
    assert (why.code, why.out) == (1, "")
    assert "A run with memory off leaves no record." in why.err
