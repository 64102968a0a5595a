"""Read sets of questions with their right answers: `corpus.jsonl` and `queries.jsonl` in a folder each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CORPUS: Final = "corpus.jsonl"
QUERIES: Final = "queries.jsonl"


class BadQuestions(ValueError):
    """A folder or a line of a set cannot be used; the sentence names the file and the line."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one group, and the ids of the items that answer it; `own` is an item that does not count."""

    text: str
    relevant: frozenset[str]
    own: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What is searched together: items by id, in the order of their file, and what is asked of them."""

    items: Mapping[str, str]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Groups that are apart from each other, under a name."""

    name: str
    groups: tuple[Group, ...]

    @property
    def questions(self) -> list[Question]:
        """Give the questions of all groups."""
        return [question for group in self.groups for question in group.questions]


def read_sets(folder: Path) -> tuple[QuestionSet, ...]:
    """Read the set that the folder is, or those in the folders below it, in order of their names.

    A line is an object: `id`, `text` and optionally `group` of an item; `text`, `rel` (ids of the answers) and
    optionally `group` and `self` (an item that does not count) of a question. Raises BadQuestions.
    """
    if not folder.is_dir():
        raise BadQuestions(f"{folder} is not a folder.")
    if (folder / CORPUS).exists():
        return (_read_set(folder),)
    below = sorted(path for path in folder.iterdir() if (path / CORPUS).exists())
    if not below:
        raise BadQuestions(f"{folder} has no {CORPUS}, and neither has a folder in it.")
    return tuple(_read_set(path) for path in below)


def _read_set(folder: Path) -> QuestionSet:
    items: dict[str, dict[str, str]] = {}
    for where, line in _lines(folder / CORPUS):
        group = items.setdefault(_text(line, "group", where, default=""), {})
        item = _text(line, "id", where)
        if item in group:
            raise BadQuestions(f'{where}: the id "{item}" is there twice.')
        group[item] = _text(line, "text", where)
    if not items:
        raise BadQuestions(f"{folder / CORPUS} has no items.")
    questions: dict[str, list[Question]] = {name: [] for name in items}
    for where, line in _lines(folder / QUERIES):
        group_name = _text(line, "group", where, default="")
        if group_name not in items:
            raise BadQuestions(f'{where}: {CORPUS} has no items of the group "{group_name}".')
        questions[group_name].append(_question(line, items[group_name], where))
    if not any(questions.values()):
        raise BadQuestions(f"{folder / QUERIES} has no questions.")
    return QuestionSet(folder.resolve().name, tuple(Group(items[name], questions[name]) for name in items))


def _question(line: Mapping[str, Any], items: Mapping[str, str], where: str) -> Question:
    relevant = line.get("rel")
    if not isinstance(relevant, list) or not relevant or not all(isinstance(item, str) for item in relevant):
        raise BadQuestions(f'{where}: "rel" is not a list of ids.')
    unknown = [item for item in relevant if item not in items]
    if unknown:
        raise BadQuestions(f'{where}: "rel" names "{unknown[0]}", which is no item of the question\'s group.')
    own = line.get("self")
    if own is not None and own not in items:
        raise BadQuestions(f'{where}: "self" is no item of the question\'s group.')
    return Question(_text(line, "text", where), frozenset(relevant), own)


def _lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give each line that is not blank, and where it stands."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                where = f"{path}, line {number}"
                if text.strip():
                    yield where, _object(text, where)
    except UnicodeDecodeError:
        raise BadQuestions(f"{path} is not UTF-8.") from None
    except OSError as error:
        raise BadQuestions(f"{path} cannot be read: {error.strerror}.") from None


def _object(text: str, where: str) -> Mapping[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise BadQuestions(f"{where} is not JSON.") from None
    if not isinstance(line, dict):
        raise BadQuestions(f"{where} is not an object.")
    return line


def _text(line: Mapping[str, Any], name: str, where: str, *, default: str | None = None) -> str:
    value = line.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise BadQuestions(f'{where}: "{name}" is {"missing" if value is None else "not a text with words"}.')
    return value
