"""The `poimen` program without anything running: what it says, and the code it ends with."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from poimen.contracts.problems import InvalidInput, Problem
from poimen.entry import refuse
from tests.fixtures_postgres import Database
from tests.worker.running import POIMEN, Ended, clean_environment, run_program
from worker.cli import entry
from worker.cli.run import _ended
from worker.cli.up import _welcome
from worker.stack.postgres import RunningPostgres
from worker.stack.state import StackError, choose_ports
from worker.stack.up import Addresses

HEAD = "name: checks\nscope: acme/api\nphases:\n  - id: T0\n    steps:\n"
TINY = HEAD + "      - id: one\n        run: {command: [echo]}\n"


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """Variables that lead to a Temporal that is not there."""
    return {"TEMPORAL_ADDRESS": f"127.0.0.1:{choose_ports(['none'])['none']}"}


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run a command in this process: the same code as the program's, without starting an interpreter."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **variables: str) -> Ended:
        monkeypatch.setattr("os.environ", clean_environment(variables))
        code = entry.run(arguments)
        return Ended(code, *capfd.readouterr())

    return run


async def poimen(*arguments: str, cwd: Path, variables: dict[str, str] | None = None) -> Ended:
    return await run_program(str(POIMEN), *arguments, variables=variables or {}, cwd=cwd)


async def test_an_unknown_command_is_answered_with_the_one_that_was_meant(tmp_path: Path) -> None:
    ended = await poimen("serach", "x", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == 'poimen: no command "serach"; did you mean "search"?\nTry: poimen --help\n'


async def test_an_unknown_option_is_answered_with_the_place_of_help(tmp_path: Path) -> None:
    ended = await poimen("run", "x.yaml", "--memroy", "on", cwd=tmp_path)
    assert ended.code == 2
    assert ended.err.endswith("Try: poimen --help\n")


async def test_without_a_command_it_lists_them(tmp_path: Path) -> None:
    ended = await poimen(cwd=tmp_path)
    assert ended.code == 2
    assert "run a definition and show what its steps came to" in ended.out


async def test_it_names_its_version(tmp_path: Path) -> None:
    assert (await poimen("--version", cwd=tmp_path)).out.startswith("poimen-memory 0.")


def test_reading_a_command_line_imports_nothing_slow() -> None:
    script = (
        "import sys; from worker.cli.arguments import parse; parse(['run', 'x.yaml']);"
        "sys.exit(bool({'temporalio', 'pydantic', 'psycopg'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_schema_is_one_json_schema(run_here: Callable[..., Ended], options: tuple[str, ...]) -> None:
    ended = run_here("schema", *options)
    assert ended.code == 0
    assert ended.json["$schema"].startswith("https://json-schema.org/")
    assert {"name", "scope", "phases"} <= set(ended.json["required"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            HEAD + "      - id: one\n        run: {comand: [echo]}\n",
            'bad.yaml line 7: phases[0].steps[0].run has no field "comand"; did you mean "command"?',
        ),
        (HEAD + "      - id: one\n     x\n", "bad.yaml line "),
        (
            HEAD
            + "      - {id: a, needs: [b], run: {command: [x]}}\n      - {id: b, needs: [a], run: {command: [x]}}\n",
            "Phase T0: needs form a cycle: a → b → a.",
        ),
        (TINY.replace("acme/api", "a" * 257), "scope has 257 characters; at most 256."),
        ("", "bad.yaml is empty; a definition is one object with"),
    ],
)
def test_a_bad_definition_is_refused_in_a_sentence_and_nothing_is_started(
    run_here: Callable[..., Ended], nowhere: dict[str, str], text: str, sentence: str
) -> None:
    Path("bad.yaml").write_text(text)
    ended = run_here("run", "bad.yaml", **nowhere)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert len(ended.err.splitlines()) == 1


MISSPELT = HEAD + "      - {id: one, run: {comand: [x]}}\n      - {id: two, run: {comand: [x]}}\n"


def test_each_mistake_in_a_definition_has_a_line_of_its_own(
    run_here: Callable[..., Ended], nowhere: dict[str, str]
) -> None:
    Path("bad.yaml").write_text(MISSPELT)
    ended = run_here("run", "bad.yaml", **nowhere)
    assert (ended.code, ended.out) == (2, "")
    assert [line.partition(": ")[0] for line in ended.err.splitlines()] == ["bad.yaml line 6", "bad.yaml line 7"]


def test_every_mistake_in_a_definition_is_named(run_here: Callable[..., Ended], nowhere: dict[str, str]) -> None:
    Path("bad.yaml").write_text(HEAD + "".join(f"      - {{id: s{n}, run: {{comand: [x]}}}}\n" for n in range(7)))
    lines = run_here("run", "bad.yaml", **nowhere).err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"bad.yaml line {n}" for n in range(6, 13)]


def test_mistakes_stay_on_one_line_for_programs(run_here: Callable[..., Ended], nowhere: dict[str, str]) -> None:
    Path("bad.yaml").write_text(MISSPELT)
    ended = run_here("run", "bad.yaml", "--json", **nowhere)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize(
    ("workflow_id", "sentence"),
    [
        ("", "--id is empty; give 1 to 1,000 characters."),
        ("a\x1b[31mb", "--id contains U+001B at character 2."),
        ("a\nb", "--id contains U+000A at character 2."),
        ("x" * 1_001, "--id has 1,001 characters; at most 1,000."),
        (" a", "--id begins or ends with white space."),
    ],
)
def test_a_workflow_id_that_cannot_be_shown_is_refused_before_anything_is_asked(
    run_here: Callable[..., Ended], nowhere: dict[str, str], workflow_id: str, sentence: str
) -> None:
    Path("tiny.yaml").write_text(TINY)
    ended = run_here("run", "tiny.yaml", "--id", workflow_id, **nowhere)
    assert (ended.code, ended.out, ended.err) == (2, "", f"{sentence}\n")


def test_a_workspace_that_is_no_folder_here_is_said(run_here: Callable[..., Ended], nowhere: dict[str, str]) -> None:
    Path("tiny.yaml").write_text(TINY)
    ended = run_here("run", "tiny.yaml", "--workspace", "/nope", **nowhere)
    assert ended.err.startswith("--workspace /nope is no folder here; the executor looks for it below its roots.\n")


def test_a_stack_is_not_started_for_a_workspace_that_is_no_folder(run_here: Callable[..., Ended]) -> None:
    ended = run_here("up", "--workspace", "/nope")
    assert (ended.code, ended.err) == (2, "--workspace /nope is no folder; commands need one to run in.\n")
    assert not Path(".poimen").exists()


def test_what_a_worker_refuses_of_a_definition_has_a_line_each(
    run_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [Problem(f"phases[{number}]", f"phases[{number}] is empty.") for number in range(7)]

    async def refused(_arguments: object) -> int:
        raise _ended("rel-7", refuse(InvalidInput(*problems)))

    monkeypatch.setattr("worker.cli.run.run", refused)
    ended = run_here("run", "tiny.yaml")
    assert (ended.code, ended.err.splitlines()) == (2, [problem.reason for problem in problems])


async def test_a_definition_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = await poimen("run", "missing.yaml", cwd=tmp_path)
    assert (ended.code, ended.err) == (2, "missing.yaml is not there.\n")


def test_a_misspelt_variable_ends_a_command_with_2(run_here: Callable[..., Ended]) -> None:
    ended = run_here("migrate", POIMEN_TENANT="x")
    assert ended.code == 2
    assert ended.err == 'POIMEN_TENANT is not a setting; did you mean "POIMEN_TENANTS"?\n'


def test_without_temporal_a_command_ends_with_3_and_says_how_to_start_one(
    run_here: Callable[..., Ended], nowhere: dict[str, str]
) -> None:
    Path("tiny.yaml").write_text(TINY)
    ended = run_here("run", "tiny.yaml", **nowhere)
    assert ended.code == 3
    assert ended.err.startswith(f"Temporal does not answer at {nowhere['TEMPORAL_ADDRESS']}; is it running?")
    assert len(ended.err.splitlines()) == 1


def test_the_doctor_names_what_is_down_and_ends_with_3(run_here: Callable[..., Ended], nowhere: dict[str, str]) -> None:
    dsn = f"postgresql://app@{nowhere['TEMPORAL_ADDRESS']}/poimen"
    ended = run_here("doctor", "--json", **nowhere, POIMEN_POSTGRES_DSN=dsn, POIMEN_MASKING_KEY="k")
    assert (ended.code, ended.err) == (3, "")
    states = {finding["part"]: finding["state"] for finding in ended.json}
    assert (states["temporal"], states["postgres"], states["tier vault"]) == ("down", "down", "ok")


def test_the_doctor_tells_a_wrong_password_from_a_database_out_of_reach(
    run_here: Callable[..., Ended], nowhere: dict[str, str], database: Database
) -> None:
    dsn = database.app_dsn.replace("@", ":not-the-password@")
    ended = run_here("doctor", "--json", **nowhere, POIMEN_POSTGRES_DSN=dsn, POIMEN_MASKING_KEY="k")
    details = {finding["part"]: finding["detail"] for finding in ended.json}
    assert ended.code == 3
    for part in ("postgres", "tier signatures"):
        assert details[part].startswith("Postgres refuses the user or its password. ")
    assert "not-the-password" not in ended.out


def test_where_nothing_runs_the_doctor_says_so_and_how_to_start(
    run_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, nowhere: dict[str, str]
) -> None:
    # What is asked where nothing is set; a Temporal of somebody's own may run at the usual address of this machine.
    monkeypatch.setattr("worker.settings.DEFAULT_ADDRESS", nowhere["TEMPORAL_ADDRESS"])
    ended = run_here("doctor")
    assert (ended.code, ended.err, len(ended.out.splitlines())) == (3, "", 1)
    assert ended.out.startswith("down      stack              Nothing runs here: ")
    assert "`make up`" in ended.out
    assert "POIMEN_POSTGRES_DSN" in ended.out.partition("To use another")[2]


@pytest.mark.parametrize("command", [("run", "tiny.yaml"), ("runs",)])
def test_where_nothing_runs_a_command_that_needs_temporal_says_how_to_start(
    run_here: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    nowhere: dict[str, str],
    tmp_path: Path,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setattr("worker.settings.DEFAULT_ADDRESS", nowhere["TEMPORAL_ADDRESS"])
    (tmp_path / "tiny.yaml").write_text(TINY)
    ended = run_here(*command)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("Nothing runs here: ")
    away = run_here(*command, **nowhere)
    assert away.err.startswith("Temporal does not answer at 127.0.0.1:")


@pytest.mark.parametrize(
    "command", [("why", "rel-7"), ("search", "port"), ("retire", "les-1"), ("accept", "pat-1"), ("alias", "--list")]
)
def test_where_nothing_runs_a_command_that_reads_memory_says_how_to_start(
    run_here: Callable[..., Ended], command: tuple[str, ...]
) -> None:
    ended = run_here(*command)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("Nothing runs here: ")


def test_what_is_up_names_a_program_that_can_be_called_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(POIMEN.parents[2])
    fields = {field.name: "" for field in dataclasses.fields(Addresses)}
    line = _welcome(Addresses(**{**fields, "pid": 1})).splitlines()[-2]
    name, program, *_ = line.split()
    assert (name, Path(program).absolute()) == ("Try", POIMEN)


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_an_expected_error_is_shown_without_control_characters(
    run_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, as_json: tuple[str, ...]
) -> None:
    def refuse() -> Addresses:
        raise StackError("\x1b]0;mine\x07The \x1b[2Jdisk is full.")

    monkeypatch.setattr("worker.found_stack.find_running", refuse)
    ended = run_here("why", "rel-7", *as_json)
    assert (ended.code, ended.err) == (3, "The disk is full.\n")


def test_a_variable_that_leads_away_from_the_stack_that_runs_here_is_named(
    run_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, nowhere: dict[str, str]
) -> None:
    fields = {field.name: "" for field in dataclasses.fields(Addresses)}
    monkeypatch.setattr("worker.found_stack.find_running", lambda: Addresses(**{**fields, "pid": 1}))
    ended = run_here("why", "rel-7", **nowhere)
    assert ended.code == 3
    assert ended.err.startswith("TEMPORAL_ADDRESS leads away from the stack that runs here, and POIMEN_POSTGRES_DSN,")


def test_the_doctor_shows_a_file_name_without_its_control_characters(
    run_here: Callable[..., Ended], nowhere: dict[str, str]
) -> None:
    note = Path(".poimen/vault/local/a\x1b[2J\x1b]0;mine\x07b.md")
    note.parent.mkdir(parents=True)
    note.write_text("---\nkind: [\n---\n")
    dsn = f"postgresql://app@{nowhere['TEMPORAL_ADDRESS']}/poimen"
    ended = run_here("doctor", **nowhere, POIMEN_POSTGRES_DSN=dsn, POIMEN_MASKING_KEY="k")
    assert "not: ab.md line 2: " in ended.out
    assert "\x1b" not in ended.out


async def test_down_without_a_stack_says_so(tmp_path: Path) -> None:
    assert (await poimen("down", cwd=tmp_path)).out == "No stack runs here.\n"
    assert not (tmp_path / ".poimen").exists()


async def test_migrating_brings_a_database_to_the_schema_once(tmp_path: Path, postgres_server: RunningPostgres) -> None:
    name = f"fresh_{tmp_path.name[-12:].replace('-', '_')}"
    await postgres_server.run_sql(f'CREATE DATABASE "{name}" OWNER poimen_owner;')
    database = Database(name, postgres_server)
    await database.run_sql("CREATE EXTENSION vector;")
    variables = {"POIMEN_POSTGRES_OWNER_DSN": database.owner_dsn}
    planned = await poimen("migrate", "--dry-run", "--json", cwd=tmp_path, variables=variables)
    assert planned.json["migrations"][0] == "0001_journal.sql"
    assert await database.run_sql("SELECT to_regclass('journal');") == "\n"
    applied = await poimen("migrate", cwd=tmp_path, variables=variables)
    assert applied.out.splitlines() == [f"{file} applied" for file in planned.json["migrations"]]
    assert (await poimen("migrate", cwd=tmp_path, variables=variables)).out == "The schema is up to date.\n"
    await postgres_server.run_sql(f'DROP DATABASE "{name}" WITH (FORCE);')


def test_migrating_needs_the_owner(run_here: Callable[..., Ended]) -> None:
    ended = run_here("migrate")
    assert ended.code == 2
    assert ended.err.startswith("POIMEN_POSTGRES_OWNER_DSN is not set;")


async def test_a_schema_of_a_later_version_ends_with_4(tmp_path: Path, database: Database) -> None:
    await database.run_sql("INSERT INTO schema_migrations VALUES (9999, '9999_later.sql', 'x');")
    variables = {"POIMEN_POSTGRES_OWNER_DSN": database.owner_dsn}
    ended = await poimen("migrate", cwd=tmp_path, variables=variables)
    assert ended.code == 4
    assert ended.err == "The database has migration 9999, which this program does not know; update the program.\n"


async def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    ended = await run_program("sh", "-c", f"{POIMEN} schema | head -c 1", variables={}, cwd=tmp_path)
    assert (ended.out, ended.err) == ("{", "")
