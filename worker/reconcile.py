"""Background task: give runs and steps that could not document their own end the record they lack.

A terminated or timed-out workflow runs no more code, and one that is cancelled before its first task never ran any. Its
record is handed to ``DeliverRecords`` under an id and a key derived from the execution, so any number of workers may
find the same one.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
)
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.client import WorkflowExecution as Found
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from poimen.contracts.message import encode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import DeliverRecordsInput, PendingRecord
from poimen.excerpts import cut_head
from worker.last_words import Closed, documents_itself, last_words

_log = structlog.get_logger(__name__)
# Further back nothing is looked for; an outage of all workers may last this long.
LOOK_BACK: Final = timedelta(days=3)
# Visibility may show an execution this much after its close.
_OVERLAP: Final = timedelta(minutes=10)
_STATES: Final = '("Terminated", "TimedOut", "Failed", "Canceled")'
# Temporal's limits, in bytes.
_LONGEST_ID: Final = 1_000
_LONGEST_SUMMARY: Final = 400
# Asked again, these are answered alike: retention was faster, or the server takes no such request.
_FINAL_REFUSALS: Final = {
    RPCStatusCode.NOT_FOUND: "An interrupted workflow is gone.",
    RPCStatusCode.INVALID_ARGUMENT: "An interrupted workflow cannot be put on record.",
}


class Reconciler:
    """Looks for closed executions of one task queue that left no end on record."""

    def __init__(self, client: Client, task_queue: str, poll_seconds: float = 10.0) -> None:
        self._client = client
        self._queue = task_queue
        self._poll_seconds = poll_seconds
        self._since = datetime.now(UTC) - LOOK_BACK
        self._settled: dict[str, datetime] = {}
        self._left: dict[str, datetime] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until `stop` is set; when Temporal does not answer, the next sweep looks again."""
        while not stop.is_set():
            try:
                await self.sweep()
            except RPCError as error:
                _log.warning("Looking for interrupted runs failed; it is tried again.", error=error.message)
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    async def sweep(self) -> list[str]:
        """Look once; return the ids of the deliveries that were started.

        An execution that cannot be settled now is met again by the next sweep, and stops no other.
        """
        began = datetime.now(UTC)
        before, self._left = self._left, {}
        started = [delivery async for found in self._closed() if (delivery := await self._settle(found, before))]
        oldest = min([began - _OVERLAP, *self._left.values()])
        self._since = max(self._since, oldest, began - LOOK_BACK)
        self._settled = {run: at for run, at in self._settled.items() if at >= self._since}
        return started

    async def _closed(self) -> AsyncIterator[Found]:
        queue = self._queue.replace("\\", "\\\\").replace('"', '\\"')
        query = (
            f'WorkflowType IN ("HarnessRun", "HarnessStep") AND ExecutionStatus IN {_STATES} '
            f'AND TaskQueue = "{queue}" AND CloseTime >= "{self._since.isoformat()}"'
        )
        async for found in self._client.list_workflows(query):
            if found.run_id not in self._settled:
                yield found

    async def _settle(self, found: Found, left_before: Collection[str]) -> str | None:
        delivery, who = None, {"workflow_id": found.id, "run_id": found.run_id}
        closed = found.close_time or datetime.now(UTC)
        try:
            if not await self._needs_nothing(found):
                delivery = await self._deliver_end(found)
        except Exception as error:
            final = _FINAL_REFUSALS.get(error.status) if isinstance(error, RPCError) else None
            if final is None:
                self._left[found.run_id] = closed
                if found.run_id not in left_before:  # once: what goes wrong every time would fill the log
                    _log.warning("An interrupted workflow is left for later.", **who, exc_info=True)
                return None
            _log.warning(final, **who, error=str(error))
        self._settled[found.run_id] = closed
        return delivery

    async def _needs_nothing(self, found: Found) -> bool:
        if found.status == WorkflowExecutionStatus.FAILED and await documents_itself(self._client, found):
            return True
        return await self._is_superseded(found)

    async def _is_superseded(self, found: Found) -> bool:
        """Whether a reset made a later run of the same execution, which documents the end instead."""
        own = await self._describe(found.id, found.run_id)
        if own.workflow_extended_info.reset_run_id:
            return True
        # A server that does not name the reset's run still tells which chain the current run belongs to.
        current = (await self._describe(found.id)).workflow_execution_info
        first = own.workflow_execution_info.first_run_id
        return current.execution.run_id != found.run_id and bool(first) and current.first_run_id == first

    async def _describe(self, workflow_id: str, run_id: str = "") -> DescribeWorkflowExecutionResponse:
        return await self._client.workflow_service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(
                namespace=self._client.namespace,
                execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            )
        )

    async def _deliver_end(self, found: Found) -> str | None:
        history = await self._client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        try:
            message = last_words(Closed(found.run_id, found.close_time, history.events))
        except InvalidInput:
            _log.warning("An interrupted workflow had no readable input.", workflow_id=found.id)
            return None
        if message is None:
            return None
        record = PendingRecord(activity="DocumentDecision", message=encode(message))
        delivery = _delivery_id(found)
        try:
            await self._client.start_workflow(
                "DeliverRecords",
                encode(DeliverRecordsInput(records=(record,), queue=self._queue)),
                id=delivery,
                task_queue=self._queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=cut_head(f"the end of {found.id}", _LONGEST_SUMMARY),
            )
        except WorkflowAlreadyStartedError:
            return None
        _log.info("An interrupted workflow is put on record.", workflow_id=found.id, run_id=found.run_id)
        return delivery


def _delivery_id(found: Found) -> str:
    ending = f"/records/{found.run_id}/end"
    if len((found.id + ending).encode()) <= _LONGEST_ID:
        return found.id + ending
    return hashlib.sha256(found.id.encode()).hexdigest() + ending
