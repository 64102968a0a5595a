"""DiagnoseIssue: say what is likely behind an error that somebody pasted, and what ended it before. Writes nothing."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from memory import items
from memory.aside import aside
from memory.deadline import Answer, skipped, within
from memory.ids import shown
from memory.items import Known
from memory.knowledge import search
from memory.noise import is_noise
from memory.observations import fingerprint, observations, run_names
from memory.postgres import Row, Transaction, load_queries, statement, tenant_transaction
from memory.recoveries import Recovery, recoveries
from memory.scrub import scrub, scrub_warning
from memory.signatures import Signature, signatures_of
from memory.stores import Caller, Stores
from poimen.contracts.definition import LIBRARY
from poimen.contracts.memory_calls import (
    DiagnoseIssue,
    Diagnosis,
    LikelyCause,
    RememberedItem,
    SearchKnowledge,
    SearchResult,
    SeenBefore,
    SeenRecovery,
    TierReport,
)
from poimen.contracts.vocabulary import EmptyReason, Tier

SQL = load_queries(__package__, "diagnose.sql")
MOST_SIMILAR: Final = 3
"""Items of each tier that only share words."""
# A longer text is searched by the words of its failing line: the rest of a log finds the rest of other logs.
LONGEST_QUESTION: Final = 600
LEAST_SHARE: Final = 0.5
"""Of the best score, for an item that only shares words."""
WEAK: Final = "no error is recognised in the text: give the output itself, or more of it"
NOISE: Final = "nothing is recognised in the text: it has no words, or is binary"


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failure on record that is the issue, or is like it: its lesson, its evidence, and when it was seen."""

    known: Known
    seen: SeenBefore | None
    same: bool

    @property
    def step(self) -> str | None:
        return self.known.row["step"] or None

    def nearness(self, step: str | None) -> tuple[bool, bool]:
        """Give what sorts the failure itself before its relatives, and the asked step before others."""
        return not self.same, step is not None and self.step != step

    def order(self, step: str | None) -> tuple[object, ...]:
        """Give what sorts the likeliest first: what was seen in the most runs, then the latest."""
        last = self.seen.last_at if self.seen else None
        runs = self.seen.runs if self.seen else 0
        return *self.nearness(step), -runs, -last.timestamp() if last else 0.0, self.known.row["id"]


@dataclass(frozen=True, slots=True)
class _OnRecord:
    """What tier 1 knows: what the issue looked like when it was first seen, and the failures."""

    seen: Row | None
    failures: tuple[_Failure, ...]


@dataclass(frozen=True, slots=True)
class _Issue:
    """An issue: the masked call and, if it has a text, the text's signature by each version that is known.

    Of a `noise` only the very same is looked for: whatever is like it, or shares a word, is so by chance.
    """

    call: DiagnoseIssue
    signatures: tuple[Signature, ...] = ()
    noise: bool = False

    @property
    def signature(self) -> Signature | None:
        return self.signatures[0] if self.signatures else None

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.signatures] or [self.call.signature or ""]

    @property
    def family(self) -> str | None:
        return None if self.signature is None or self.noise else self.signature.family

    def question(self, seen: Row | None) -> str:
        """Give the words to search by; "" when there are none."""
        if self.noise:
            return ""
        if self.signature is None:
            return f"{seen['title']} {seen['sample']}" if seen else ""
        text = self.call.text or ""
        short = len(text) <= LONGEST_QUESTION
        return text if short else f"{self.signature.title} {self.signature.sample}"


async def diagnose(call: DiagnoseIssue, caller: Caller, stores: Stores) -> Diagnosis:
    """Look an issue up over all steps of a scope and say what may be behind it; a tier that is late is reported."""
    ends_at = time.monotonic() + min(call.deadline_ms / 1000, caller.deadline_seconds)
    masked, found = await scrub(call, stores.masker)
    text = masked.text
    issue = await aside(len(text), _issue, masked, text) if text is not None else _Issue(masked)
    asked = _Asked(issue, caller, stores, ends_at)
    if text is not None:
        answer, similar = await asyncio.gather(asked.failures(), asked.similar(issue.question(None)))
    else:
        # What a signature looked like says which words to search by.
        answer = await asked.failures()
        similar = await asked.similar(issue.question(answer.value.seen if answer.value else None))
    return _diagnosis(issue, answer, similar, caller.tenant, scrub_warning(found))


def _issue(call: DiagnoseIssue, text: str) -> _Issue:
    signatures = signatures_of(text)
    return _Issue(call, signatures, signatures[0].weak and is_noise(text))


@dataclass(frozen=True, slots=True)
class _Asked:
    """One issue while its tiers are asked; `ends_at` is an instant of the monotonic clock."""

    issue: _Issue
    caller: Caller
    stores: Stores
    ends_at: float

    async def failures(self) -> Answer[_OnRecord]:
        return await within("signatures", self._on_record, lambda known: len(known.failures), self.ends_at)

    async def _on_record(self, seconds: float) -> _OnRecord:
        call = self.issue.call
        place: dict[str, object] = {"scope": call.scope, "signatures": self.issue.keys}
        async with tenant_transaction(self.stores.pool, self.caller.tenant, deadline_seconds=seconds) as tx:
            seen, alike = await tx.gather(
                statement(SQL["seen_signature"], **place), statement(SQL["signatures_alike"], **place)
            )
            place |= {"alike": [row["signature"] for row in alike], "limit": call.limit}
            same, relatives = await tx.gather(
                statement(SQL["same_failure"], **place, scopes=[call.scope, LIBRARY], step=call.step),
                statement(SQL["relatives"], **place, family=self.issue.family),
            )
            failures = await _with_evidence(tx, call, same, relatives)
        return _OnRecord(seen[0] if seen else None, failures)

    async def similar(self, question: str) -> SearchResult:
        """Give what shares words with the issue."""
        if not question.strip():
            return SearchResult(tiers=(skipped("vectors").report, skipped("vault").report))
        # Asked apart, so that neither tier's finds crowd out the other's.
        words, notes = await asyncio.gather(self._search("vectors", question), self._search("vault", question))
        tiers = tuple(report for report in (*words.tiers, *notes.tiers) if report.status != "skipped")
        return words.model_copy(update={"items": (*words.items, *notes.items), "tiers": tiers})

    async def _search(self, tier: Tier, question: str) -> SearchResult:
        call = self.issue.call
        left = max(round((self.ends_at - time.monotonic()) * 1000), 1)
        asked = SearchKnowledge(
            scope=call.scope,
            step=call.step,
            phase=call.phase,
            tool=call.tool,
            environment=call.environment,
            query=question,
            tiers=(tier,),
            limit=MOST_SIMILAR,
            deadline_ms=min(left, call.deadline_ms),
        )
        return await search(asked, self.caller, self.stores)


async def _with_evidence(
    tx: Transaction, call: DiagnoseIssue, same: list[Row], relatives: list[Row]
) -> tuple[_Failure, ...]:
    rows = [*same, *relatives]
    if not rows:
        return ()
    own = [row["id"] for row in rows if row["scope"] == call.scope]
    (records,) = await tx.gather(observations(call.scope, own))
    known = [_told(one) for one in items.told_by(rows, records, fingerprint(call.environment))]
    names = await run_names(tx, (one.evidence.runs[0] for one in known if one.evidence))
    failures = [
        _Failure(one, _seen(one, records, names), same=at < len(same))
        for at, one in enumerate(known)
        # What the library says of a failure needs no evidence from here.
        if one.evidence or one.row["scope"] != call.scope
    ]
    return tuple(sorted(failures, key=lambda failure: failure.order(call.step)))


def _told(known: Known) -> Known:
    """Leave out evidence that holds nothing, so that the item speaks for itself."""
    return known if known.evidence is None or known.evidence.occurrences else replace(known, evidence=None)


def _seen(known: Known, records: Iterable[Row], names: Mapping[str, str]) -> SeenBefore | None:
    evidence, row = known.evidence, known.row
    failed = [r for r in records if r["lesson"] == row["id"] and r["signature"] == row["signature"]]
    if evidence is None or not failed:
        return None
    return SeenBefore(
        occurrences=evidence.occurrences,
        runs=len(evidence.runs),
        first_run=names[evidence.runs[0]],
        first_at=min(record["recorded_at"] for record in failed),
        last_at=max(record["recorded_at"] for record in failed),
    )


def _diagnosis(
    issue: _Issue, answer: Answer[_OnRecord], similar: SearchResult, tenant: str, warnings: tuple[str, ...]
) -> Diagnosis:
    call, known, signature = issue.call, answer.value, issue.signature
    seen = known.seen if known and known.seen else {}
    causes, told = _causes(issue, known.failures if known else (), similar)
    reports = (answer.report, *similar.tiers)
    reason, because = (None, None) if causes else _why_nothing(issue, reports, similar)
    weak = signature.weak if signature else seen.get("weak", False)
    return Diagnosis(
        signature=issue.keys[0],
        family=signature.family if signature else seen.get("family"),
        kind=signature.kind if signature else seen.get("kind"),
        title=signature.title if signature else seen.get("title"),
        causes=causes,
        recovery_steps=_recovery_steps(call, known.failures if known else ()),
        items=told,
        tiers=reports,
        empty_reason=reason,
        empty_because=because,
        tenant=tenant,
        warnings=(*warnings, WEAK) if weak else warnings,
    )


def _causes(
    issue: _Issue, failures: tuple[_Failure, ...], similar: SearchResult
) -> tuple[tuple[LikelyCause, ...], tuple[RememberedItem, ...]]:
    """Give the causes, nearest first, and the items that tell of them."""
    found = [_of_failure(failure, issue.call.step) for failure in failures]
    known = {item.id for _, item in found}
    found += [_of_words(item) for item in _by_words(similar, nearer=bool(found)) if item.id not in known]
    chosen = found[: issue.call.limit]
    return tuple(cause for cause, _ in chosen), tuple(item for _, item in chosen)


def _of_failure(failure: _Failure, step: str | None) -> tuple[LikelyCause, RememberedItem]:
    row = failure.known.row
    same_step = failure.same and step is not None and failure.step == step
    how = "same failure, same step" if same_step else "same failure" if failure.same else "similar failure"
    item = items.remembered(failure.known, "signatures", how)
    cause = LikelyCause(
        match="same_step" if same_step else "same_failure" if failure.same else "similar",
        title=row["title"],
        because=item.text,
        signature=row["signature"],
        step=failure.step,
        seen=failure.seen,
        item=item.id,
    )
    return cause, item


def _by_words(similar: SearchResult, *, nearer: bool) -> list[RememberedItem]:
    """Give the items that share words; those of other failures only while nothing nearer is known."""
    best = max((item.score or 0.0 for item in similar.items), default=0.0)
    return [
        item
        for item in similar.items
        if item.tier == "vault"
        or ((item.score or 0.0) >= best * LEAST_SHARE and not (nearer and item.origin == "harness_outcome"))
    ]


def _of_words(item: RememberedItem) -> tuple[LikelyCause, RememberedItem]:
    told = item.because if item.tier == "vault" else f"{item.because}: {item.text}"
    return LikelyCause(match="words", title=item.title, because=told, item=item.id), item


def _recovery_steps(call: DiagnoseIssue, failures: tuple[_Failure, ...]) -> tuple[SeenRecovery, ...]:
    """Give what was tried: against the failure itself before relatives, in the asked step before others."""
    tried = [
        (failure, one)
        for failure in failures
        if failure.known.evidence is not None
        for one in recoveries(failure.known.evidence)
    ]
    tried.sort(key=lambda entry: (*entry[0].nearness(call.step), -entry[1].tally.mean, -entry[1].tally.worked))
    return tuple(_recovery_step(*entry) for entry in tried[: call.limit])


def _recovery_step(failure: _Failure, recovery: Recovery) -> SeenRecovery:
    row, tally = failure.known.row, recovery.tally
    return SeenRecovery(
        action=recovery.action,
        repair=recovery.repair,
        delay_seconds=recovery.delay_seconds,
        confidence=round(tally.mean, 2),
        worked=tally.worked,
        tried=tally.tried,
        step=failure.step,
        signature=row["signature"],
        similar=not failure.same,
        item=shown(row["id"]),
    )


def _why_nothing(issue: _Issue, reports: tuple[TierReport, ...], similar: SearchResult) -> tuple[EmptyReason, str]:
    silent = [report for report in reports if report.status in {"late", "down"}]
    told = f" ({', '.join(f'{report.tier} {report.status}' for report in silent)})" if silent else ""
    first = reports[0].status
    if first in {"late", "down"}:
        return "deadline" if first == "late" else "tier_down", f"the failures on record could not be read{told}"
    if issue.noise:
        return "no_evidence", NOISE
    nothing = "neither this failure nor one like it is on record here"
    if similar.empty_reason == "below_threshold":
        return "below_threshold", f"{nothing}; {similar.empty_because}"
    return "no_evidence", f"{nothing}{told}"
