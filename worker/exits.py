"""How a command ends: its exit codes, and what an error means to a person."""

from temporalio.service import RPCError, RPCStatusCode

from memory.errors import PoimenError, SchemaMismatch, StoreUnavailable
from poimen.contracts.problems import InvalidInput
from worker.options import SettingsError
from worker.stack.state import StackError

OK = 0
FAILED = 1
USAGE = 2
DEPENDENCY_DOWN = 3
SCHEMA = 4

_AWAY = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}


class ExitError(Exception):
    """End the command with this sentence and code."""

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        super().__init__(sentence)
        self.code = code


class TemporalDown(ExitError):
    """Temporal does not answer at the address that is set."""

    def __init__(self, address: str, because: str | None = None) -> None:
        where = f"Temporal does not answer at {address}"
        super().__init__(because or f"{where}; is it running? `poimen up` starts a local one.", DEPENDENCY_DOWN)


def is_away(error: RPCError) -> bool:
    """Tell whether Temporal is out of reach, and did not refuse."""
    return error.status in _AWAY


def explain(error: BaseException) -> tuple[str, int] | None:
    """Return the sentence and the exit code of an expected error, None for any other."""
    if isinstance(error, ExitError):
        return str(error), error.code
    if isinstance(error, SettingsError | InvalidInput):
        return str(error), USAGE
    if isinstance(error, SchemaMismatch):
        return str(error), SCHEMA
    if isinstance(error, StoreUnavailable | StackError):
        return str(error), DEPENDENCY_DOWN
    if isinstance(error, PoimenError):
        return str(error), FAILED
    if isinstance(error, RPCError):
        if is_away(error):
            return "Temporal does not answer; is it running? `poimen up` starts a local one.", DEPENDENCY_DOWN
        return f"Temporal refused: {error.message}", FAILED
    return None
