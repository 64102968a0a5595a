"""How a workflow takes its input, finishes what must not be cut short, and ends with a reason."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from poimen.contracts.message import Decoded, Message, encode
from poimen.contracts.problems import InvalidInput, Problem
from poimen.entry import read_input, refuse
from poimen.memory_link import MemoryLink

M = TypeVar("M", bound=Message)
T = TypeVar("T")
# What a Temporal server takes by default.
MOST_ID_BYTES = 1_000
# "/records/", a run id, a number: the workflows that deliver what a step or a run could not write.
RECORDS_ID_BYTES = len("/records/") + 36 + len("/100000")


def accept(raw: RawValue, model: type[M], label: str) -> Decoded[M]:
    """Decode a workflow's input; bad input fails the workflow at once with a sentence."""
    try:
        return read_input(raw, model, label)
    except InvalidInput as error:
        raise refuse(error) from None


async def to_the_end(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Await work that a cancel must not cut short; return its result, and whether a cancel came meanwhile."""
    task = asyncio.create_task(work)
    cancelled = False
    while not task.done():
        try:
            # A wait that is cancelled leaves what it waits for alone.
            await workflow.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    return task.result(), cancelled


def ended_badly(reason: str, result: BaseModel, kind: str) -> ApplicationError:
    """Make the failure that closes a workflow: the reason as its message, the whole result as its detail."""
    return ApplicationError(reason, encode(result), type=kind, non_retryable=True)


def refusal(memory: MemoryLink) -> tuple[str, ...]:
    """Say what memory refused for good, as a warning; nothing when it refused nothing."""
    return (f"memory refused {memory.last_refusal}",) if memory.refused else ()


def detail_of(error: BaseException | None, kind: str) -> dict[str, Any] | None:
    """Return the result that ``ended_badly`` put into a child's failure, if this is one."""
    if isinstance(error, ApplicationError) and error.type == kind and error.details:
        detail = error.details[0]
        return detail if isinstance(detail, dict) else None
    return None


def refuse_long_id(label: str, children: int) -> None:
    """Refuse a workflow id that leaves no room for what is named after it: steps (``children`` bytes) and records.

    The server refuses a child with a longer id by failing the workflow task, which would be tried again for ever.
    """
    longest = MOST_ID_BYTES - children - RECORDS_ID_BYTES
    size = len(workflow.info().workflow_id.encode())
    if size > longest:
        reason = (
            f"The id of a {label} workflow has {size:,} bytes; at most {longest:,}, for its parts are named after it."
        )
        raise refuse(InvalidInput(Problem("workflow_id", reason)))
