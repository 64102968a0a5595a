"""The connection to Temporal that workers and commands share."""

import dataclasses
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError

from activities.failures import SentenceFailureConverter
from worker.exits import TemporalDown
from worker.found_stack import why_nothing_runs
from worker.settings import Settings

# The default payload converter, so that any caller's JSON fits; final errors leave without a stack.
CONVERTER: Final = dataclasses.replace(DataConverter.default, failure_converter_class=SentenceFailureConverter)


async def connect(settings: Settings, *, quiet: bool = False) -> Client:
    """Connect to Temporal. Raises TemporalDown.

    A `quiet` connection is a command's: it logs nothing, and the error says so when nothing runs here.
    """
    config = settings.temporal()
    runtime = quiet_runtime() if quiet else None
    try:
        return await Client.connect(**config, identity=settings.identity, data_converter=CONVERTER, runtime=runtime)
    except (RuntimeError, RPCError):  # RuntimeError is what a refused connection raises
        raise TemporalDown(config["target_host"], why_nothing_runs(settings) if quiet else None) from None


def quiet_runtime() -> Runtime:
    """Return a runtime of the SDK that prints nothing; the usual one colours lines about every call it tries again."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


async def count_pollers(client: Client, queue: str, kind: TaskQueueType.ValueType) -> int:
    """Return how many workers polled a task queue in the last minutes."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
    )
    return len((await client.workflow_service.describe_task_queue(request)).pollers)
