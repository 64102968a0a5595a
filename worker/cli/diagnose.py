"""`poimen diagnose`: say what is behind an error that somebody pasted, and what ended it before."""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from memory.diagnose import diagnose
from memory.learning.wording import counted
from memory.scopes import scopes
from memory.stores import Caller, Stores
from poimen.contracts.definition import LIBRARY
from poimen.contracts.memory_calls import DiagnoseIssue, Diagnosis, LikelyCause
from poimen.contracts.message import decode, encode
from worker.cli.opened import opened_stores, operator
from worker.cli.output import WIDTH, ago, one_line, print_json, wrapped
from worker.cli.pasted import pasted
from worker.cli.recovery_lines import recovery_lines
from worker.exits import DEPENDENCY_DOWN, OK

DEADLINE_MS: Final = 5_000
MOST_CAUSES: Final = 20
MOST_PLACES: Final = 3
_SIGNATURE: Final = re.compile(r"s\d+:[0-9a-f]{32}")
_NEARNESS: Final = {"same_step": 0, "same_failure": 1, "similar": 2, "words": 3}


@dataclass(frozen=True)
class _Found:
    """A cause, and the scope that has it."""

    scope: str
    cause: LikelyCause
    diagnosis: Diagnosis

    @property
    def order(self) -> tuple[int, float, float]:
        """Give what sorts the nearest first, then the latest seen, then what shares the most words; notes last."""
        seen = self.cause.seen
        last = seen.last_at.timestamp() if seen and seen.last_at else 0.0
        item = next(item for item in self.diagnosis.items if item.id == self.cause.item)
        return _NEARNESS[self.cause.match], -last, -(item.score or 0.0)


async def run(arguments: argparse.Namespace) -> int:
    """Ask one scope, or every scope of the tenant; exit with 3 when what is on record could not be read."""
    text = pasted(arguments.file)
    async with opened_stores() as stores:
        caller = operator(stores, arguments.tenant)
        places = (arguments.scope,) if arguments.scope else await scopes(stores, caller.tenant)
        answers = [(scope, await _ask(arguments, text, scope, caller, stores)) for scope in places or (LIBRARY,)]
    found = _nearest(answers)[: arguments.limit]
    if arguments.json:
        shown = [{"scope": scope, **encode(diagnosis)} for scope, diagnosis in answers]
        print_json({"known": _is_known(found), "diagnoses": shown})
    else:
        print("\n".join(_lines(answers, found, named=arguments.scope is None)))
        for warning in dict.fromkeys(warning for _, diagnosis in answers for warning in diagnosis.warnings):
            print(warning, file=sys.stderr)
    return OK if any(_was_read(diagnosis) for _, diagnosis in answers) else DEPENDENCY_DOWN


async def _ask(arguments: argparse.Namespace, text: str, scope: str, caller: Caller, stores: Stores) -> Diagnosis:
    issue = "signature" if _SIGNATURE.fullmatch(text.strip()) else "text"
    asked = {
        "scope": scope,
        "step": arguments.step,
        issue: text.strip() if issue == "signature" else text,
        "limit": min(arguments.limit, MOST_CAUSES),
        "deadline_ms": DEADLINE_MS,
    }
    return await diagnose(decode(DiagnoseIssue, asked, "diagnose").message, caller, stores)


def _nearest(answers: list[tuple[str, Diagnosis]]) -> list[_Found]:
    found = [_Found(scope, cause, diagnosis) for scope, diagnosis in answers for cause in diagnosis.causes]
    # A note of the library is found from every scope.
    first = {one.cause.item: one for one in reversed(found)}
    return sorted(first.values(), key=lambda one: one.order)


def _is_known(found: list[_Found]) -> bool:
    return any(one.cause.match in {"same_step", "same_failure"} for one in found)


def _was_read(diagnosis: Diagnosis) -> bool:
    return diagnosis.tiers[0].status == "answered"


def _lines(answers: list[tuple[str, Diagnosis]], found: list[_Found], *, named: bool) -> Iterator[str]:
    if not _is_known(found):
        any_answer = answers[0][1]
        missing = "Not known" if all(_was_read(one) for _, one in answers) else "Not found where it could be read"
        yield f"{missing}: {_named(any_answer.title, any_answer.signature)}"
    for one in found:
        yield from _cause(one, named=named)
    for reason, places in _reasons(answers, nothing=not found).items():
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        yield wrapped(f"{', '.join(places[:MOST_PLACES])}{more}: {reason}")


def _reasons(answers: list[tuple[str, Diagnosis]], *, nothing: bool) -> dict[str, list[str]]:
    """Give why scopes told nothing, or not all, with the scopes of which it is true."""
    reasons: dict[str, list[str]] = {}
    for scope, diagnosis in answers:
        silent = [f"{report.tier} {report.status}" for report in diagnosis.tiers if report.status in {"late", "down"}]
        reason = (diagnosis.empty_because if nothing else None) or ", ".join(silent)
        if reason:
            reasons.setdefault(reason, []).append(scope)
    return reasons


def _named(title: str | None, signature: str | None) -> str:
    key = f"({signature[:7]}…)" if signature else ""
    return f"{one_line(title)} {key}" if title else key


def _cause(one: _Found, *, named: bool) -> Iterator[str]:
    cause = one.cause
    if cause.match == "words":
        yield one_line(f"Read: {cause.title} ({cause.item}) {cause.because}", WIDTH)
        return
    where = " of ".join(part for part in (cause.step, one.scope if named else None) if part)
    head = "Similar" if cause.match == "similar" else "Known"
    yield f"{head}: {_named(cause.title, cause.signature)}{f' in {where}' if where else ''}{_seen(cause)}"
    steps = [step for step in one.diagnosis.recovery_steps if step.item == cause.item]
    if not steps:
        yield f"  {one_line(cause.because, WIDTH - 2)}"
    yield from recovery_lines(steps)


def _seen(cause: LikelyCause) -> str:
    if cause.seen is None or cause.seen.last_at is None:
        return ""
    age = ago((datetime.now(UTC) - cause.seen.last_at).total_seconds())
    return f", {counted(cause.seen.runs, 'run')}, last {age} ago"
