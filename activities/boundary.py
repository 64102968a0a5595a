"""The edge between Temporal and the memory: decode, say who calls, bound the work, translate errors."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import structlog
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from activities.table import TABLE, Entry
from memory.errors import Conflict, FinalError, PoimenError, Rejected, StoreUnavailable
from memory.journal import Origin, Provenance
from memory.stores import Caller, Stores
from poimen.contracts.message import Decoded, Message, decode, encode
from poimen.contracts.problems import InvalidInput
from poimen.entry import EMPTY, one_argument, read_input, refuse

# The answer still has to travel: own work ends this long before the server gives up on the attempt.
MARGIN_SECONDS: Final = 0.15
LEAST_SECONDS: Final = 0.05
# A defect is not mended within seconds: asked again at once, it would only fill the log.
UNFORESEEN_DELAY: Final = timedelta(seconds=30)
HARNESS_WORKFLOWS: Final = frozenset({"HarnessRun", "HarnessStep", "DeliverRecords"})

# `@library` is what every scope of a tenant also reads.
RESERVED: Final = "@"

_log = structlog.get_logger(__name__)
Activity = Callable[[RawValue], Awaitable[dict[str, Any]]]


class MemoryActivities:
    """The memory's activities over one set of stores."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def all(self) -> list[Activity]:
        """Give the activities, ready to be registered."""
        return [_entry_point(entry, self._stores) for entry in TABLE]


def _entry_point(entry: Entry, stores: Stores) -> Activity:
    @activity.defn(name=entry.name)
    @one_argument
    async def run(raw: RawValue = EMPTY) -> dict[str, Any]:
        return await _answer(entry, raw, stores)

    return run


async def _answer(entry: Entry, raw: RawValue, stores: Stores) -> dict[str, Any]:
    """Answer one call with a plain JSON object, or raise the error a caller sees.

    A final error carries no cause: its sentence is all that anybody outside is told.
    """
    entered = time.monotonic()
    with told_errors(entry.name):
        decoded = _decoded(raw, entry)
        caller = _caller(decoded.message, activity.info(), entry, stores, entered)
        answer = await entry.use_case(decoded.message, caller, stores)
    return encode(_with_warnings(answer, decoded.warnings))


@contextlib.contextmanager
def told_errors(name: str) -> Iterator[None]:
    """Raise the errors of a block as a caller of the activity sees them."""
    try:
        yield
    except InvalidInput as error:
        raise refuse(error) from None
    except FinalError as error:
        raise _final(error) from None
    except StoreUnavailable as error:
        delay = timedelta(seconds=error.retry_after_seconds)
        raise ApplicationError(str(error), type=public_name(error), next_retry_delay=delay) from None
    except Exception as error:
        # The text of an error nobody foresaw may hold anything, so it stays in the worker's log.
        _log.exception("An activity failed unexpectedly.", activity=name)
        sentence = f"{name} failed unexpectedly ({type(error).__name__}); the worker's log has more."
        raise ApplicationError(sentence, type="InternalError", next_retry_delay=UNFORESEEN_DELAY) from None


def _decoded(raw: RawValue, entry: Entry) -> Decoded[Message]:
    required = any(field.is_required() for field in entry.takes.model_fields.values())
    if not raw.payload.data and not required:
        return decode(entry.takes, {}, entry.name)
    return read_input(raw, entry.takes, entry.name)


def _with_warnings(answer: Message, warnings: tuple[str, ...]) -> Message:
    if not warnings:
        return answer
    known: tuple[str, ...] = getattr(answer, "warnings", ())
    return answer.model_copy(update={"warnings": (*known, *warnings)})


def _caller(message: Message, info: activity.Info, entry: Entry, stores: Stores, entered: float) -> Caller:
    tenant = stores.settings.tenant_of(getattr(message, "tenant", None))
    if entry.writes and getattr(message, "scope", "").startswith(RESERVED):
        raise Rejected("Scopes that begin with @ are the library's; nothing writes to them but reviewed notes.")
    longest = entry.longest_seconds or stores.settings.call_deadline_seconds
    left = _left(info) - (time.monotonic() - entered)
    return Caller(tenant, _provenance(message, info), max(min(longest, left), LEAST_SECONDS))


def _provenance(message: Message, info: activity.Info) -> Provenance:
    if info.in_workflow:
        derived = f"{info.workflow_run_id}:{info.activity_id}"
        origin = Origin.HARNESS_OUTCOME if info.workflow_type in HARNESS_WORKFLOWS else Origin.CALLER
    else:
        derived, origin = str(info.activity_run_id), Origin.CALLER
    return Provenance(
        key=getattr(message, "idempotency_key", None) or derived,
        origin=origin,
        workflow_id=_reporting_workflow(info),
        run_id=info.workflow_run_id,
    )


def _reporting_workflow(info: activity.Info) -> str | None:
    # A record that is delivered later was made by the workflow whose id begins the deliverer's: up to the last
    # "/records/", for that id is anybody's choice.
    if info.workflow_type == "DeliverRecords" and info.workflow_id is not None:
        maker, slash, _ = info.workflow_id.rpartition("/records/")
        return maker if slash else info.workflow_id
    return info.workflow_id


def _left(info: activity.Info) -> float:
    """Give the seconds that own work may take, from the entry on, before the server gives this attempt up.

    Both instants are the server's; this machine's clock may show another time.
    """
    bounds = []
    if info.start_to_close_timeout is not None:
        bounds.append(info.start_to_close_timeout)
    if info.schedule_to_close_timeout is not None:
        bounds.append(info.schedule_to_close_timeout - (info.started_time - info.scheduled_time))
    return min((bound.total_seconds() for bound in bounds), default=60.0) - MARGIN_SECONDS


def _final(error: FinalError) -> ApplicationError:
    details = []
    if isinstance(error, Conflict) and error.actual_revision is not None:
        details.append({"actual_revision": error.actual_revision})
    return ApplicationError(str(error), *details, type=type(error).__name__, non_retryable=True)


def public_name(error: BaseException) -> str:
    """Return the name that callers know an error of memory by: what a store tells apart within is not theirs."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == PoimenError.__module__)
