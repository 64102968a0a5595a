import json
from pathlib import Path
from typing import Any

import pytest

from memory.vectors.evaluation.question_sets import BadQuestions, Question, read_sets

ITEMS = [{"id": "a", "text": "the port is in use"}, {"id": "b", "text": "a stale lock", "group": "other"}]
QUESTIONS = [{"text": "which port?", "rel": ["a"]}, {"text": "which lock?", "rel": ["b"], "group": "other"}]


def write(folder: Path, items: list[Any] = ITEMS, questions: list[Any] = QUESTIONS) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in (("corpus.jsonl", items), ("queries.jsonl", questions)):
        text = "\n\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_groups_are_kept_apart(tmp_path: Path) -> None:
    (one,) = read_sets(write(tmp_path / "issues"))
    assert one.name == "issues"
    assert [dict(group.items) for group in one.groups] == [{"a": "the port is in use"}, {"b": "a stale lock"}]
    assert one.questions == [Question("which port?", frozenset({"a"})), Question("which lock?", frozenset({"b"}))]


def test_a_folder_of_sets_is_read_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("second", "first"):
        write(tmp_path / name)
    (tmp_path / "notes").mkdir()
    assert [one.name for one in read_sets(tmp_path)] == ["first", "second"]


@pytest.mark.parametrize(
    ("items", "questions", "sentence"),
    [
        (['{"id": "a"'], QUESTIONS, r"corpus\.jsonl, line 1 is not JSON"),
        ([*ITEMS, "[1]"], QUESTIONS, r"corpus\.jsonl, line 5 is not an object"),
        ([{"id": "a"}], QUESTIONS, r'corpus\.jsonl, line 1: "text" is missing'),
        ([{"id": 7, "text": "x"}], QUESTIONS, r'line 1: "id" is not a text with words'),
        ([{"id": "a", "text": " "}], QUESTIONS, r'line 1: "text" is not a text with words'),
        ([ITEMS[0], ITEMS[0]], QUESTIONS, r'line 3: the id "a" is there twice'),
        ([], QUESTIONS, "has no items"),
        (ITEMS, [], "has no questions"),
        (ITEMS, [{"text": "x", "rel": ["b"]}], r'queries\.jsonl, line 1: "rel" names "b", which is no item'),
        (ITEMS, [{"text": "x", "rel": []}], 'line 1: "rel" is not a list of ids'),
        (ITEMS, [{"text": "x", "rel": "a"}], 'line 1: "rel" is not a list of ids'),
        (ITEMS, [{"text": "x", "rel": ["a"], "group": "third"}], 'no items of the group "third"'),
        (ITEMS, [{"text": "x", "rel": ["a"], "self": "z"}], 'line 1: "self" is no item'),
        (ITEMS, [{"rel": ["a"]}], 'line 1: "text" is missing'),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, items: list[Any], questions: list[Any], sentence: str
) -> None:
    with pytest.raises(BadQuestions, match=sentence):
        read_sets(write(tmp_path / "set", items, questions))


def test_missing_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadQuestions, match="nowhere is not a folder"):
        read_sets(tmp_path / "nowhere")
    with pytest.raises(BadQuestions, match=r"has no corpus\.jsonl"):
        read_sets(tmp_path)
    (write(tmp_path / "set") / "queries.jsonl").unlink()
    with pytest.raises(BadQuestions, match=r"queries\.jsonl cannot be read: No such file"):
        read_sets(tmp_path)
    (tmp_path / "set" / "queries.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadQuestions, match="is not UTF-8"):
        read_sets(tmp_path)
