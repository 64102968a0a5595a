"""The activities behind a real server: called by name, standalone, with the server's own retries."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import ActivityFailureError, Client
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.boundary import MemoryActivities
from activities.failures import SentenceFailureConverter
from memory.stores import Stores

LIMIT = timedelta(seconds=60)


async def served(client: Client, stores: Stores, queue: str, name: str, *value: Any) -> Any:
    quiet = Client(
        client.service_client,
        namespace=client.namespace,
        data_converter=DataConverter(failure_converter_class=SentenceFailureConverter),
    )
    async with Worker(quiet, task_queue=queue, activities=MemoryActivities(stores).all()):
        return await client.execute_activity(
            name,
            args=list(value),
            id=f"{queue}-{name}",
            task_queue=queue,
            # No bound on attempts: what loops for ever would meet the limit instead of the error.
            schedule_to_close_timeout=LIMIT,
        )


async def test_a_standalone_call_by_name_is_answered_with_json(
    temporal_client: Client, stores: Stores, task_queue: str
) -> None:
    call = {"scope": "acme/api", "step": "serve", "deadline_ms": 20_000, "render": True}
    answer = await served(temporal_client, stores, task_queue, "GetContext", call)
    assert answer["package_id"].startswith("ctx-")
    assert "nothing known, because no failure of serve is on record here" in answer["text"]


@pytest.mark.parametrize("value", [[], [{"scope": ""}], [7]], ids=["none", "empty scope", "a number"])
async def test_bad_input_takes_one_attempt_and_shows_no_stack(
    temporal_client: Client, stores: Stores, task_queue: str, value: list[Any]
) -> None:
    with pytest.raises(ActivityFailureError) as caught:
        await served(temporal_client, stores, task_queue, "AnalyzeError", *value)
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "InvalidInput"
    assert cause.failure is not None
    assert cause.failure.stack_trace == ""
    description = await temporal_client.get_activity_handle(f"{task_queue}-AnalyzeError").describe()
    assert description.attempt == 1
