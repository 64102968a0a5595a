"""A port that somebody takes between its choice and the start of a server costs another choice, not the start."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from worker.stack import up
from worker.stack.child import PortTakenError, on_free_ports
from worker.stack.state import choose_ports, keep_ports
from worker.stack.temporal import TemporalPorts, temporal_server


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of a server that runs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("which", ["grpc", "http", "ui"])
async def test_the_dev_server_starts_on_other_ports(taken: int, which: str, tmp_path: Path) -> None:
    free = choose_ports(["grpc", "http", "ui"])
    choices = iter([free | {which: taken}, choose_ports(["grpc", "http", "ui"])])
    async with on_free_ports(
        lambda: TemporalPorts(**next(choices)), lambda ports: temporal_server(ports, log=tmp_path / "log", folder=None)
    ) as server:
        assert server.child.exited.done() is False


async def test_a_server_whose_port_stays_taken_is_given_up(taken: int, tmp_path: Path) -> None:
    asked = []
    with pytest.raises(PortTakenError, match="address already in use"):
        async with on_free_ports(
            lambda: asked.append(1) or TemporalPorts(taken, choose_ports(["http"])["http"]),
            lambda ports: temporal_server(ports, log=tmp_path / "log", folder=None),
        ):
            raise AssertionError
    assert len(asked) == 4


async def test_an_error_of_the_block_is_not_taken_for_one_of_the_start(tmp_path: Path) -> None:
    asked = []
    with pytest.raises(PortTakenError, match="of the block"):
        async with on_free_ports(
            lambda: asked.append(1) or TemporalPorts(**choose_ports(["grpc", "http"])),
            lambda ports: temporal_server(ports, log=tmp_path / "log", folder=None),
        ):
            raise PortTakenError("of the block")
    assert len(asked) == 1


async def test_a_whole_stack_starts_when_every_first_choice_is_taken(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: set[str] = set()

    def choose(*asked: object) -> Mapping[str, int]:
        ports = keep_ports(*asked)  # type: ignore[arg-type]  # because it is handed on as it came
        first = next(iter(ports))
        if first in late:
            return ports
        late.add(first)
        return {**ports, first: taken}

    monkeypatch.setattr(up, "keep_ports", choose)
    (tmp_path / "notes").mkdir()
    async with up.local_stack(tmp_path / "state", vault_source=tmp_path / "notes", start_worker=False) as addresses:
        assert addresses.postgres_address != f"127.0.0.1:{taken}"
    assert late == {"postgres", "temporal"}
