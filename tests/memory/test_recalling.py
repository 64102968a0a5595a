import asyncio
import time
from dataclasses import replace
from typing import Any

from memory.learn import learn
from memory.notes.shelf import NoteVault, Shelf
from memory.recall import recall
from memory.stores import Stores
from memory.vectors.project import index_follower
from poimen.contracts.memory_calls import ContextPackage, GetContext, LearnFromExecution
from tests.fixtures_postgres import Database
from tests.memory.acted_step import ActedStep, caller, cured_by, incurable
from tests.tcp_proxy import TcpProxy


def asking(**values: Any) -> GetContext:
    given = {"scope": "acme/api", "run": "rel-9", "step": "serve", "deadline_ms": 20_000, **values}
    return GetContext(**given)


def statuses(package: ContextPackage) -> dict[str, str]:
    return {report.tier: report.status for report in package.tiers}


class StalledVault(NoteVault):
    """A vault on a file system that does not answer."""

    async def read(self, tenant: str) -> Shelf:
        await asyncio.Event().wait()
        raise AssertionError(tenant)


class BrokenVault(NoteVault):
    """A vault on a file system that fails."""

    async def read(self, tenant: str) -> Shelf:
        raise OSError(f"no vault of {tenant}")


async def test_a_step_nobody_knows_gets_nothing_and_the_reason(stores: Stores) -> None:
    package = await recall(asking(), caller(), stores)
    assert package.items == ()
    assert (package.empty_reason, package.empty_because) == (
        "no_evidence",
        "no failure of serve is on record here",
    )
    assert statuses(package) == {"signatures": "answered", "vectors": "answered", "vault": "answered"}


async def test_a_late_tier_is_named_and_the_others_answer(stores: Stores) -> None:
    slow = replace(stores, notes=StalledVault(stores.notes.folder))
    package = await recall(asking(deadline_ms=800), caller(), slow)
    assert statuses(package) == {"signatures": "answered", "vectors": "answered", "vault": "late"}
    assert package.empty_because == "no failure of serve is on record here (vault late)"


async def test_a_tier_that_fails_is_down(stores: Stores) -> None:
    broken = replace(stores, notes=BrokenVault(stores.notes.folder))
    assert statuses(await recall(asking(), caller(), broken))["vault"] == "down"


async def test_without_postgres_the_notes_are_still_delivered(proxied: Stores, proxy: TcpProxy) -> None:
    await proxy.refuse()
    call = asking(last_failure="OSError: [Errno 98] Address already in use", deadline_ms=3_000)
    package = await recall(call, caller(), proxied)
    assert statuses(package)["signatures"] in {"down", "late"}
    assert statuses(package)["vault"] == "answered"
    assert [skill.name for skill in package.skills] == ["free-a-port"]
    assert package.empty_reason in {"tier_down", "deadline"}
    assert any("receipt" in warning for warning in package.warnings)


async def test_a_black_hole_ends_at_the_callers_deadline(proxied: Stores, proxy: TcpProxy) -> None:
    await recall(asking(), caller(), proxied)
    proxy.black_hole()
    began = time.monotonic()
    package = await asyncio.wait_for(recall(asking(deadline_ms=500), caller(), proxied), 10)
    assert statuses(package)["signatures"] == "late"
    assert package.empty_reason == "deadline"
    # Far below what a connection would wait by itself, far above the noise of a busy machine.
    assert time.monotonic() - began < 5


async def test_each_tier_gives_at_most_three(stores: Stores) -> None:
    for number, error in enumerate(["alpha broke: x", "beta broke: y", "gamma broke: z", "delta broke: w"]):
        await ActedStep(stores, most_attempts=1).run(f"r{number}", incurable(f"{error.title()}Error: {error}"))
    package = await recall(asking(task="alpha beta gamma delta"), caller(), stores)
    by_tier = [item.tier for item in package.items]
    assert by_tier.count("signatures") == 3
    assert len({item.id for item in package.items}) == len(package.items)


async def test_the_same_question_gives_the_same_package(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    one = await recall(asking(task="serve a port"), caller(), stores)
    other = await recall(asking(task="serve a port"), caller(), stores)
    assert (one.items, one.skills) == (other.items, other.skills)
    assert one.package_id != other.package_id


async def test_what_was_delivered_is_on_record(stores: Stores, database: Database) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    package = await recall(asking(), caller(), stores)
    row = await database.run_sql(f"select item_ids[1] from receipts where package_id = '{package.package_id}';")
    assert row.strip().startswith(package.items[0].id)


async def test_a_prevention_is_an_event_that_its_receipt_names(stores: Stores, database: Database) -> None:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    call = asking(repairs=("free-port", "reboot"), run="rel-3")
    packages = [await recall(call, caller(key="the same"), stores) for _ in range(2)]
    assert all(package.prevention for package in packages)
    # Two packages are two decisions, though the call is one.
    assert len({package.policy_decision_id for package in packages}) == 2
    named = await database.run_sql(
        "select payload ->> 'package_id', 'pol-' || id, payload -> 'prevention' ->> 'repair', payload ->> 'held_out'"
        " from journal join receipts using (tenant, position)"
        " where kind = 'context_delivered' and journal.run = 'rel-3' order by position;"
    )
    assert named.split() == [f"{p.package_id}|{p.policy_decision_id}|free-port|false" for p in packages]


async def test_a_package_that_changes_nothing_leaves_a_receipt_and_no_event(stores: Stores, database: Database) -> None:
    package = await recall(asking(), caller(), stores)
    assert package.policy_decision_id is None
    told = await database.run_sql("select package_id, position is null from receipts;")
    assert told.split() == [f"{package.package_id}|t"]
    assert (await database.run_sql("select count(*) from journal;")).strip() == "0"


async def test_earlier_attempts_are_read_when_the_caller_has_none(stores: Stores) -> None:
    acted = await ActedStep(stores, most_attempts=2).run("rel-1", incurable())
    package = await recall(asking(run="rel-1", attempt=3), caller(), stores)
    assert [(e.attempt, e.title) for e in package.earlier_attempts] == [
        (1, "address in use"),
        (2, "address in use"),
    ]
    assert package.earlier_attempts[0].signature == acted.analyses[0].signature


async def test_text_is_rendered_when_it_is_asked_for(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    package = await recall(asking(render=True), caller(), stores)
    assert package.text is not None
    assert "serve failed 1 time in 1 run: address in use. Ended by: free-port (1 of 1)." in package.text
    assert package.text_tokens > 0
    assert (await recall(asking(), caller(), stores)).text is None


async def test_a_told_lesson_is_found_by_its_words_in_another_step(stores: Stores) -> None:
    lesson = "The flux capacitor needs the calibration file before deployment."
    told = LearnFromExecution(scope="acme/api", step="deploy", outcome="succeeded", lesson=lesson)
    await learn(told, caller(), stores)
    await index_follower(stores, "local").step()
    package = await recall(asking(task="calibration of the flux capacitor"), caller(), stores)
    item = next(item for item in package.items if item.tier == "vectors")
    assert (item.text, item.trust) == (lesson, "unverified")
    assert item.because == "shares calibration, capacitor, flux"
    elsewhere = asking(task="calibration of the flux capacitor", scope="acme/web")
    assert [i for i in (await recall(elsewhere, caller(), stores)).items if i.tier == "vectors"] == []


async def test_a_skill_that_helped_says_so(stores: Stores) -> None:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    third = await step.run("rel-3", cured_by("free-port"), follow=False)
    skill = third.packages[1].skills[0]
    assert skill.name == "free-a-port"
    assert skill.because.startswith("helped serve ")
    assert skill.because.endswith(". In the vault: skills/free-a-port.md")


async def test_a_secret_in_the_task_is_not_searched_or_returned(stores: Stores) -> None:
    package = await recall(asking(task="password=hunter2hunter2hunter2", render=True), caller(), stores)
    assert "hunter2" not in package.model_dump_json()
    assert package.warnings == ("1 secret masked",)
