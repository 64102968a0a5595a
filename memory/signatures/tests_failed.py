"""Test runners: the first failed check, named by its test where the check itself names nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures.clean import Line
from memory.signatures.finding import Finding, Rank

_PYTEST_LINE = re.compile(r"E\s{2,12}(?P<words>\S.*)$")
_PYTEST_TITLE = re.compile(r"_{3,}\s(?:ERROR (?:at setup of|at teardown of|collecting) )?(?P<name>\S.{0,200}?)\s_{3,}$")
_PYTEST_SUMMARY = re.compile(r"(?:FAILED|ERROR) (?P<id>\S{1,400}?)(?: - (?P<words>.+))?$")
_ASSERTION = re.compile(r"(?:AssertionError\b|assert\b|Failed: |expect\()")
_JEST_TITLE = re.compile(r"\u25cf (?P<name>.+)$|FAIL\s+\S{1,300}(?: \[[^\]]{1,40}\])? > (?P<test>.+)$")
_JEST_BARE = re.compile(r"(?:expect\(|thrown: |AssertionError|assert)")
_GO_FAIL = re.compile(r"--- FAIL: (?P<name>\S+)")
_GO_TEXT = re.compile(r"[\w./-]{1,200}_test\.go:\d+: (?P<words>.+)$")
_CALL_LOG = re.compile(r"-?\s*(?P<words>waiting for .+?)(?: to be .*)?$")
_LOCATOR_BELOW = re.compile(r"Locator: (?P<words>.+)$")
_TIMED_OUT = re.compile(r"Timeout(?:Error)?:? .{0,40}\d+ ?ms exceeded|Timed out \d+ ?ms waiting for")
_PARAMETERS = re.compile(r"\[.{1,200}\]$")


def _pytest_blocks(lines: Sequence[Line]) -> list[tuple[int, str, str]]:
    """Each (place, test, words) of the first `E` line of a block; all of the first failed test only."""
    blocks: list[tuple[int, str, str]] = []
    test, inside = "", False
    for place, line in enumerate(lines):
        title = _PYTEST_TITLE.match(line.words)
        if title or line.words.startswith("===="):
            if blocks:
                break
            test = title["name"] if title else test
        found = _PYTEST_LINE.match(line.words)
        if found and not inside:
            blocks.append((place, test, found["words"]))
        inside = found is not None
    return blocks


def _root_block(lines: Sequence[Line], blocks: list[tuple[int, str, str]]) -> tuple[int, str, str]:
    at = len(blocks) - 1
    while at > 0:
        between = lines[blocks[at - 1][0] : blocks[at][0]]
        if not any("direct cause of the following" in line.words for line in between):
            break
        at -= 1
    return blocks[at]


def _pytest_name(test: str) -> str:
    return _PARAMETERS.sub("", test.rsplit("::", 1)[-1].rsplit(".", 1)[-1])


def find_pytest(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first failed test of pytest, from its `E` lines or from the short summary."""
    blocks = _pytest_blocks(lines)
    if blocks:
        place, test, words = _root_block(lines, blocks)
        named = _last_exception(lines, place)
        if named is not None and not _ASSERTION.match(words):
            place, words = named
    else:
        summary = next(
            (
                (p, m)
                for p, m in ((p, _PYTEST_SUMMARY.match(line.words)) for p, line in enumerate(lines))
                if m and m[("words")]
            ),
            None,
        )
        if summary is None:
            return None
        place, test, words = summary[0], summary[1]["id"], summary[1]["words"]
        if words.endswith("..."):
            place, words = _under_title(lines) or (place, words)
    words = words.removeprefix("AssertionError: ")
    added = (("test", _pytest_name(test)),) if _ASSERTION.match(words) and test else ()
    return Finding(Rank.RUNNER if blocks else Rank.TEST, place, words, "test_failed", added)


def _under_title(lines: Sequence[Line]) -> tuple[int, str] | None:
    """The line under the first title, where it is no part of a traceback: a summary is cut to the terminal's width."""
    for place, line in enumerate(lines[:-1]):
        if _PYTEST_TITLE.match(line.words):
            words = lines[place + 1].words
            return None if words.startswith(("Traceback", "File ", "self =", "@", "def ")) else (place + 1, words)
    return None


def _last_exception(lines: Sequence[Line], place: int) -> tuple[int, str] | None:
    """In a block of `E` lines that quotes a traceback (a failed import), the line that ends the traceback."""
    last = None
    for at in range(place, len(lines)):
        found = _PYTEST_LINE.match(lines[at].words)
        if found is None:
            break
        if re.match(r"(?:\w+\.)*\w*(?:Error|Exception): ", found["words"]):
            last = (at, found["words"])
    return last


def find_jest(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first failed test of jest or vitest: the line under its title says what is wrong."""
    for place, line in enumerate(lines[:-1]):
        title = _JEST_TITLE.match(line.words)
        name = (title["name"] or title["test"]).strip() if title else ""
        if not name or name == "Console":
            continue
        words = lines[place + 1].words
        added = (("test", name),) if _JEST_BARE.match(words) else ()
        return Finding(Rank.RUNNER, place + 1, words, "test_failed", added)
    return None


def find_rspec(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first failed example of RSpec."""
    for place, line in enumerate(lines):
        title = re.match(r"\d+\) (?P<name>.+)$", lines[place - 1].words) if place else None
        if title and line.words.startswith("Failure/Error: "):
            return Finding(Rank.RUNNER, place, line.words, "test_failed", (("test", title["name"]),))
    return None


def find_go_test(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first failed test of `go test`, with the first thing it logged."""
    for place, line in enumerate(lines):
        fail = _GO_FAIL.match(line.words)
        if fail is None:
            continue
        near = [*range(place + 1, min(place + 12, len(lines))), *range(max(0, place - 6), place)]
        for at in near:
            text = _GO_TEXT.match(lines[at].words)
            if text:
                return Finding(Rank.TEST, at, text["words"], "test_failed", (("test", fail["name"]),))
            if lines[at].words.startswith("--- FAIL: " + fail["name"] + "/"):
                break
        else:
            return Finding(Rank.TEST, place, "test failed", "test_failed", (("test", fail["name"]),))
    return None


def find_browser_wait(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find a timed-out browser action: the call and what it waited for."""
    for place, line in enumerate(lines):
        awaited = _LOCATOR_BELOW.match(lines[place + 1].words) if place + 1 < len(lines) else None
        if awaited and " failed" in line.words:
            return Finding(Rank.RUNNER, place, line.words, "browser_timeout", (("waiting", awaited["words"]),))
        if not _TIMED_OUT.search(line.words):
            continue
        call = re.search(r"(?:[\w.]+: )?Time(?:out|d out) .*$", line.words)
        wait = next((m for m in (_CALL_LOG.match(x.words) for x in lines[place + 1 : place + 12]) if m), None)
        added = (("waiting", wait["words"]),) if wait else ()
        return Finding(Rank.RUNNER, place, call[0] if call else line.words, "browser_timeout", added)
    return None
