"""Turn what Temporal hands to an entry into a message, or refuse it for good.

A typed argument that does not decode is retried for ever by the server; an entry therefore takes
``raw: RawValue = EMPTY`` and decodes it here.
"""

from typing import TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from poimen.contracts.message import Decoded, Message, decode
from poimen.contracts.problems import InvalidInput, Problem

EMPTY = RawValue(Payload())
_JSON = (b"json/plain", b"json/protobuf")

M = TypeVar("M", bound=Message)


def read_input(raw: RawValue, model: type[M], label: str) -> Decoded[M]:
    """Decode one JSON object.

    Raises ``InvalidInput`` with a sentence per problem; ``label`` names the entry in it.
    """
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
