"""Items: how knowledge is stored, named and turned into what is delivered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from memory.aside import aside
from memory.errors import Conflict, NotFound
from memory.ids import item_id, may_be_item, shown
from memory.journal import Entry
from memory.learning.evidence import Evidence, fold
from memory.lessons import best_action, evidence_text
from memory.observations import attempts, observations
from memory.postgres import Row, Statement, Transaction, load_queries, statement
from poimen.contracts.memory_calls import RememberedItem
from poimen.contracts.vocabulary import ItemKind, Level, Tier, Trust

SQL = load_queries(__package__, "items.sql")
LONGEST_TITLE: Final = 200
LONGEST_TEXT: Final = 1_000
CHARACTERS_AN_ATTEMPT: Final = 128
"""What folding one attempt costs, as characters of text that is masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item that is about to be stored."""

    id: str
    scope: str
    kind: ItemKind
    title: str
    text: str
    origin: str
    trust: Trust
    state: str = "active"
    level: Level = "L1"
    step: str | None = None
    signature: str | None = None
    tags: tuple[str, ...] = ()
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """An item's row, and its evidence if it is a lesson made from outcomes."""

    row: Row
    evidence: Evidence | None = None
    seen_at: datetime | None = field(default=None)


def lesson_id(scope: str, step: str, signature: str) -> str:
    """Give the id of the lesson that a step's failure with a signature makes."""
    return item_id("lesson", "signature", scope, step, signature)


def put_item(item: NewItem, entry: Entry) -> Statement:
    """Give the statement that stores an item; it has a row unless the item is on record already."""
    return statement(
        SQL["put_item"],
        id=item.id,
        scope=item.scope,
        kind=item.kind,
        level=item.level,
        state=item.state,
        title=_short(item.title, LONGEST_TITLE),
        text=item.text,
        origin=item.origin,
        trust=item.trust,
        step=item.step,
        signature=item.signature,
        tags=list(item.tags),
        principal=item.principal,
        position=entry.position,
        recorded_at=entry.recorded_at,
    )


async def find_item(tx: Transaction, name: str, scope: str | None = None) -> Row:
    """Give the item with this id, whole or shortened; None is every scope of the tenant, for people.

    Raises NotFound, and Conflict when a shortened id fits more than one item.
    """
    if not may_be_item(name):
        raise NotFound("An item's id looks like les-7f3c21d0; this one does not.")
    rows = await tx.rows(SQL["items_like"], beginning=name, scope=scope)
    if not rows:
        raise NotFound(f"{shown(name)} is not on record.")
    if len(rows) > 1:
        both = " or ".join(_apart(rows[0]["id"], rows[1]["id"]))
        raise Conflict(f"{name} fits more than one item; give {both}.")
    return rows[0]


def _apart(one: str, other: str) -> tuple[str, str]:
    same = next(n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: same + 1], other[: same + 1]


async def with_evidence(
    tx: Transaction, scope: str, rows: Iterable[Row], environment: str, occurrence: str | None = None
) -> list[Known]:
    """Give the items with what their lessons' evidence says now, seen from one environment; commits."""
    known = list(rows)
    lessons = [row["id"] for row in known if row["signature"] is not None]
    if not lessons:
        return [Known(row) for row in known]
    (found,) = await tx.gather(observations(scope, lessons), last=True)
    return await told_aside(known, found, environment, occurrence)


async def active_items(
    tx: Transaction,
    scope: str,
    ids: Iterable[str],
    environment: str,
    occurrence: str | None = None,
    *,
    last: bool = False,
) -> list[Known]:
    """Give those of some items that may be delivered, as `with_evidence` does; `last` commits."""
    rows, found = await read_active(tx, scope, ids, last=last)
    return await told_aside(rows, found, environment, occurrence)


async def read_active(
    tx: Transaction, scope: str, ids: Iterable[str], *, last: bool = False
) -> tuple[list[Row], list[Row]]:
    """Give the rows of those of some items that may be delivered, and what was observed of them; `last` commits."""
    wanted = list(ids)
    rows, found = await tx.gather(statement(SQL["items"], ids=wanted), observations(scope, wanted), last=last)
    return rows, found


async def told_aside(
    rows: Sequence[Row], found: Sequence[Row], environment: str, occurrence: str | None = None
) -> list[Known]:
    """Give what `told_by` gives, from many observations without holding up the event loop."""
    return await aside(len(found) * CHARACTERS_AN_ATTEMPT, told_by, rows, found, environment, occurrence)


def told_by(rows: Iterable[Row], found: Iterable[Row], environment: str, occurrence: str | None = None) -> list[Known]:
    """Give the items with the evidence that observations hold for them."""
    by_lesson: dict[str, list[Row]] = {}
    for observation in found:
        by_lesson.setdefault(observation["lesson"], []).append(observation)
    return [_known(row, by_lesson.get(row["id"], []), environment, occurrence) for row in rows]


def _known(row: Row, records: list[Row], environment: str, occurrence: str | None) -> Known:
    if row["signature"] is None:
        return Known(row)
    evidence = fold(attempts(records), row["signature"], environment, occurrence)
    return Known(row, evidence, max((record["recorded_at"] for record in records), default=None))


def remembered(known: Known, tier: Tier, because: str, score: float | None = None) -> RememberedItem:
    """Give an item as it is delivered."""
    row, evidence = known.row, known.evidence
    said: Any = row["text"]
    confidence: float | None = row["confidence"]
    if evidence is not None:
        said = evidence_text(row["step"] or "", row["title"], evidence)
        confidence = best_action(evidence)
    title = row["title"]
    return RememberedItem(
        id=shown(row["id"]),
        revision=row["revision"],
        kind=row["kind"],
        level=row["level"],
        tier=tier,
        title=title[:1].upper() + title[1:],
        text=_short(said, LONGEST_TEXT),
        origin=row["origin"],
        trust=row["trust"],
        confidence=confidence,
        score=score,
        recorded_at=known.seen_at or row["updated_at"],
        because=because,
    )


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
