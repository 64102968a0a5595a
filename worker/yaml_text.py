"""Read YAML from outside into a tree with line numbers: no aliases, no tags, no repeated keys, all of it bounded."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

MAX_DEPTH = 20
MAX_NODES = 10_000
_LOADER = yaml.SafeLoader  # used for its events alone: the pure one, so that the sentences are the same everywhere


@dataclass(slots=True)
class Scalar:
    """Text as typed. Plain text has no quotes and may stand for a number, true, false or null."""

    line: int
    text: str
    plain: bool


@dataclass(slots=True)
class Sequence:
    """A list; `line` is where it begins."""

    line: int
    items: list["Node"] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """An object: each key with its line and its value."""

    line: int
    entries: dict[str, tuple[int, "Node"]] = field(default_factory=dict)


Node = Scalar | Sequence | Mapping


class YamlRefused(ValueError):
    """YAML that is not valid or not allowed: a sentence without its file, and the place it begins with."""

    def __init__(self, line: int, column: int | None, reason: str) -> None:
        super().__init__(line, column, reason)
        place = f"line {line:,}" if column is None else f"line {line:,}, column {column:,}"
        self.sentence = f"{place}: {reason}."


def read_tree(text: str) -> Node | None:
    """Return the tree of the one document in `text`, None when it has none; raise YamlRefused."""
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlRefused(line, column, f"not valid YAML: {_reason(error)}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1) + 1
        character = f"U+{ord(text[error.position]):04X}"
        reason = f"not valid YAML: {character} is not allowed in a file"
        raise YamlRefused(before.count("\n") + 1, column, reason) from None


_REASONS = (
    (r"could not find expected ':'", "expected a colon after a key"),
    (r"mapping values are not allowed", "a colon is not allowed here; quote the text"),
    (r"sequence entries are not allowed", 'a list item is not allowed here; begin its "-" on a line of its own'),
    (r"mapping keys are not allowed", "a key is not allowed here"),
    (r"found character '\\t'", "a tab is not allowed here; indent with spaces"),
    (r"found character", "a character that begins no text; quote the text"),
    (r"unexpected end of stream|unexpected document separator", "a quote is not closed"),
    (r"unknown escape|escape sequence", "an unknown escape in a quoted text"),
    (r"expected ',' or '\]'", 'expected "," or "]"'),
    (r"expected ',' or '\}'", 'expected "," or "}"'),
    (r"expected <block end>", "expected a key"),
    (r"expected the node content", "expected a value"),
    (r"expected '<document start>'", "expected one document"),
    (r"expected (alphabetic|.*tag)|undefined tag handle|anchor|alias", "an odd use of &, * or !; quote the text"),
)


def _reason(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    for pattern, reason in _REASONS:
        if re.search(pattern, problem):
            in_list = reason == "expected a key" and "sequence" in (error.context or "")
            return 'expected a list item that begins with "-"' if in_list else reason
    return "the text does not fit here"


class _Builder:
    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._nodes = 0

    def document(self) -> Node | None:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                if root is not None:
                    raise YamlRefused(_line(event), None, "one document is needed; it has more")
                root = self._node(event, 1)
        return root

    def _node(self, event: yaml.Event, depth: int) -> Node:
        line = _line(event)
        self._refuse(event, line, depth)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(line, event.value, plain=not event.style)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(Sequence(line), depth)
        return self._mapping(Mapping(line), depth)

    def _sequence(self, sequence: Sequence, depth: int) -> Sequence:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            sequence.items.append(self._node(event, depth + 1))
        return sequence

    def _mapping(self, mapping: Mapping, depth: int) -> Mapping:
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise YamlRefused(key.line, None, "a key must be text")
            if key.text in mapping.entries:
                raise YamlRefused(key.line, None, f"{_shown(key.text)} is there twice")
            mapping.entries[key.text] = (key.line, self._node(next(self._events), depth + 1))
        return mapping

    def _refuse(self, event: yaml.Event, line: int, depth: int) -> None:
        self._nodes += 1
        if getattr(event, "anchor", None) is not None:  # an alias has one too
            raise YamlRefused(line, None, "anchors and aliases (& and *) are not allowed; quote the text")
        if getattr(event, "tag", None) is not None:
            raise YamlRefused(line, None, "tags (!) are not allowed; quote the text")
        if depth > MAX_DEPTH:
            raise YamlRefused(line, None, f"nested deeper than {MAX_DEPTH} levels")
        if self._nodes > MAX_NODES:
            raise YamlRefused(line, None, f"more than {MAX_NODES:,} values")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _shown(key: str) -> str:
    return f'"{key}"' if re.fullmatch(r"[\w.-]{1,64}", key) else "a key"
