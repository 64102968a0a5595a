"""The activities of an executor: decode, carry out, answer in plain JSON."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from executors.attempt_folder import clear_abandoned
from executors.command import run_command
from executors.environment import gather_environment
from executors.model import run_model
from executors.refusal import NotAllowed
from executors.retention import Retention
from executors.settings import ExecutorSettings
from executors.workspace import find_workspace
from poimen.contracts.execution import (
    ClaimExecutor,
    CommandResult,
    ExecutorClaim,
    ModelResult,
    RunCommand,
    RunModel,
)
from poimen.contracts.message import Decoded, Message
from poimen.contracts.problems import InvalidInput
from poimen.entry import EMPTY, one_argument, read_input, refuse

_BEAT_SECONDS = 1.0

M = TypeVar("M", bound=Message)


class ExecutorActivities:
    """The activities of one executor. What workers killed earlier left in its state folder is cleared away first."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._retention = Retention(settings)
        clear_abandoned(settings.state_dir)

    def all(self) -> Sequence[Callable[..., Any]]:
        """Return the activities to register with a worker."""
        return [self.claim_executor, self.run_command, self.run_model]

    @activity.defn(name="ClaimExecutor")
    @one_argument
    async def claim_executor(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Answer with this executor's own queue, the run's workspace and the environment's fingerprint.

        A workspace that is not allowed is claimed as asked for, with a warning: each command in it is refused.
        """
        decoded = _decode(raw, ClaimExecutor, "ClaimExecutor")
        request, warnings = decoded.message, list(decoded.warnings)
        self._retention.sweep_if_due()
        try:
            workspace = find_workspace(request.workspace, self._settings)
        except NotAllowed as error:
            workspace = None
            warnings.append(str(error))
        values, unknown = await gather_environment(request.environment, workspace, self._settings, activity.heartbeat)
        claim = ExecutorClaim(
            queue=self._settings.queue,
            host=self._settings.host,
            workspace=str(workspace or request.workspace or ""),
            environment=values,
            warnings=(*warnings, *unknown),
        )
        return claim.model_dump(mode="json")

    @activity.defn(name="RunCommand")
    @one_argument
    async def run_command(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Run one command and answer how it ended; a refusal is an answer too."""
        decoded = _decode(raw, RunCommand, "RunCommand")
        try:
            result = await run_command(decoded.message, self._settings, activity.heartbeat)
        except asyncio.CancelledError:
            if not _is_shutting_down():
                raise
            # Nobody asked for this: the workflow learns that its command ended, instead of that it was cancelled.
            kept = decoded.message.checkpoint
            result = CommandResult(end="cancelled", detail="the executor was shut down", checkpoint=kept)
        except OSError as error:
            raise _lacking(error) from None
        return _answer(result, decoded)

    @activity.defn(name="RunModel")
    @one_argument
    async def run_model(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Ask one model and answer what it said or why there is no answer."""
        decoded = _decode(raw, RunModel, "RunModel")
        async with _heartbeats():
            result = await run_model(decoded.message, self._settings)
        return _answer(result, decoded)


def _decode(raw: RawValue, model: type[M], label: str) -> Decoded[M]:
    try:
        return read_input(raw, model, label)
    except InvalidInput as error:
        raise refuse(error) from None


def _answer(result: CommandResult | ModelResult, decoded: Decoded[M]) -> dict[str, Any]:
    warnings = (*decoded.warnings, *result.warnings)
    return result.model_copy(update={"warnings": warnings}).model_dump(mode="json")


def _is_shutting_down() -> bool:
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown and not details.cancel_requested


def _lacking(error: OSError) -> ApplicationError:
    # The error's own text names paths of the executor.
    reason = error.strerror or "no reason given"
    return ApplicationError(f"the executor could not start a command: {reason}", type="ExecutorUnavailable")


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    """Heartbeat every second: without it a cancellation would not arrive."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(_BEAT_SECONDS)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
