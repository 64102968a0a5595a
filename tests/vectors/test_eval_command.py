"""`poimen eval` as a person runs it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.settings import MemorySettings
from memory.vectors.evaluation import cutoff
from tests.worker.running import Ended, clean_environment
from worker.cli import entry


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **variables: str) -> Ended:
        monkeypatch.setattr("os.environ", clean_environment(variables))
        code = entry.run(arguments)
        return Ended(code, *capfd.readouterr())

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, things in (("code", ("port", "lock", "cache")), ("kitchen", ("bread", "soup", "apple"))):
        path = tmp_path / "sets" / name
        path.mkdir(parents=True)
        items = [{"id": thing, "text": f"{thing} trouble of the {name}"} for thing in things]
        questions = [{"text": f"which {thing}", "rel": [thing]} for thing in things]
        for file, lines in (("corpus.jsonl", items), ("queries.jsonl", questions)):
            (path / file).write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "sets"


@pytest.fixture
def variables(index_settings: MemorySettings) -> dict[str, str]:
    return {
        "POIMEN_POSTGRES_DSN": index_settings.postgres_dsn,
        "POIMEN_MASKING_KEY": "k",
        "POIMEN_EMBEDDER": "none",
    }


def test_every_set_and_the_mean_are_told(
    run_here: Callable[..., Ended], folder: Path, variables: dict[str, str]
) -> None:
    ended = run_here("eval", "retrieval", str(folder), "--index", "pgvector", "--json", **variables)
    assert ended.code == 0
    told = json.loads(ended.out)
    assert (told["index"], told["embedder"], list(told["sets"])) == ("pgvector", None, ["code", "kitchen"])
    assert told["mean"]["recall@5"] == 1
    table = run_here("eval", "retrieval", str(folder), "--sets", "code", **variables).out.splitlines()
    assert [line.split()[0] for line in table] == ["set", "code", "mean", "with"]


def test_the_cut_off_is_told_for_each_set(
    run_here: Callable[..., Ended], folder: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutoff, "SMALL_SCOPES", 4)
    ended = run_here(
        "eval", "cutoff", str(folder / "code"), "--against", str(folder / "kitchen"), "--json", **variables
    )
    assert ended.code == 0
    assert json.loads(ended.out)["sets"]["code"]["whole"]["unrelated_rejected"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("retrieval", "nowhere"), "nowhere is not a folder."),
        (("retrieval", "sets", "--sets", "code", "shed"), 'sets has no set "shed"; it has code, kitchen.'),
        (("cutoff", "sets"), "eval cutoff needs --against"),
        (("cutoff", "sets/code", "--against", "sets/code"), 'no question that "code" does not ask itself'),
    ],
)
def test_a_wrong_question_is_answered_before_anything_is_opened(
    run_here: Callable[..., Ended], folder: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = run_here("eval", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
