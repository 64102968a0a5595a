"""Until an earlier occurrence taught something, the author's own order is followed."""

import pytest

UNKNOWN = "not yet known: first time here; the step's own order"


def test_a_failure_seen_for_the_first_time_is_retried_as_the_step_would(story):
    story.run("rel-1", (None, "S"))
    advice = story.advice("rel-1")
    assert (advice.verdict, advice.delay_seconds, advice.because) == ("retry", 1.0, UNKNOWN)


def test_declared_repairs_come_first_in_their_order_one_a_failure(story):
    done = [(None, "S")]
    for repair in ("one", "two", "three"):
        story.attempts.clear()
        story.run("a", *done)
        advice = story.advice("a", "one", "two", "three")
        assert (advice.verdict, advice.repair, advice.because) == ("repair", repair, UNKNOWN)
        done.append((repair, "S"))


def test_after_the_declared_repairs_come_the_steps_own_delays(story):
    story.run("a", (None, "S"), ("one", "S"), (1.0, "S"), (2.0, "S"))
    advice = story.advice("a", "one", delay=4.0, longest=64.0)
    assert (advice.verdict, advice.delay_seconds) == ("retry", 4.0)


def test_a_long_first_occurrence_is_never_stretched_by_a_wait_of_memorys_own(story):
    story.run("a", (None, "S"), *[(1.0, "S")] * 20)
    advice = story.advice("a", longest=60.0)
    assert (advice.verdict, advice.delay_seconds) == ("retry", 1.0)


def test_only_what_the_author_declared_is_offered(story):
    story.run("a", (None, "S"))
    steps = story.advice("a", "one", "two").recovery_steps
    assert [(step.repair, step.delay_seconds, step.level) for step in steps] == [
        ("one", 0.0, "L0"),
        ("two", 0.0, "L0"),
        (None, 1.0, "L0"),
    ]


def test_a_repair_that_answered_another_failure_of_the_occurrence_is_not_applied_twice(story):
    story.run("a", (None, "S"), ("one", "T"))
    assert story.advice("a", "one", "two", signature="T").repair == "two"


def test_a_service_that_asks_for_a_wait_gets_it_before_the_repairs(story):
    story.run("a", (None, "S"))
    advice = story.advice("a", "restart", asked=6.0)
    assert (advice.verdict, advice.delay_seconds) == ("retry_after", 6.0)


def test_an_asked_wait_that_did_not_help_leaves_the_attempts_to_the_declared_repairs(story):
    story.run("a", (None, "S"), (6.0, "S"))
    assert story.advice("a", "one", "two", asked=6.0).repair == "one"
    story.attempts.clear()
    story.run("a", (None, "S"), (6.0, "S"), ("one", "S"), ("two", "S"))
    assert story.advice("a", "one", "two", asked=6.0).delay_seconds == 6.0


@pytest.mark.parametrize("earlier", [[(None, "S")], [(None, "S"), (None, "T"), (None, "T")]])
def test_an_earlier_occurrence_that_tried_nothing_against_the_failure_teaches_nothing(story, earlier):
    story.run("a", *earlier)
    story.run("b", (None, "S"))
    advice = story.advice("b", "one")
    assert advice.repair == "one"
    assert advice.because == "port taken, known since a; nothing was tried yet; the step's own order"


def test_from_the_second_occurrence_on_what_worked_comes_first(story):
    story.run("a", (None, "S"), ("one", "S"), ("two", "ok"))
    story.run("b", (None, "S"))
    assert story.advice("b", "one", "two").repair == "two"


def test_a_declared_repair_that_was_never_tried_comes_before_any_wait_that_was_not(story):
    story.run("a", (None, "S"), ("one", "S"), ("two", "S"))
    story.run("b", (None, "S"))
    advice = story.advice("b", "one", "two", "three", longest=64.0)
    assert advice.repair == "three"
    assert advice.because == "port taken, known since a; nothing has helped yet; three is untried"
