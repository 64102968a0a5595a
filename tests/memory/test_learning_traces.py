"""The traces that memory must learn by, through the real store."""

from memory.stores import Stores
from tests.memory.acted_step import NO_MODULE, PORT_TAKEN, ActedStep, cured_by, healthy, incurable


async def test_a_repair_that_ended_a_failure_comes_first_the_next_time(stores: Stores) -> None:
    step = ActedStep(stores, repairs=("reboot", "free-port"))
    first = await step.run("rel-1", cured_by("free-port"))
    assert first.actions[-1] == "free-port"
    second = await step.run("rel-2", cured_by("free-port"))
    assert second.actions == ["none", "free-port"]
    assert "free-port worked 1 of 1" in second.analyses[0].advice.because
    assert "known since rel-1" in second.analyses[0].advice.because


async def test_a_known_repair_is_applied_before_the_failure_once_it_is_reliable(stores: Stores) -> None:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    third = await step.run("rel-3", cured_by("free-port"))
    assert third.actions == ["prevent free-port"]
    prevention = third.packages[0].prevention
    assert prevention is not None
    assert prevention.because == "the last 2 runs began with address in use; free-port worked 2 of 2"
    assert third.packages[0].policy_decision_id is not None


async def test_prevention_ends_when_the_repair_stops_working(stores: Stores) -> None:
    step = ActedStep(stores, repairs=("free-port",), most_attempts=3)
    for number in range(1, 4):
        await step.run(f"rel-{number}", cured_by("free-port"))
    broken = [await step.run(f"rel-{number}", incurable()) for number in range(4, 9)]
    prevented = [acted.packages[0].prevention is not None for acted in broken]
    assert prevented[0]
    assert not prevented[-1]


async def test_a_healthy_step_ends_prevention(stores: Stores) -> None:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    for number in range(3, 12):
        await step.run(f"rel-{number}", healthy, follow=False)
    last = await step.run("rel-12", healthy)
    assert last.packages[0].prevention is None


async def test_stacked_failures_credit_the_cure_of_each(stores: Stores) -> None:
    step = ActedStep(stores, repairs=("free-port", "add-module"), most_attempts=12)

    def world(done: list[str]) -> str | None:
        if "free-port" not in done:
            return PORT_TAKEN
        return None if "add-module" in done else NO_MODULE

    runs = [await step.run(f"rel-{number}", world) for number in (1, 2, 3)]
    assert [acted.end for acted in runs] == ["succeeded"] * 3
    assert len(runs[2].attempts) < len(runs[0].attempts)
    last = await step.run("rel-4", world, follow=False)
    port = last.analyses[0].lessons[0].text
    assert "Ended by: free-port (" in port
    assert "add-module" not in port
    module = next(a for acted in runs[1:] for a in acted.analyses if a.title == "no module yaml")
    cures = {s.repair: s.worked for s in module.recovery_steps if s.repair and s.tried}
    assert cures["add-module"] >= 1
    assert cures.get("free-port", 0) == 0


async def test_a_cure_is_known_for_its_step_and_scope_only(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    await ActedStep(stores).run("rel-2", cured_by("free-port"))
    elsewhere = await ActedStep(stores, step="deploy").run("rel-3", cured_by("reboot"))
    assert elsewhere.analyses[0].seen_before is None
    other = await ActedStep(stores, scope="acme/web").run("rel-4", cured_by("reboot"))
    assert other.analyses[0].seen_before is None


async def test_what_was_seen_before_leaves_out_the_occurrence_at_hand(stores: Stores) -> None:
    step = ActedStep(stores, most_attempts=3)
    first = await step.run("rel-1", incurable())
    assert [a.seen_before for a in first.analyses] == [None, None, None]
    second = await step.run("rel-2", incurable())
    seen = second.analyses[-1].seen_before
    assert seen is not None
    assert (seen.occurrences, seen.runs, seen.first_run) == (1, 1, "rel-1")


async def test_the_lesson_tells_what_failed_and_what_ended_it(stores: Stores) -> None:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    third = await step.run("rel-3", cured_by("free-port"), follow=False)
    lesson = third.analyses[0].lessons[0]
    assert lesson.text == "serve failed 2 times in 2 runs: address in use. Ended by: free-port (2 of 2)."
    assert (lesson.title, lesson.trust, lesson.origin) == ("Address in use", "observed", "harness_outcome")
    assert lesson.id.startswith("les-")
    assert len(lesson.id) == 12


async def test_the_retry_is_handed_the_lesson_of_its_own_failure_first(stores: Stores) -> None:
    step = ActedStep(stores, most_attempts=2)
    await step.run("rel-1", cured_by("add-module", NO_MODULE))
    await step.run("rel-2", cured_by("free-port"))
    third = await step.run("rel-3", cured_by("nothing", NO_MODULE))
    item = third.packages[1].items[0]
    assert item.because == "same failure, same step"
    assert "no module yaml" in item.text


async def test_a_permanent_failure_is_stopped_early_for_a_reason(stores: Stores) -> None:
    step = ActedStep(stores, repairs=(), most_attempts=9)
    first = await step.run("rel-1", incurable())
    ends = [await step.run(f"rel-{number}", incurable()) for number in (2, 3)]
    assert len(first.attempts) == 9
    assert ends[-1].end == "stopped"
    assert len(ends[-1].attempts) == 1
    assert "nothing helped" in ends[-1].analyses[-1].advice.because


async def test_why_a_step_needs_a_person_names_runs_as_people_do(stores: Stores) -> None:
    step = ActedStep(stores, repairs=("free-port",))
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    broken = [await step.run(f"rel-{number}", incurable()) for number in range(3, 9)]
    said = [acted.analyses[-1].advice for acted in broken]
    because = next((advice.because for advice in said if advice.verdict == "escalate"), "")
    assert because.startswith("free-port worked 2 times up to rel-2, but ")


async def test_a_cure_that_changes_with_the_image_follows_the_image(stores: Stores) -> None:
    """A commit is no part of an environment, so every run here has one of two."""
    cures = {"image 1": "free-port", "image 2": "reboot"}
    for number in range(3):
        for image, cure in cures.items():
            step = ActedStep(stores, repairs=("wipe", *cures.values()), environment={"image": image})
            acted = await step.run(f"rel-{number}-{cure}", cured_by(cure))
    for image, cure in cures.items():
        step = ActedStep(stores, repairs=("wipe", *cures.values()), environment={"image": image})
        acted = await step.run(f"last-{cure}", incurable())
        assert acted.analyses[0].advice.repair == cure or acted.actions[0] == f"prevent {cure}"
