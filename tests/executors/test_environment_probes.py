import hashlib
from dataclasses import replace

import pytest

from executors.environment import gather_environment
from executors.process import _LATE_SECONDS
from poimen.contracts.execution import EnvironmentProbe


def probes(**sources):
    return [EnvironmentProbe(name=name, **source) for name, source in sources.items()]


async def test_each_kind_of_probe_has_its_value(settings, workspace):
    (workspace / "uv.lock").write_bytes(b"locked")
    limits = replace(settings, allowed_variables=frozenset({"IMAGE"}), variables={"IMAGE": "base:12"})
    asked = probes(
        tool={"command": ("sh", "-c", "echo; echo ' v1.2 '; echo more")},
        lock={"file": "uv.lock"},
        image={"variable": "IMAGE"},
    )
    values, warnings = await gather_environment(asked, workspace, limits)
    digest, image = (hashlib.sha256(content).hexdigest()[:12] for content in (b"locked", b"base:12"))
    assert values == {"tool": "v1.2", "lock": f"sha256:{digest}", "image": f"sha256:{image}"}
    assert warnings == ()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"command": ("no-such-program",)}, "the command is not on the executor"),
        ({"command": ("sh", "-c", "echo v1; exit 2")}, "the command ended with exit code 2"),
        ({"command": ("sleep", "300")}, "the command took too long"),
        ({"command": ("echo", "a\0b")}, "the command could not be started"),
        ({"file": "gone"}, "no such file"),
        ({"file": "."}, "not a regular file"),
        ({"file": "../secret"}, "the file is outside the workspace"),
        ({"file": "/etc/passwd"}, "the file is an absolute path; give one relative to the workspace"),
        ({"variable": "TOKEN"}, "the variable TOKEN is not on the executor's allow-list"),
        ({}, "the probe names no command, file or variable"),
    ],
)
async def test_a_probe_that_fails_is_unknown_for_a_reason(settings, workspace, source, reason):
    limits = replace(settings, probe_seconds=0.3, variables={"TOKEN": "s3cr3t"})
    values, warnings = await gather_environment(probes(it=source), workspace, limits)
    assert values == {"it": f"unknown: {reason}"}
    assert warnings == (f"environment it is unknown: {reason}",)


async def test_a_switched_off_executor_runs_no_probe(settings, workspace):
    limits = replace(settings, command_enabled=False)
    values, _ = await gather_environment(probes(it={"command": ("touch", "mark")}), workspace, limits)
    assert "switched off" in values["it"]
    assert not (workspace / "mark").exists()


async def test_a_probe_sees_nothing_of_the_workers_environment(settings, workspace, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    asked = probes(it={"command": ("sh", "-c", 'echo "<$DATABASE_PASSWORD>"')})
    assert (await gather_environment(asked, workspace, settings))[0] == {"it": "<>"}


async def test_a_value_is_cut_to_what_a_fingerprint_holds(settings, workspace):
    asked = probes(it={"command": ("sh", "-c", "yes x | head -2000 | tr -d '\\n'")})
    assert (await gather_environment(asked, workspace, settings))[0] == {"it": "x" * 512}


async def test_more_probes_than_a_fingerprint_holds_are_left_out(settings, workspace):
    asked = [EnvironmentProbe(name=f"p{number}", file="gone") for number in range(70)]
    values, warnings = await gather_environment(asked, workspace, settings)
    assert len(values) == 64
    assert warnings[-1] == "70 environment probes; the first 64 were taken"


async def test_no_value_of_a_variable_is_in_the_fingerprint(settings, workspace):
    keys = {"API_KEY": "sk-first-key", "OTHER_KEY": "sk-other\udcff"}
    limits = replace(settings, allowed_variables=frozenset(keys), variables=keys)
    asked = probes(**{name.lower(): {"variable": name} for name in keys})
    values, _ = await gather_environment(asked, workspace, limits)
    assert "sk-" not in str(values)
    assert values["api_key"] != values["other_key"]
    assert (await gather_environment(asked, workspace, limits))[0] == values


async def test_all_probes_share_one_deadline(settings, workspace):
    limits = replace(settings, probe_seconds=600.0, fingerprint_seconds=0.5)
    commands = {f"slow{number}": {"command": ("sh", "-c", f"touch {number}; sleep 600")} for number in range(12)}
    asked = probes(**commands, late={"file": "gone"})
    values, warnings = await gather_environment(asked, workspace, limits)
    assert {value.removeprefix("unknown: ") for value in values.values()} == {
        "the command took too long",
        "took too long",
    }
    assert values["late"] == "unknown: took too long"
    assert len(warnings) == 13
    assert len(list(workspace.iterdir())) < 12


def test_a_claim_is_answered_before_it_counts_as_lost(settings):
    latest = settings.fingerprint_seconds + settings.grace_seconds + _LATE_SECONDS
    assert latest + settings.probe_seconds / 2 < 60
