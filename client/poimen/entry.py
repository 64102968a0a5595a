"""Turn what Temporal hands to an entry into a message, or refuse it for good.

A typed argument that does not decode is retried for ever by the server, and so is one argument too many; an entry
therefore takes ``raw: RawValue = EMPTY``, is marked with ``one_argument`` and decodes here.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from poimen.contracts.message import Decoded, Message, decode
from poimen.contracts.problems import InvalidInput, Problem

EMPTY = RawValue(Payload())
_JSON = (b"json/plain", b"json/protobuf")
_TOO_MANY = RawValue(Payload(metadata={"encoding": b"none"}, data=b"more than one argument"))

M = TypeVar("M", bound=Message)
F = TypeVar("F", bound=Callable[..., Any])


def one_argument(entry: F) -> F:
    """Let an entry that got too many arguments refuse them as it refuses all bad input."""
    most = len(inspect.signature(entry).parameters)

    def fitting(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return arguments if len(arguments) <= most else (*arguments[: most - 1], _TOO_MANY)

    @functools.wraps(entry)
    async def called(*arguments: Any) -> Any:
        return await entry(*fitting(arguments))

    @functools.wraps(entry)
    def called_at_once(*arguments: Any) -> Any:
        return entry(*fitting(arguments))

    return cast(F, called if inspect.iscoroutinefunction(entry) else called_at_once)


def read_input(raw: RawValue, model: type[M], label: str) -> Decoded[M]:
    """Decode one JSON object.

    Raises ``InvalidInput`` with a sentence per problem; ``label`` names the entry in it.
    """
    if raw is _TOO_MANY:
        raise InvalidInput(Problem("", f"{label} needs one JSON object; it got more arguments than one."))
    encoding = raw.payload.metadata.get("encoding", b"")
    if encoding in (b"", b"binary/null"):
        return decode(model, b"", label)
    if encoding not in _JSON:
        reason = f"{label} needs one JSON object; it got a payload of another encoding."
        raise InvalidInput(Problem("", reason))
    return decode(model, raw.payload.data, label)


def refuse(error: InvalidInput) -> ApplicationError:
    """Make the final error a caller sees: the sentence, with field and reason as details."""
    details = [{"field": problem.field, "reason": problem.reason} for problem in error.problems]
    return ApplicationError(str(error), details, type="InvalidInput", non_retryable=True)
