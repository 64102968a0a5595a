"""Choose what goes into a context package: few items, exact matches first, in a fixed order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory.deadline import Answer
from memory.ids import shown
from memory.items import Known, remembered
from memory.notes.match import Fit
from memory.notes.note import Note, note_id
from memory.step_knowledge import MOST_DELIVERED, StepKnowledge
from memory.vectors.index import Found
from poimen.contracts.memory_calls import GetContext, RememberedItem, SuggestedSkill, TierReport
from poimen.contracts.vocabulary import EmptyReason

MOST_A_TIER: Final = MOST_DELIVERED


@dataclass(frozen=True, slots=True)
class Gathered:
    """What each tier gave."""

    knowledge: Answer[StepKnowledge]
    vectors: Answer[tuple[Found, tuple[Known, ...]]]
    vault: Answer[list[Fit]]

    @property
    def reports(self) -> tuple[TierReport, ...]:
        return (self.knowledge.report, self.vectors.report, self.vault.report)


@dataclass(frozen=True, slots=True)
class Packed:
    """What is delivered, the whole ids of it, and why there is nothing if there is nothing."""

    items: tuple[RememberedItem, ...]
    skills: tuple[SuggestedSkill, ...]
    ids: tuple[str, ...]
    empty_reason: EmptyReason | None = None
    empty_because: str | None = None


def pack(call: GetContext, gathered: Gathered) -> Packed:
    """Choose one to three items a tier; an item is delivered once, by the tier that knows it best."""
    chosen = [*_from_signatures(call, gathered.knowledge.value)]
    fits = (gathered.vault.value or [])[:MOST_A_TIER]
    taken = {item for item, _ in chosen} | {note_id(fit.note) for fit in fits}
    chosen += _from_vectors(gathered.vectors.value, taken)
    helped = gathered.knowledge.value.helped if gathered.knowledge.value else {}
    chosen += [(note_id(f.note), note_item(f.note, f.because)) for f in fits if f.note.kind != "skill"]
    skills = [f for f in fits if f.note.kind == "skill"]
    items = tuple(item for _, item in chosen)
    reason, because = (None, None) if items else _why_empty(call, gathered)
    return Packed(
        items=items,
        skills=tuple(_skill(fit, call, helped) for fit in skills),
        ids=(*(item for item, _ in chosen), *(note_id(fit.note) for fit in skills)),
        empty_reason=reason,
        empty_because=because,
    )


def _from_signatures(call: GetContext, known: StepKnowledge | None) -> list[tuple[str, RememberedItem]]:
    if known is None:
        return []
    chosen = []
    # The store put the exact match first and the latest next.
    wanted = [one for one in (*known.lessons, *known.told) if not call.kinds or one.row["kind"] in call.kinds]
    for one in wanted[:MOST_A_TIER]:
        exact = one.row["signature"] is not None and one.row["signature"] == call.last_signature
        told = one.row["signature"] is None
        because = "same failure, same step" if exact else "told by this step" if told else "same step"
        chosen.append((one.row["id"], remembered(one, "signatures", because)))
    return chosen


def _from_vectors(value: tuple[Found, tuple[Known, ...]] | None, taken: set[str]) -> list[tuple[str, RememberedItem]]:
    if value is None:
        return []
    found, known = value
    by_id = {one.row["id"]: one for one in known}
    hits = [hit for hit in found.hits if hit.id in by_id and hit.id not in taken]
    # Past runs resemble each other: the one that fits best stands for them.
    runs = [hit.id for hit in hits if by_id[hit.id].row["kind"] == "run"]
    hits = [hit for hit in hits if hit.id not in runs[1:]]
    return [
        (hit.id, remembered(by_id[hit.id], "vectors", f"shares {', '.join(hit.matched[:3])}", hit.score))
        for hit in hits[:MOST_A_TIER]
    ]


def note_item(note: Note, because: str, score: float | None = None) -> RememberedItem:
    """Give a note as it is delivered: a reference, whatever level it claims."""
    return RememberedItem(
        id=shown(note_id(note)),
        kind=note.kind,
        level="R",
        tier="vault",
        title=note.title,
        text=note.excerpt,
        origin="reviewed" if note.shipped else "vault",
        trust="reviewed" if note.shipped else "unverified",
        score=score,
        recorded_at=note.changed_at,
        because=because,
    )


def _skill(fit: Fit, call: GetContext, helped: Mapping[str, tuple[int, int]]) -> SuggestedSkill:
    worked, tried = helped.get(note_id(fit.note), (0, 0))
    said = f"helped {call.step} {worked} of {tried}" if worked else fit.because
    return SuggestedSkill(
        id=shown(note_id(fit.note)),
        name=fit.note.name,
        because=f"{said}. In the vault: {fit.note.path}",
    )


def _why_empty(call: GetContext, gathered: Gathered) -> tuple[EmptyReason, str]:
    reports = gathered.reports
    silent = [r for r in reports if r.status in {"late", "down"}]
    told = f" ({', '.join(f'{r.tier} {r.status}' for r in silent)})" if silent else ""
    first = gathered.knowledge.report.status
    if first in {"late", "down"}:
        reason: EmptyReason = "deadline" if first == "late" else "tier_down"
        return reason, f"the failures on record could not be read{told}"
    place = f"failure of {call.step}" if call.step else "step was named and nothing that fits"
    because = f"no {place} is on record here{told}"
    found = gathered.vectors.value[0] if gathered.vectors.value else None
    if found is not None and found.empty_reason == "below_threshold":
        return "below_threshold", f"{because}; {found.empty_because}"
    return "no_evidence", because
