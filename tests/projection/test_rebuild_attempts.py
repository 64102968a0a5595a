"""An attempt that was killed at any moment is gone on with: the next comes to the same; and a fault ends them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio import activity
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import projection
from activities.projection import RebuildActivities
from memory import compare, rebuild
from memory.rebuild import begin_generation
from memory.stores import Stores
from poimen.contracts.message import Message, encode
from poimen.contracts.rebuild import CompareGeneration, CopyChanges, CopyItems
from tests.fixtures_postgres import Database
from tests.projection.conftest import FailingIndex, follow, item_ids, teach

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ITEMS = 5
Run = Callable[[RawValue], Awaitable[dict[str, Any]]]


def activity_of(stores: Stores, name: str) -> Run:
    known = {activity._Definition.must_from_callable(one).name: one for one in RebuildActivities(stores).all()}
    return known[name]


def raw(message: Message) -> RawValue:
    return RawValue(DataConverter.default.payload_converter.to_payload(encode(message)))


async def attempted(stores: Stores, message: Message, *, told: Any = None, attempt: int = 1) -> tuple[Any, list[Any]]:
    """Run an attempt that begins with what the one before told; return its answer and all that it told."""
    beats: list[Any] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.extend(details)
    details = [told] if told else []
    environment.info = replace(environment.info, heartbeat_details=details, attempt=attempt)
    run = activity_of(stores, type(message).__name__)
    return await environment.run(run, raw(message)), beats


@pytest.mark.parametrize("kind", [CopyItems, CopyChanges, CompareGeneration])
async def test_an_attempt_that_goes_on_after_any_heartbeat_comes_to_the_same(
    kind: Any, failing: tuple[Stores, FailingIndex], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, index = failing
    for function in (rebuild.copy_page, rebuild.copy_changes, compare.compare_page):
        monkeypatch.setattr(function, "__defaults__", (2,))
    await teach(stores, *(f"lesson number {number}" for number in range(ITEMS)))
    await follow(stores)
    index.poison = set((await item_ids(database))[-1:])
    generation, _ = await begin_generation(stores, "local")
    asked = {"tenant": "local", "generation": generation.number}
    message = kind(**asked) if kind is CopyItems else kind(**asked, since=LONG_AGO)
    whole, beats = await attempted(stores, message)
    assert (whole["items"], whole.get("failed")) == (ITEMS, None if kind is CompareGeneration else 1)
    assert len(beats) >= ITEMS // 2
    for told in beats:
        again, _ = await attempted(stores, message, told=told)
        assert again == {**whole, **({"since": again["since"]} if "since" in whole else {})}


async def test_a_fault_is_tried_some_times_and_an_outage_for_as_long_as_it_takes(
    failing: tuple[Stores, FailingIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, index = failing
    await teach(stores, "free the port")
    await follow(stores)
    generation, _ = await begin_generation(stores, "local")
    message = CopyItems(tenant="local", generation=generation.number)
    index.down = lambda _put: True
    assert await _refused(stores, message, 1000) == ("StoreUnavailable", False)

    async def broken(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(projection, "copy_page", broken)
    assert await _refused(stores, message, projection.MOST_ATTEMPTS - 1) == ("InternalError", False)
    assert await _refused(stores, message, projection.MOST_ATTEMPTS) == ("InternalError", True)


async def _refused(stores: Stores, message: Message, attempt: int) -> tuple[str | None, bool]:
    with pytest.raises(ApplicationError) as error:
        await attempted(stores, message, attempt=attempt)
    return error.value.type, error.value.non_retryable
