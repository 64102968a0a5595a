import asyncio
import dataclasses

from memory.health import health
from memory.notes.shelf import NoteVault
from memory.stores import Stores
from poimen.contracts.memory_calls import HealthReport
from tests.memory.acted_step import ActedStep, incurable
from tests.tcp_proxy import TcpProxy


def healths(report: HealthReport) -> dict[str, str]:
    return {tier.tier: tier.health for tier in report.tiers}


async def test_every_tier_says_how_it_is(stores: Stores) -> None:
    report = await health("local", stores)
    assert healths(report) == {"signatures": "ok", "vectors": "ok", "vault": "ok"}
    assert all(tier.detail for tier in report.tiers)


async def test_an_index_that_is_behind_tells_its_lag(stores: Stores) -> None:
    await ActedStep(stores, most_attempts=1).run("rel-1", incurable())
    report = await health("local", stores)
    vectors = next(tier for tier in report.tiers if tier.tier == "vectors")
    assert vectors.lag_seconds is not None
    assert vectors.lag_seconds > 0


async def test_a_broken_note_makes_the_vault_degraded(stores: Stores) -> None:
    folder = stores.settings.vault_path / "local"
    folder.mkdir(parents=True)
    (folder / "bad.md").write_text("---\na: [\n---\n")
    vault = (await health("local", stores)).tiers[2]
    assert vault.health == "degraded"
    assert "bad.md line" in vault.detail


async def test_the_first_three_broken_notes_are_named_with_their_lines_and_the_rest_counted(stores: Stores) -> None:
    folder = stores.settings.vault_path / "local" / "skills"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text("# Good\n")
    whole = (await health("local", stores)).tiers[2]
    for name in "abcd":
        (folder / f"{name}.md").write_text("---\nid: x\nid: y\n---\n")
    vault = (await health("local", stores)).tiers[2]
    named = "; ".join(f"skills/{name}.md line 3: id is there twice" for name in "abc")
    assert (whole.health, vault.health) == ("ok", "degraded")
    assert vault.detail == f"{whole.detail}, 4 not: {named}; and 1 more"


async def test_one_note_is_not_told_as_several(stores: Stores) -> None:
    folder = stores.settings.vault_path / "local"
    folder.mkdir(parents=True)
    (folder / "one.md").write_text("# One\n")
    alone = dataclasses.replace(stores, notes=NoteVault(stores.settings.vault_path))
    assert (await health("local", alone)).tiers[2].detail == "1 note read"


async def test_postgres_that_refuses_is_down_and_the_vault_is_not(proxied: Stores, proxy: TcpProxy) -> None:
    await proxy.refuse()
    report = await asyncio.wait_for(health("local", proxied), 5)
    assert healths(report) == {"signatures": "down", "vectors": "down", "vault": "ok"}


async def test_a_black_hole_is_told_within_the_deadline(proxied: Stores, proxy: TcpProxy) -> None:
    await health("local", proxied)
    proxy.black_hole()
    report = await asyncio.wait_for(health("local", proxied), 5)
    assert healths(report)["signatures"] == "down"
