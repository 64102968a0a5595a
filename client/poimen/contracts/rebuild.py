"""What ProjectJournal and its activities say to each other: an index that is built anew beside the live one."""

from typing import Annotated, Final

from pydantic import Field

from poimen.contracts.memory_calls import Count
from poimen.contracts.message import FreeText, Instant, Many, Message, Name, Scope

# A rebuild puts up with so many items that do not go in, each named; with more it ends, and the former index stays.
MOST_FAILED: Final = 100
ItemId = Annotated[str, Field(min_length=1, max_length=512)]
FailedIds = Annotated[Many[str], Field(max_length=MOST_FAILED)]


class ItemKey(Message):
    """A place in the order of items: by scope, then by id."""

    scope: Scope
    id: ItemId


class ChangeKey(Message):
    """A place in the order of changes: by the instant of an item's last change, then by id."""

    at: Instant
    id: str = ""


class BeginGeneration(Message):
    """Add an empty generation of the embedder in use; one that was being built before is dropped."""

    tenant: Name | None = None


class GenerationBegun(Message):
    """The new generation; whatever changes from `since` on is brought to it after the copy."""

    tenant: Name
    index: Name
    generation: Count
    embedder: str
    since: Instant


class CopyItems(Message):
    """Bring the next items into the generation that is being built."""

    tenant: Name
    generation: Count
    after: ItemKey | None = None


class ItemsCopied(Message):
    """How many items were brought, where the next begin (None behind the last), and which do not go in."""

    items: Count
    after: ItemKey | None = None
    failed: Count = 0
    failed_ids: FailedIds = ()


class CopyChanges(Message):
    """Bring what was changed since an instant."""

    tenant: Name
    generation: Count
    since: Instant


class ChangesCopied(Message):
    """How many items were brought, which do not go in, and since when changes must be brought the next time.

    `after` is where an attempt that is cut short goes on; None behind the last.
    """

    items: Count
    since: Instant
    after: ChangeKey | None = None
    failed: Count = 0
    failed_ids: FailedIds = ()


class CompareGeneration(Message):
    """Compare a generation with what is on record, but for what changed since an instant and what did not go in."""

    tenant: Name
    generation: Count
    since: Instant
    failed_ids: FailedIds = ()


class GenerationCompared(Message):
    """How many items and entries there are, and how many differ; the first of them in words.

    `failed_ids` are those of the question that differ: they still do not go in. `after` is where an attempt that is
    cut short goes on; None behind the last.
    """

    items: Count
    entries: Count
    after: ItemKey | None = None
    differences: Count = 0
    failed_ids: FailedIds = ()
    told: Annotated[Many[FreeText], Field(max_length=20)] = ()


class PromoteGeneration(Message):
    """Let searches read this generation, and keep the former one."""

    tenant: Name
    generation: Count


class Promoted(Message):
    """Which generation is live now, and which is kept beside it."""

    generation: Count
    kept: Count | None = None


class RebuildState(Message):
    """What a long rebuild carries over continue-as-new."""

    begun: GenerationBegun
    after: ItemKey | None = None
    items: Count = 0
    failed: Count = 0
    failed_ids: FailedIds = ()


class StartProjectJournal(Message):
    """The input of ProjectJournal: whose index is built anew; the worker's default tenant if none is named."""

    tenant: Name | None = None
    state: RebuildState | None = None


class ProjectJournalResult(Message):
    """What a rebuild came to."""

    tenant: Name
    index: Name
    embedder: str
    generation: Count
    items: Count
    kept: Count | None = None
    failed: Count = 0
    failed_ids: Many[str] = ()
