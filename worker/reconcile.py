"""Background task: give runs and steps that could not document their own end the record they lack.

A terminated or timed-out workflow runs no more code. Its record is handed to ``DeliverRecords`` under an id and a key
derived from the execution, so any number of workers may find the same one.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.client import WorkflowExecution as Found
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from poimen.contracts.message import encode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import DeliverRecordsInput, PendingRecord
from worker.last_words import Closed, documents_itself, last_words

_log = structlog.get_logger(__name__)
# Further back nothing is looked for; an outage of all workers may last this long.
LOOK_BACK: Final = timedelta(days=3)
# Visibility may show an execution this much after its close.
_OVERLAP: Final = timedelta(minutes=10)
_STATES: Final = '("Terminated", "TimedOut", "Failed")'


class Reconciler:
    """Looks for closed executions of one task queue that left no end on record."""

    def __init__(self, client: Client, task_queue: str, poll_seconds: float = 10.0) -> None:
        self._client = client
        self._queue = task_queue
        self._poll_seconds = poll_seconds
        self._since = datetime.now(UTC) - LOOK_BACK
        self._settled: dict[str, datetime] = {}

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
        """Look once; return the ids of the deliveries that were started."""
        began = datetime.now(UTC)
        started = [delivery async for found in self._closed() if (delivery := await self._settle(found))]
        self._since = max(self._since, began - _OVERLAP)
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

    async def _settle(self, found: Found) -> str | None:
        delivery = None
        if not await self._needs_nothing(found):
            delivery = await self._deliver_end(found)
        self._settled[found.run_id] = found.close_time or datetime.now(UTC)
        return delivery

    async def _needs_nothing(self, found: Found) -> bool:
        if found.status == WorkflowExecutionStatus.FAILED and await documents_itself(self._client, found):
            return True
        return await self._is_superseded(found)

    async def _is_superseded(self, found: Found) -> bool:
        """Whether a reset made a later run of the same execution, which documents the end instead."""
        current = await self._current(found.id)
        if current.execution.run_id == found.run_id:
            return False
        own = found.raw_info.first_run_id
        if current.first_run_id == own:
            return True
        # The id was used again since: look at all of its executions.
        name = found.id.replace("\\", "\\\\").replace('"', '\\"')
        async for other in self._client.list_workflows(f'WorkflowId = "{name}"'):
            later = other.start_time > found.start_time
            if other.run_id != found.run_id and later and other.raw_info.first_run_id == own:
                return True
        return False

    async def _current(self, workflow_id: str) -> WorkflowExecutionInfo:
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
        )
        answer = await self._client.workflow_service.describe_workflow_execution(request)
        return answer.workflow_execution_info

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
        delivery = f"{found.id}/records/{found.run_id}/end"
        try:
            await self._client.start_workflow(
                "DeliverRecords",
                encode(DeliverRecordsInput(records=(record,), queue=self._queue)),
                id=delivery,
                task_queue=self._queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=f"the end of {found.id}"[:200],
            )
        except WorkflowAlreadyStartedError:
            return None
        _log.info("An interrupted workflow is put on record.", workflow_id=found.id, run_id=found.run_id)
        return delivery
