import time

import pytest

from memory.deadline import within
from memory.errors import StoreUnavailable
from memory.recall import recall
from memory.stores import Stores
from poimen.contracts.memory_calls import GetContext
from tests.memory.acted_step import caller


def soon() -> float:
    return time.monotonic() + 20


@pytest.mark.parametrize("error", [StoreUnavailable("down"), OSError("gone"), KeyError("a defect")], ids=repr)
async def test_a_tier_that_fails_is_down_whatever_the_error(error: Exception) -> None:
    async def ask(_: float) -> list[str]:
        raise error

    answer = await within("vault", ask, len, soon())
    assert (answer.report.status, answer.value) == ("down", None)


async def test_an_answer_that_cannot_be_counted_is_none() -> None:
    async def ask(_: float) -> object:
        return object()

    answer = await within("vault", ask, len, soon())  # type: ignore[arg-type]
    assert (answer.report.status, answer.value) == ("down", None)


async def test_a_defect_in_one_tier_leaves_the_others_answers(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(type(stores.index), "search", broken)
    package = await recall(GetContext(scope="acme/api", step="serve", deadline_ms=20_000), caller(), stores)
    assert [report.status for report in package.tiers] == ["answered", "down", "answered"]
