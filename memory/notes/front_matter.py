"""Read the YAML front matter of a note: every value is text or a list of texts, whatever YAML makes of it."""

from collections.abc import Hashable
from typing import Final

import yaml

FENCE: Final = "---"
LONGEST_BYTES: Final = 65_536
DEEPEST: Final = 20

Fields = dict[str, str | tuple[str, ...]]


class BrokenFrontMatterError(Exception):
    """The front matter cannot be read; `line` counts from 1 in the note."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class _PlainLoader(yaml.BaseLoader):
    """Scalars stay text (`no` is "no"); aliases, duplicate keys and deep nesting are refused."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise self._refusal("aliases are not read")
        if self.depth == DEEPEST:
            raise self._refusal("nested too deep")
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _refusal(self, why: str) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=why, problem_mark=self.get_mark())

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in seen:
                why = "a key is not plain text" if key is None else f"{key} is there twice"
                raise yaml.MarkedYAMLError(problem=why, problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def split(text: str) -> tuple[Fields, str]:
    """Give the fields and the body of a note; a note without front matter has no fields.

    Raises BrokenFrontMatterError with the line to look at.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    # Only the newline ends a line here: str.splitlines would also split on U+2028 and form feeds.
    lines = plain.split("\n")
    if lines[0].rstrip() != FENCE:
        return {}, plain
    closing = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if closing is None:
        raise BrokenFrontMatterError(1, "the front matter is not closed by a line of three dashes")
    head = "\n".join(lines[1:closing])
    if len(head.encode("utf-8", "replace")) > LONGEST_BYTES:
        raise BrokenFrontMatterError(1, f"the front matter is longer than {LONGEST_BYTES:,} bytes")
    return _fields(head), "\n".join(lines[closing + 1 :])


def _fields(head: str) -> Fields:
    try:
        # S506 is about loaders that build objects; this one builds text only.
        loaded = yaml.load(head, Loader=_PlainLoader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # Counted from the fence, which is line 1; YAML counts from 0.
        raise BrokenFrontMatterError(mark.line + 2 if mark else 1, error.problem or "not valid YAML") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise BrokenFrontMatterError(1, f"not valid YAML ({type(error).__name__})") from None
    if loaded is None or loaded == "":
        return {}
    if not isinstance(loaded, dict):
        raise BrokenFrontMatterError(2, "the front matter is not a list of keys and values")
    # A nested mapping is somebody's own field: kept out, not refused.
    return {str(key): _plain(value) for key, value in loaded.items() if isinstance(value, str | list)}


def _plain(value: str | list[object]) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value
    return tuple(entry for entry in value if isinstance(entry, str))
