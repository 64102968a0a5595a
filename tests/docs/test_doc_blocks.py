"""What the pages show is what the program takes: definitions, messages, settings, commands, links."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from poimen.contracts import definition, execution, memory_calls, run_io
from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import decode, encode
from poimen.contracts.problems import InvalidInput
from poimen.memory_link import MOST_PENDING, SILENCE
from poimen.temporal_memory import ATTEMPT_LIMIT, CALL_LIMIT, FINAL_ERRORS
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tests.packaging.programs import inherited, run_program
from worker.cli.arguments import COMMANDS
from worker.definitions import load_definition
from worker.options import read_options
from worker.settings import Settings
from workflows.deliver_records import LIFETIME

ALL = [block for page in PAGES for block in blocks(page)]
CONTRACTS = {name: value for module in (memory_calls, execution, run_io) for name, value in vars(module).items()}
HARNESS = (ROOT / "docs/harness.md").read_text()
PARTS = (
    "WorkflowDef",
    "Budget",
    "Retry",
    "Phase",
    "Step",
    "Run",
    "Check",
    "Judge",
    "Repair",
    "GoTo",
    "Gate",
    "ActivityCall",
)


def of(language: str) -> list[Block]:
    return [block for block in ALL if block.language == language]


def where(block: Block) -> str:
    return block.where


def test_every_block_says_what_it_is() -> None:
    known = {"console", "yaml", "json", "python", "toml", "text"}
    assert not [block.where for block in ALL if block.language not in known]


@pytest.mark.parametrize("block", of("yaml"), ids=where)
def test_a_definition_on_a_page_is_one(block: Block, tmp_path: Path) -> None:
    file = tmp_path / str(block.file)
    file.write_text(block.text)
    if "broken" in block.words:
        with pytest.raises(InvalidInput):
            load_definition(file)
    else:
        assert load_definition(file).phases


def test_yaml_json_and_python_are_one_definition(tmp_path: Path) -> None:
    block = next(block for block in of("yaml") if block.file == "release.yaml")
    (tmp_path / "release.yaml").write_text(block.text)
    loaded = load_definition(tmp_path / "release.yaml")
    assert decode(WorkflowDef, encode(loaded)).message == loaded
    assert yaml.safe_load(block.text)["name"] == loaded.name


@pytest.mark.parametrize("block", of("json"), ids=where)
def test_a_message_on_a_page_is_one_without_unknown_fields(block: Block) -> None:
    contract = CONTRACTS[next(word for word in block.words if "." not in word)]
    assert decode(contract, block.text.encode(), block.where).warnings == ()


@pytest.mark.parametrize("block", of("python"), ids=where)
def test_python_on_a_page_compiles_and_is_the_example_it_names(block: Block) -> None:
    compile(block.text, block.where, "exec", flags=0x2000)  # with top-level await, as a fragment of a workflow has
    for path in (word for word in block.words if "/" in word):
        assert block.text in (ROOT / path).read_text(), f"{block.where} is not what {path} has"


def test_the_models_file_on_the_page_is_read(tmp_path: Path) -> None:
    block = next(block for block in of("toml"))
    (tmp_path / "models.toml").write_text(block.text)
    assert tomllib.loads(block.text)
    variables = {
        "POIMEN_MODELS_FILE": str(tmp_path / "models.toml"),
        "MODEL_KEY": "a key",
        "POIMEN_STATE": str(tmp_path),
    }
    assert Settings.load(variables).executor().models["small"].timeout == 120


@pytest.mark.parametrize("part", PARTS)
def test_every_field_of_a_definition_is_explained(part: str) -> None:
    model: type[BaseModel] = vars(definition)[part]
    names = [field.alias or name for name, field in model.model_fields.items()]
    assert not [name for name in names if f"`{name}`" not in HARNESS and f"`{name}:" not in HARNESS]


def test_every_variable_on_a_page_is_one() -> None:
    of_steps = set(re.findall(r'"(POIMEN_\w+)"', (ROOT / "executors/command.py").read_text()))
    assert of_steps <= set(re.findall(r"`(POIMEN_\w+)`", HARNESS))
    text = "\n".join(page.read_text() for page in PAGES)
    values = {"COMMANDS": "off", "MODELS_FILE": "", "INDEX": "opensearch", "OPENSEARCH_PASSWORD_FILE": ""}
    values |= {"OPENSEARCH_URL": "https://a:9200", "EMBEDDER": "none", "EMBEDDING_URL": "https://a/v1"}
    values |= {"EMBEDDING_KEY_FILE": ""}
    for name in set(re.findall(r"\bPOIMEN_\w+", text)) - of_steps:
        short = name.removeprefix("POIMEN_")
        counts = short.endswith(("_DAYS", "_SECONDS", "_REPLICAS", "_SIZE", "_DIMENSION"))
        read_options({name: "7" if counts else values.get(short, "/a")})


def test_the_table_of_commands_is_the_command_line() -> None:
    rows = re.findall(r"^\| (`poimen .*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`poimen (\w+)", row)}
    assert named == COMMANDS.keys()


def test_every_activity_on_the_page_is_registered() -> None:
    from activities.table import TABLE  # noqa: PLC0415  because only this test needs the stores behind it

    rows = re.findall(r"^\| `(\w+)` \| ", (ROOT / "docs/activities.md").read_text(), re.MULTILINE)
    registered = {entry.name for entry in TABLE}
    assert [name for name in rows if name[0].isupper() and name in registered]
    assert registered <= set(rows), registered - set(rows)


def test_every_make_target_on_a_page_is_one() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"(?:`|    )make (\w+)", text))
    assert {"demo", "up", "test", "help"} <= named <= targets
    listed = run_program(["make", "--silent", "help"], environment=inherited())
    assert named - {"help"} <= set(re.findall(r"^make (\w+)", listed, re.MULTILINE))


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs/decisions").glob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


def test_every_decision_is_listed_and_has_its_three_parts() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert listed == sorted(path.name for path in folder.glob("0*.md"))
    for name in listed:
        text = (folder / name).read_text()
        assert text.startswith(f"# {name[:4]} ")
        assert [part for part in ("**Context.**", "**Choice.**", "**Price.**") if part not in text] == []


def test_the_readme_begins_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    opening = "\n".join(lines[:20])
    assert lines[0] == "# Poimen Memory"
    assert re.search(r"^    make demo .*\n    make up ", opening, re.MULTILINE)


def test_the_bounds_on_the_page_are_the_bounds_in_the_code() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs/down.md").read_text(), re.MULTILINE))
    attempt, call = ATTEMPT_LIMIT.total_seconds(), CALL_LIMIT.total_seconds()
    assert rows["one call to memory"].startswith(f"one attempt of at most {attempt:g} s; {call:g} s in all")
    assert rows["after a lost call"].startswith(f"{SILENCE.total_seconds():g} s of silence")
    assert rows["records that wait in one step"] == str(MOST_PENDING)
    hours = LIFETIME.total_seconds() / 3600
    assert rows["a record that could not be written"].startswith(f"delivered for {hours:g} h")


def test_every_final_error_is_on_the_page() -> None:
    text = (ROOT / "docs/activities.md").read_text()
    assert [name for name in FINAL_ERRORS if f"`{name}`" not in text] == []


def test_every_error_is_on_the_page_and_says_whether_it_is_tried_again() -> None:
    from memory.errors import FinalError, SchemaMismatch, StoreUnavailable  # noqa: PLC0415  as above

    final = {kind.__name__ for kind in FinalError.__subclasses__()} - {SchemaMismatch.__name__} | {"InvalidInput"}
    kinds = (StoreUnavailable, *StoreUnavailable.__subclasses__())
    again = {kind for kind in kinds if kind.__module__ == FinalError.__module__}
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| .* \| (no|yes)[^|]* \|$", (ROOT / "docs/activities.md").read_text(), re.MULTILINE
    )
    told = {name: word for names, word in rows for name in re.findall(r"\w+", names)}
    assert {name for name, word in told.items() if word == "no"} == final == FINAL_ERRORS
    assert {name for name, word in told.items() if word == "yes"} == {one.__name__ for one in again} | {"InternalError"}
