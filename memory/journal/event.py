"""What the journal holds: events of a closed set of kinds, each under a key that its caller derives."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from poimen.contracts.json_text import mend_surrogates
from poimen.contracts.memory_calls import Call

# What is longer is stored as its hash, for a b-tree entry holds less than 2.7 kB. A tenant, a scope and a step may take
# 2 kB of it in a script of four bytes a character, which leaves this much to one more name, or half of it to two each.
LONGEST_KEY_BYTES: Final = 512
LONGEST_PART_BYTES: Final = 256


class EventKind(StrEnum):
    """Every kind of event there is. The value is stored: a kind may be added, never renamed."""

    EXECUTION_LEARNED = "execution_learned"
    """An attempt ended and was reported with what was applied before it (LearnFromExecution)."""
    ERROR_ANALYZED = "error_analyzed"
    """An attempt failed, and advice was given (AnalyzeError)."""
    DECISION_DOCUMENTED = "decision_documented"
    """A decision of a step, gate, phase or run (DocumentDecision)."""
    CONTEXT_DELIVERED = "context_delivered"
    """A context package that changed what happens: a prevention or a hold-out (GetContext)."""
    KNOWLEDGE_CREATED = "knowledge_created"
    """An item was added by a person or a caller."""
    KNOWLEDGE_UPDATED = "knowledge_updated"
    """An item has a new revision."""
    KNOWLEDGE_RETIRED = "knowledge_retired"
    """An item is no longer delivered (RetireKnowledge)."""
    SIGNATURE_ALIASED = "signature_aliased"
    """A signature stands for another from now on (`poimen alias`, or a raised version of the rules)."""
    SIGNATURE_UNALIASED = "signature_unaliased"
    """A signature stands for itself again."""
    NOTE_READ = "note_read"
    """A note of the vault was read and became, or changed, an item."""
    RUN_SUMMARISED = "run_summarised"
    """What came of a run became, or changed, an item (`SummariseRun`, or the end of the run)."""
    PATTERN_FOUND = "pattern_found"
    """What distinct runs have in common became, or changed, an item: a failure and its end, or an artifact."""
    KNOWLEDGE_WITHDRAWN = "knowledge_withdrawn"
    """What an item was made from is gone: its note, or the lesson behind a pattern."""


class Origin(StrEnum):
    """Through which entry an event came. Set by the entry, never by the message, and never changed."""

    OPERATOR = "operator"
    """A person at the command line."""
    REVIEWER = "reviewer"
    """A person who decided on a proposal."""
    VAULT_EDITOR = "vault-editor"
    """A person who edited a note."""
    HARNESS_OUTCOME = "harness_outcome"
    """Poimen's own workflows, reporting what a step did."""
    HARNESS_TEXT = "harness_text"
    """Free text that an agent of a step wrote."""
    CALLER = "caller"
    """Anybody else who may call the activities."""
    MAINTENANCE = "maintenance"
    """A background task of the worker."""
    IMPORT = "import"
    """Starter notes and ingested sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who called, as the entry point knows it.

    `key` makes the call exactly once: the same for every repetition of one call, and never shared by two.
    """

    key: str
    origin: Origin
    principal: str | None = None
    workflow_id: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event to record. The payload is masked already, and JSON: what is recorded here stays."""

    tenant: str
    scope: str
    kind: EventKind
    provenance: Provenance
    payload: Mapping[str, Any]
    run: str | None = None
    branch: str | None = None
    step: str | None = None
    visit: int | None = None
    attempt: int | None = None

    @property
    def key(self) -> str:
        """The key as it is stored: the caller's, or its hash when it is long."""
        return short_name(self.provenance.key)

    @property
    def request_hash(self) -> bytes:
        """SHA-256 over kind, scope and payload; the same for every repetition of one call."""
        content = {"kind": self.kind.value, "scope": self.scope, "payload": self.payload}
        return hashlib.sha256(canonical_json(content).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """An event as the journal has it, with its long parts put back."""

    position: int
    id: str
    tenant: str
    scope: str
    # Text for a kind that this version does not know.
    kind: EventKind | str
    key: str
    recorded_at: datetime
    occurred_at: datetime | None
    trace_id: str | None
    workflow_id: str | None
    run_id: str | None
    run: str | None
    branch: str | None
    step: str | None
    visit: int | None
    attempt: int | None
    principal: str | None
    origin: str
    payload: dict[str, Any] = field(repr=False)
    result: dict[str, Any] = field(repr=False)


def describe(kind: EventKind, call: Call, payload: Mapping[str, Any], *, tenant: str, provenance: Provenance) -> Event:
    """Return the event of a call.

    `payload` is the call as masked JSON. The tenant and the idempotency key are no part of it: a call that names its
    tenant is the same as one that leaves it to the worker, and the key is a column of its own.
    """
    content = {name: value for name, value in payload.items() if name not in {"tenant", "idempotency_key"}}
    return Event(
        tenant=tenant,
        scope=call.scope,
        kind=kind,
        provenance=provenance,
        payload=content,
        run=run_of(call, provenance),
        branch=call.branch,
        step=call.step,
        visit=call.visit,
        attempt=call.attempt,
    )


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: keys sorted, no white space, no NaN, and characters as `storable` has them.

    Raises ValueError for a number that JSON does not have.
    """
    return json.dumps(storable(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def storable(value: Any) -> Any:
    """Return JSON that jsonb can hold: NUL becomes U+2400 and a lone surrogate U+FFFD, in names and in values."""
    if isinstance(value, str):
        return mend_surrogates(value).replace("\0", "\u2400")
    if isinstance(value, Mapping):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def run_of(call: Call, provenance: Provenance) -> str | None:
    """Return the run a call belongs to: the one it names, else the Temporal run id of its workflow, else None.

    As it is stored: the run itself, or its hash when it is long.
    """
    run = call.run or provenance.run_id
    return run and short_name(run, LONGEST_PART_BYTES)


def occurrence_of(call: Call, provenance: Provenance) -> str:
    """Return the occurrence a call belongs to: its `occurrence_id`, else its run, branch, step and visit.

    A standalone call that names neither an occurrence nor a run is an occurrence of its own, by its key.
    """
    if call.occurrence_id is not None:
        return short_name(call.occurrence_id)
    run = call.run or provenance.run_id or provenance.key
    parts = [run, call.branch or "", call.step or "", str(call.visit)]
    return short_name("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


def short_name(text: str, longest_bytes: int = LONGEST_KEY_BYTES) -> str:
    """Return text that fits a b-tree key: itself, or its hash when it is long."""
    clean = str(storable(text))
    if len(clean.encode()) <= longest_bytes:
        return clean
    return "sha256:" + hashlib.sha256(clean.encode()).hexdigest()
