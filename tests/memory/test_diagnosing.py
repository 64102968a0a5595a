import asyncio
from dataclasses import replace
from typing import Any

import pytest

from memory.aliases import AliasRequest, alias
from memory.analyze import analyze
from memory.diagnose import diagnose
from memory.journal import Origin
from memory.knowledge import retire
from memory.learn import learn
from memory.noise import is_noise
from memory.notes.shelf import NoteVault, Shelf
from memory.signatures import sign
from memory.stores import Stores
from memory.vectors.project import index_follower
from poimen.contracts.memory_calls import (
    AnalyzeError,
    AppliedAction,
    DiagnoseIssue,
    Diagnosis,
    LearnFromExecution,
    RetireKnowledge,
)
from tests.fixtures_postgres import Database
from tests.memory.acted_step import NO_MODULE, PORT_TAKEN, ActedStep, caller, cured_by, incurable
from tests.tcp_proxy import TcpProxy

OTHER_MODULE = "ModuleNotFoundError: No module named 'requests'"


async def diagnosed(stores: Stores, text: str | None = PORT_TAKEN, tenant: str = "local", **values: Any) -> Diagnosis:
    given = {"scope": "acme/api", "text": text, "deadline_ms": 20_000, **values}
    return await diagnose(DiagnoseIssue(**given), caller(tenant), stores)


def statuses(diagnosis: Diagnosis) -> dict[str, str]:
    return {report.tier: report.status for report in diagnosis.tiers}


def matches(diagnosis: Diagnosis) -> list[tuple[str, str | None]]:
    return [(cause.match, cause.step) for cause in diagnosis.causes]


async def test_a_known_failure_is_found_in_whatever_step_it_was_seen(stores: Stores) -> None:
    for number in (1, 2):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port"))
    diagnosis = await diagnosed(stores, f"Traceback (most recent call last):\n{PORT_TAKEN}\n")
    cause = diagnosis.causes[0]
    assert (cause.match, cause.step, cause.title) == ("same_failure", "serve", "address in use")
    assert cause.because == "serve failed 2 times in 2 runs: address in use. Ended by: free-port (2 of 2)."
    assert cause.seen is not None
    assert (cause.seen.occurrences, cause.seen.runs, cause.seen.first_run) == (2, 2, "rel-1")
    assert cause.item == diagnosis.items[0].id
    assert (diagnosis.signature, diagnosis.title) == (cause.signature, "address in use")


async def test_recovery_steps_say_what_worked_how_often_and_where(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    await ActedStep(stores, step="deploy").run("rel-1", cured_by("reboot"))
    steps = (await diagnosed(stores)).recovery_steps
    told = {(step.step, step.repair, step.worked, step.tried, step.similar) for step in steps}
    assert ("serve", "free-port", 1, 1, False) in told
    assert ("deploy", "reboot", 1, 1, False) in told
    assert [step.confidence for step in steps] == sorted((step.confidence for step in steps), reverse=True)


async def test_the_asked_steps_own_evidence_comes_first(stores: Stores) -> None:
    for number in (1, 2):
        await ActedStep(stores).run(f"rel-{number}", cured_by("free-port"))
    await ActedStep(stores, step="deploy").run("rel-1", cured_by("reboot"))
    diagnosis = await diagnosed(stores, step="deploy")
    assert matches(diagnosis)[:2] == [("same_step", "deploy"), ("same_failure", "serve")]
    assert diagnosis.recovery_steps[0].step == "deploy"
    assert matches(await diagnosed(stores))[0] == ("same_failure", "serve")


async def test_relatives_are_marked_as_similar_and_come_after_the_failure_itself(stores: Stores) -> None:
    for number in (1, 2, 3):
        await ActedStep(stores, step="lint").run(f"rel-{number}", cured_by("free-port", OTHER_MODULE))
    await ActedStep(stores, step="build").run("rel-1", cured_by("reboot", NO_MODULE))
    diagnosis = await diagnosed(stores, NO_MODULE)
    assert matches(diagnosis)[:2] == [("same_failure", "build"), ("similar", "lint")]
    similar = [step.similar for step in diagnosis.recovery_steps]
    assert similar == sorted(similar)
    assert True in similar


async def test_a_signature_that_stands_for_another_is_the_same_failure(stores: Stores) -> None:
    first = await ActedStep(stores, step="lint").run("rel-1", cured_by("free-port", OTHER_MODULE))
    other = await ActedStep(stores, step="build").run("rel-1", cured_by("reboot", NO_MODULE))
    await ActedStep(stores, step="build").run("rel-2", cured_by("reboot", OTHER_MODULE))
    request = AliasRequest(signature=first.analyses[0].signature, stands_for=other.analyses[0].signature)
    await alias(request, caller(origin=Origin.OPERATOR), stores)
    for text in (NO_MODULE, OTHER_MODULE):
        diagnosis = await diagnosed(stores, text)
        told = {(cause.match, cause.step) for cause in diagnosis.causes if cause.match != "words"}
        assert told == {("same_failure", "build"), ("same_failure", "lint")}
        # One lesson a step, with the evidence of both signatures.
        assert [cause.seen.runs for cause in diagnosis.causes if cause.step == "build" and cause.seen] == [2]


async def test_a_failure_never_seen_is_answered_by_its_relatives(stores: Stores) -> None:
    await ActedStep(stores, step="lint").run("rel-1", cured_by("free-port", OTHER_MODULE))
    diagnosis = await diagnosed(stores, NO_MODULE)
    assert matches(diagnosis)[0] == ("similar", "lint")
    assert diagnosis.empty_reason is None


async def test_a_signature_is_as_good_as_its_text(stores: Stores) -> None:
    await ActedStep(stores, step="lint").run("rel-1", cured_by("free-port", OTHER_MODULE))
    acted = await ActedStep(stores, step="build").run("rel-1", cured_by("free-port", NO_MODULE))
    by_text = await diagnosed(stores, NO_MODULE)
    by_key = await diagnosed(stores, None, signature=acted.analyses[0].signature)
    assert by_key.causes[:2] == by_text.causes[:2]
    assert (by_key.title, by_key.family, by_key.kind) == (by_text.title, by_text.family, by_text.kind)
    assert statuses(by_key) == statuses(by_text)


async def test_a_signature_that_is_not_on_record_leaves_nothing_to_search_by(stores: Stores) -> None:
    diagnosis = await diagnosed(stores, None, signature="s1:" + "0" * 32)
    assert (diagnosis.causes, diagnosis.title) == ((), None)
    assert diagnosis.empty_reason == "no_evidence"
    assert statuses(diagnosis) == {"signatures": "answered", "vectors": "skipped", "vault": "skipped"}


async def test_notes_that_fit_come_last(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    diagnosis = await diagnosed(stores)
    assert [cause.match for cause in diagnosis.causes] == ["same_failure", "words"]
    note = diagnosis.items[-1]
    assert (note.tier, note.kind, note.id) == ("vault", "skill", diagnosis.causes[-1].item)


async def test_lessons_of_other_failures_do_not_crowd_out_the_notes(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    for number in range(5):
        error = f"Trouble{number}Error: the address of port {number}{number} is already in use by somebody"
        await ActedStep(stores, step=f"other-{'abcde'[number]}", most_attempts=1).run("rel-1", incurable(error))
    await index_follower(stores, "local").step()
    diagnosis = await diagnosed(stores)
    assert "vault" in {item.tier for item in diagnosis.items}


async def test_a_told_lesson_is_found_by_the_words_of_a_question(stores: Stores) -> None:
    lesson = "The flux capacitor needs the calibration file before deployment."
    told = LearnFromExecution(scope="acme/api", step="deploy", outcome="succeeded", lesson=lesson)
    await learn(told, caller(), stores)
    await index_follower(stores, "local").step()
    diagnosis = await diagnosed(stores, "where is the calibration of the flux capacitor")
    assert (diagnosis.causes[0].match, diagnosis.items[0].text) == ("words", lesson)
    assert diagnosis.recovery_steps == ()


async def test_what_the_library_says_of_a_failure_is_found_from_every_scope(stores: Stores, database: Database) -> None:
    key = sign(PORT_TAKEN).key
    await database.run_sql(
        "insert into items ("
        "tenant, id, scope, kind, level, title, text, origin, trust, signature, created_at, updated_at)"
        " values ('local', 'rul-1', '@library', 'rule', 'L2', 'Free the port', 'Run free-port first.', 'reviewed',"
        f" 'reviewed', '{key}', now(), now());"
    )
    diagnosis = await diagnosed(stores)
    cause = diagnosis.causes[0]
    assert (cause.match, cause.because, cause.seen) == ("same_failure", "Run free-port first.", None)
    assert diagnosis.recovery_steps == ()


async def test_words_find_another_failure_only_while_nothing_nearer_is_known(stores: Stores) -> None:
    await ActedStep(stores, step="push").run("rel-1", cured_by("free-port", "PushError: registry quota exceeded"))
    await index_follower(stores, "local").step()
    unknown = "the registry says that our quota is exceeded"
    before = await diagnosed(stores, unknown)
    assert (matches(before)[0], before.items[0].tier) == (("words", None), "vectors")
    assert "push failed 1 time in 1 run: " in before.causes[0].because
    await ActedStep(stores, step="pull").run("rel-1", cured_by("free-port", unknown))
    after = await diagnosed(stores, unknown)
    assert matches(after)[0] == ("same_failure", "pull")
    assert "vectors" not in {item.tier for item in after.items}


async def test_nothing_known_is_said_with_its_reason(stores: Stores) -> None:
    diagnosis = await diagnosed(stores, "FrobnicationError: zyzzyva 7")
    assert (diagnosis.causes, diagnosis.recovery_steps, diagnosis.items) == ((), (), ())
    assert diagnosis.empty_reason == "no_evidence"
    assert diagnosis.empty_because == "neither this failure nor one like it is on record here"


async def test_a_text_that_names_no_cause_is_told_so(stores: Stores) -> None:
    assert any("or more of it" in warning for warning in (await diagnosed(stores, "exit code 1")).warnings)
    assert (await diagnosed(stores)).warnings == ()


async def test_nothing_is_written(stores: Stores, database: Database) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    tables = ("journal", "outbox", "attempts", "signatures", "items", "receipts", "environments")
    counts = "select " + ", ".join(f"(select count(*) from {table})" for table in tables) + ";"
    before = await database.run_sql(counts)
    await diagnosed(stores)
    await diagnosed(stores, "FrobnicationError: zyzzyva 7", environment={"python": "3.14"})
    assert await database.run_sql(counts) == before


async def test_other_scopes_and_tenants_stay_apart(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    for place in ({"scope": "acme/web"}, {"tenant": "other"}):
        diagnosis = await diagnosed(stores, **place)
        assert {cause.match for cause in diagnosis.causes} <= {"words"}
        assert diagnosis.recovery_steps == ()


async def test_what_was_retired_is_no_cause(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    lesson = (await diagnosed(stores)).items[0].id
    await retire(RetireKnowledge(scope="acme/api", id=lesson), caller(), stores)
    diagnosis = await diagnosed(stores)
    assert lesson not in [item.id for item in diagnosis.items]
    assert diagnosis.recovery_steps == ()


async def test_the_limit_bounds_causes_and_recovery_steps(stores: Stores) -> None:
    for step in ("serve", "deploy", "smoke"):
        await ActedStep(stores, step=step).run("rel-1", incurable())
    diagnosis = await diagnosed(stores, limit=2)
    assert (len(diagnosis.causes), len(diagnosis.items), len(diagnosis.recovery_steps)) == (2, 2, 2)


async def test_a_secret_in_the_text_is_masked_and_told(stores: Stores) -> None:
    diagnosis = await diagnosed(stores, f"password=hunter2hunter2\n{PORT_TAKEN}")
    assert diagnosis.warnings == ("1 secret masked",)


class StalledVault(NoteVault):
    """A vault on a file system that does not answer."""

    async def read(self, tenant: str) -> Shelf:
        await asyncio.Event().wait()
        raise AssertionError(tenant)


async def test_a_late_tier_is_named_and_the_others_answer(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    slow = replace(stores, notes=StalledVault(stores.notes.folder))
    diagnosis = await diagnosed(slow, deadline_ms=1_500)
    assert statuses(diagnosis) == {"signatures": "answered", "vectors": "answered", "vault": "late"}
    assert diagnosis.causes[0].match == "same_failure"


async def test_without_postgres_the_notes_still_answer(proxied: Stores, proxy: TcpProxy) -> None:
    await proxy.refuse()
    diagnosis = await diagnosed(proxied, deadline_ms=3_000)
    assert statuses(diagnosis)["signatures"] in {"down", "late"}
    assert [cause.match for cause in diagnosis.causes] == ["words"]


async def test_without_postgres_what_is_unknown_is_not_called_unknown(proxied: Stores, proxy: TcpProxy) -> None:
    await proxy.refuse()
    diagnosis = await diagnosed(proxied, "FrobnicationError: zyzzyva 7", deadline_ms=3_000)
    assert diagnosis.empty_reason in {"tier_down", "deadline"}
    assert "the failures on record could not be read (signatures " in (diagnosis.empty_because or "")


@pytest.mark.parametrize("waits", [(1.0, 6.0), (6.0, 1.0)])
async def test_a_wait_that_helped_is_told_apart_from_retries_that_came_too_soon(
    stores: Stores, waits: tuple[float, float]
) -> None:
    for number, waited in enumerate(waits):
        await waiting(stores, f"rel-{number}", waited, helped=waited == 6.0)
    steps = (await diagnosed(stores)).recovery_steps
    assert [(s.action, s.delay_seconds, s.worked, s.tried) for s in steps] == [("wait", 6.0, 1, 1), ("none", 0.0, 0, 1)]


async def waiting(stores: Stores, run: str, waited: float, *, helped: bool) -> None:
    """Report a failure, and what came of waiting after it."""
    place = {"scope": "acme/api", "run": run, "step": "publish"}
    applied = AppliedAction(kind="wait", waited_seconds=waited, since_first_failure_seconds=waited)
    await analyze(AnalyzeError(**place, error=PORT_TAKEN), caller(), stores)
    if helped:
        call = LearnFromExecution(**place, attempt=2, applied=applied, outcome="succeeded")
        await learn(call, caller(), stores)
    else:
        await analyze(AnalyzeError(**place, attempt=2, applied=applied, error=PORT_TAKEN), caller(), stores)


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("7", "1 2 3"),
        ("1 2 3", "7"),
        ("k", "x 7 k"),
        ("---", "7"),
        ("\x1b[31m7\x1b[0m", "---"),
        ("".join(map(chr, range(256))), "no abcdefghijklmnopqrstuvwxyz"),
    ],
)
async def test_a_text_without_words_is_told_so_and_has_no_relatives_by_chance(
    stores: Stores, text: str, recorded: str
) -> None:
    """What is on record is of the text's family, or shares a word with it."""
    await analyze(AnalyzeError(scope="acme/api", run="rel-1", step="serve", error=recorded), caller(), stores)
    await index_follower(stores, "local").step()
    diagnosis = await diagnosed(stores, text)
    assert matches(diagnosis) == []
    assert diagnosis.empty_because == "nothing is recognised in the text: it has no words, or is binary"


async def test_a_text_without_words_is_known_again(stores: Stores) -> None:
    await analyze(AnalyzeError(scope="acme/api", run="rel-1", step="serve", error="404"), caller(), stores)
    assert matches(await diagnosed(stores, "\x1b[31m7\x1b[0m")) == [("same_failure", "serve")]


@pytest.mark.parametrize(
    "text", ["hello there", "接続が拒否されました", "ошибка сети", "\x1b[31mbad luck\x1b[0m", "é 7 né"]
)
def test_a_text_with_words_is_no_noise(text: str) -> None:
    assert not is_noise(text)


def test_noise_read_as_any_encoding_is_noise() -> None:
    noise = bytes((number * 151 + 7) % 256 for number in range(2_000))
    assert is_noise(noise.decode("utf-8", "replace"))
    assert is_noise(noise.decode("latin-1"))
