"""LearnFromExecution: put the end of an attempt on record, and say what it taught."""

from dataclasses import dataclass
from typing import Final

from memory import items
from memory.ids import item_id, shown
from memory.items import Known, NewItem
from memory.journal import Entry, EventKind, Origin, occurrence_of
from memory.learning.pairing import Trial
from memory.learning.wording import seconds
from memory.observations import fingerprint, keep_environment, occurrence_attempts, record_attempt
from memory.once import once
from memory.postgres import Transaction
from memory.scrub import scrub, scrub_warning
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import Learned, LearnFromExecution
from poimen.contracts.message import encode

LONGEST_TITLE: Final = 120


@dataclass(frozen=True, slots=True)
class _Taught:
    """What a report taught: items that changed, items it is about, sentences and warnings."""

    changed: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


async def learn(call: LearnFromExecution, caller: Caller, stores: Stores) -> Learned:
    """Record how an attempt ended; a success credits what was applied before it.

    Asked again under the same key it gives the same answer, marked as a duplicate. Raises Conflict when the key was
    used for another request, StoreUnavailable when the record cannot be written in time.
    """
    masked, found = await scrub(call, stores.masker)
    async with once(EventKind.EXECUTION_LEARNED, masked, Learned, caller, stores) as (tx, record, stored):
        if stored is not None:
            return stored
        record_attempt(tx, record, masked, caller.provenance, call.outcome)
        keep_environment(tx, masked.environment)
        credited = await _credited(tx, masked, caller)
        told = await _told(tx, record, masked, caller, secret=masked.lesson != call.lesson)
        learned = Learned(
            knowledge_ids=tuple(shown(item) for item in (*credited.about, *told.about)),
            learned=(*credited.sentences, *told.sentences),
            event_id=record.id,
            warnings=(*scrub_warning(found), *told.warnings),
        )
        record.finish({"answer": encode(learned), "items": list(told.changed)})
    return learned


async def _credited(tx: Transaction, call: LearnFromExecution, caller: Caller) -> _Taught:
    """Say what a success after failures credits: the evidence itself is folded from the rows."""
    if call.outcome != "succeeded" or call.attempt == 1:
        return _Taught()
    step, occurrence = call.step or "", occurrence_of(call, caller.provenance)
    (rows,) = await tx.gather(occurrence_attempts(call.scope, step, occurrence))
    failed = dict.fromkeys(row["signature"] for row in rows if row["signature"] is not None)
    ids = [items.lesson_id(call.scope, step, signature) for signature in failed]
    known = await items.active_items(tx, call.scope, ids, fingerprint(call.environment), occurrence)
    sentences = [(one.row["id"], sentence) for one in known if (sentence := _ended(one, occurrence))]
    return _Taught(about=tuple(i for i, _ in sentences), sentences=tuple(s for _, s in sentences))


def _ended(known: Known, occurrence: str) -> str | None:
    """Tell what ended a failure of this occurrence, None when nothing of it was credited."""
    evidence = known.evidence
    own = [trial for trial in evidence.trials if trial.occurrence == occurrence] if evidence else []
    if evidence is None or not own or not own[-1].worked:
        return None
    newest = own[-1]
    tally = evidence.repairs.get(newest.applied.repair or "")
    now = f", now {tally.worked} of {tally.tried}" if tally else ""
    return f"{_action(newest)} ended {known.row['title']}{now}"


def _action(trial: Trial) -> str:
    if trial.applied.repair is not None:
        return trial.applied.repair
    waited = trial.applied.waited_seconds
    return f"waiting {seconds(waited)}" if waited > 0 else "a plain retry"


async def _told(tx: Transaction, record: Entry, call: LearnFromExecution, caller: Caller, *, secret: bool) -> _Taught:
    """Keep a lesson that the step wrote: it informs, unverified, and is never an instruction."""
    if call.lesson is None:
        return _Taught()
    text = " ".join(call.lesson.split())
    if not any(character.isalnum() for character in text):
        return _Taught(warnings=("lesson has no words; it was not kept",))
    item = NewItem(
        id=item_id("lesson", "told", call.scope, call.step or "", text),
        scope=call.scope,
        kind="lesson",
        title=text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1].rstrip() + "…",
        text=call.lesson,
        origin=Origin.HARNESS_TEXT.value,
        trust="unverified",
        # A text that carried a secret is looked at before anybody is given it.
        state="quarantined" if secret else "active",
        step=call.step,
        tags=call.tags,
        principal=caller.provenance.principal,
    )
    (made,) = await tx.gather(items.put_item(item, record))
    if not made:
        return _Taught(about=(item.id,), sentences=("the lesson is on record already",))
    held = ("the lesson held a secret; it waits for a reviewer",) if secret else ()
    sentence = "a lesson was kept, unverified" if not secret else "a lesson was kept, in quarantine"
    return _Taught((item.id,), (item.id,), (sentence,), held)
