import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from temporalio.client import Client

FOLDER = Path(__file__).parents[2] / "examples/orchestrated"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the example's program, as `python examples/orchestrated/main.py` reads it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("order_activities", "order_workflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.util.spec_from_file_location("orchestrated_main", FOLDER / "main.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


async def test_only_an_address_where_nobody_listens_is_said_not_to_answer(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(SystemExit, match="Temporal does not answer"):
        await example.main("rates.json")


async def test_another_error_of_the_example_is_shown_as_it_is(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, temporal_client: Client
) -> None:
    async def connected(**_config: object) -> Client:
        return temporal_client

    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("the worker cannot start")

    monkeypatch.setattr(Client, "connect", connected)
    monkeypatch.setattr(example, "Worker", broken)
    with pytest.raises(RuntimeError, match="the worker cannot start"):
        await example.main("rates.json")
