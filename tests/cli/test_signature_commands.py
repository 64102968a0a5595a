"""`poimen signature`, `explain` and `alias` as a person types them."""

import json
import subprocess
from pathlib import Path

import pytest

from memory.signatures import sign
from tests.fixtures_postgres import Database
from tests.worker.running import MASKING_KEY, POIMEN, Ended, clean_environment

OUTPUT = """\
starting
Traceback (most recent call last):
  File "/srv/api/serve.py", line 3, in <module>
    bind()
OSError: [Errno 98] Address already in use: 10.0.0.1:8080
"""
PORT, GERMAN, PROXY = (f"s1:{digit * 32}" for digit in "abc")
SEEN = (
    "insert into signatures (tenant, scope, signature, kind, family, title, template, sample, first_position, first_at)"
    " select 'local', 'acme/api', key, 'os_error', 'f', 'port taken', '', '', 0, now()"
    f" from unnest(array['{PORT}', '{GERMAN}', '{PROXY}']) as key;"
)


def poimen(*arguments: str, given: str | bytes = "", cwd: Path | None = None, **variables: str) -> Ended:
    """Run the program with something on its standard input."""
    done = subprocess.run(
        [str(POIMEN), *arguments],
        input=given if isinstance(given, bytes) else given.encode(),
        env=clean_environment(variables),
        cwd=cwd,
        capture_output=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_text_on_standard_input_gives_one_line() -> None:
    assert poimen("signature", given=OUTPUT).out == f"{sign(OUTPUT).key}\n"


def test_a_log_line_has_the_signature_of_its_profile() -> None:
    line = "job 17 finished in 32 ms"
    ended = poimen("signature", "--profile", "log", "--json", given=line)
    assert ended.json["signature"] == sign(line, profile="log").key
    assert ended.json["template"] == "job <*> finished in <*>"


def test_json_lines_are_signed_one_by_one() -> None:
    lines = "".join(
        json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate((OUTPUT, "disk full"))
    )
    ended = poimen("signature", "--jsonl", given=lines)
    assert (ended.code, ended.err) == (0, "")
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [set(one) for one in told] == [{"id", "signature", "family", "kind", "template"}] * 2
    assert [(one["id"], one["kind"]) for one in told] == [(0, "os_error"), (1, "disk_full")]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{oops", "line 2: not valid JSON."),
        ("[" * 100_000, "line 2: not valid JSON."),
        ("[1]", 'line 2: one JSON object with "id" and "text" is needed.'),
        ('{"id": "x"}', 'line 2: "text" is missing.'),
        ('{"id": "x", "text": 7}', 'line 2: "text" is not text.'),
        ('{"id": [], "text": "x"}', 'line 2: "id" is neither text nor a whole number.'),
    ],
)
def test_a_broken_line_is_told_by_its_number_and_the_rest_is_signed(line: str, sentence: str) -> None:
    whole = '{"id": "a", "text": "disk full"}'
    ended = poimen("signature", "--jsonl", given=f"{whole}\n{line}\n\n{whole}\n")
    assert (ended.code, ended.err) == (1, f"{sentence}\n")
    assert len(ended.out.splitlines()) == 2


def test_bytes_that_are_no_text_are_signed_nevertheless() -> None:
    assert poimen("signature", given=b"\xff\x00 ValueError: no region").out.startswith("s2:")


def test_a_secret_is_not_printed_and_its_value_does_not_count() -> None:
    first, second = (
        poimen("signature", "--json", given=f"Error: token {value} is not valid")
        for value in ("ghp_" + "a1B2" * 9, "ghp_" + "3cD4" * 9)
    )
    assert first.json == second.json
    assert "a1B2" not in first.out


def test_explaining_tells_the_line_what_counts_and_what_is_masked(tmp_path: Path) -> None:
    (tmp_path / "error.txt").write_text(OUTPUT)
    lines = poimen("explain", "error.txt", cwd=tmp_path).out.splitlines()
    key = sign(OUTPUT).key
    assert lines[0] == f"{key}  os_error  line 5: OSError: [Errno 98] Address already in use: 10.0.0.1:8080"
    assert lines[1] == "kept OSError · masked 1 address"


def test_explaining_reads_standard_input_and_says_the_same_in_json() -> None:
    told = poimen("explain", "--json", given=OUTPUT).json
    assert (told["line_number"], told["kind"], told["weak"]) == (5, "os_error", False)
    assert (told["kept"], told["masked"]) == (["OSError"], {"address": 1})


def test_an_output_that_names_no_cause_is_called_weak() -> None:
    assert "weak" in poimen("explain", given="Error: Process completed with exit code 2.").out


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = poimen("explain", "missing.txt", cwd=tmp_path)
    assert (ended.code, ended.err) == (2, "missing.txt is not there.\n")


async def test_an_alias_is_made_listed_and_undone(database: Database, tmp_path: Path) -> None:
    await database.run_sql(SEEN)
    variables = {"POIMEN_POSTGRES_DSN": database.app_dsn, "POIMEN_MASKING_KEY": MASKING_KEY}

    def typed(*arguments: str) -> Ended:
        return poimen("alias", *arguments, cwd=tmp_path, **variables)

    assert typed("--list").out == "No signature stands for another.\n"
    made = typed(GERMAN[:9], PORT[:9], "--reason", "one failure in two languages")
    assert made.out == f"{GERMAN} stands for {PORT} in acme/api.\n"
    assert typed(PROXY, GERMAN).out == f"{PROXY} stands for {GERMAN} in acme/api, and so for {PORT}.\n"
    listed = typed("--list", "--scope", "acme/api", "--json").json
    assert [(one["signature"], one["root"]) for one in listed] == [(PROXY, PORT), (GERMAN, PORT)]
    assert "one failure in two languages" in typed("--list").out
    assert typed("--undo", GERMAN).out == f"{GERMAN} stands for itself again in acme/api.\n"
    assert [one["root"] for one in typed("--list", "--json").json] == [GERMAN]
    circle = typed(GERMAN, PROXY)
    assert (circle.code, circle.out) == (1, "")
    assert circle.err.endswith("the two would go round in a circle.\n")


@pytest.mark.parametrize("arguments", [(), (PORT,), ("--list", "--undo", PORT), (PORT, GERMAN, "--list")])
def test_an_alias_command_does_one_thing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ended = poimen("alias", *arguments, cwd=tmp_path)
    assert ended.code == 2
    assert ended.err == "Give two signatures, or --list, or --undo with one signature.\n"
