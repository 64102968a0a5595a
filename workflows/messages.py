"""How a workflow takes its input and ends with a reason."""

from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from poimen.contracts.message import Message, encode
from poimen.contracts.problems import InvalidInput
from poimen.entry import read_input, refuse

M = TypeVar("M", bound=Message)


def accept(raw: RawValue, model: type[M], label: str) -> M:
    """Decode a workflow's input; bad input fails the workflow at once with a sentence."""
    try:
        return read_input(raw, model, label).message
    except InvalidInput as error:
        raise refuse(error) from None


def ended_badly(reason: str, result: BaseModel, kind: str) -> ApplicationError:
    """Make the failure that closes a workflow: the reason as its message, the whole result as its detail."""
    return ApplicationError(reason, encode(result), type=kind, non_retryable=True)


def detail_of(error: BaseException | None, kind: str) -> dict[str, Any] | None:
    """Return the result that ``ended_badly`` put into a child's failure, if this is one."""
    if isinstance(error, ApplicationError) and error.type == kind and error.details:
        detail = error.details[0]
        return detail if isinstance(detail, dict) else None
    return None
