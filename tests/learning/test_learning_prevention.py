import pytest


def test_a_failure_that_a_repair_ended_twice_is_prevented(story):
    story.run("a", (None, "S"), ("w1", "S"), ("w2", "S"), ("right", "ok"))
    assert story.prevention("w1", "w2", "right") is None
    story.run("b", (None, "S"), ("right", "ok"))
    found = story.prevention("w1", "w2", "right")
    assert (found.repair, found.signature, found.confidence) == ("right", "S", 0.76)
    assert found.because == "the last 2 runs began with this failure; right worked 2 of 2"
    assert not found.held_out


def _prevented(story, times=0):
    for run in "ab":
        story.run(run, (None, "S"), ("fix", "ok"))
    for number in range(times):
        story.run(f"p{number}", ("fix", "ok"))
    return story


def test_only_a_repair_that_may_run_before_a_failure_prevents(story):
    assert _prevented(story).prevention("other") is None


def test_prevention_that_works_goes_on(story):
    assert _prevented(story, 8).prevention("fix").held_out is False


def test_the_tenth_prevention_is_left_out_to_measure(story):
    found = _prevented(story, 9).prevention("fix")
    assert found.held_out
    assert found.because == "left out this once to see whether fix is still needed; fix worked 2 of 2"


def test_prevention_goes_on_after_a_hold_out_that_failed(story):
    _prevented(story, 9).run("hold-out", (None, "S"), ("fix", "ok"))
    assert story.prevention("fix").held_out is False


def test_prevention_ends_when_the_failure_no_longer_comes(story):
    _prevented(story)
    for number in range(4):
        story.run(f"healthy-{number}", (None, "ok"))
    assert story.prevention("fix") is None


def test_prevention_that_stops_working_ends(story):
    _prevented(story, 3).run("c", ("fix", "S"), (1.0, "S"), (1.0, "S"))
    assert story.prevention("fix") is None


def test_a_failure_of_another_environment_is_not_prevented_here(story):
    _prevented(story).environment = "image 2"
    assert story.prevention("fix") is None


@pytest.mark.parametrize("elsewhere", [(("fix", "S"),), (("fix", "S"), ("other", "ok"))])
def test_a_prevention_is_back_with_the_environment_in_which_its_repair_never_failed(story, elsewhere):
    home = story.environment
    for number in range(20):
        story.run(f"a{number}", (None, "S"), ("fix", "ok"))
    story.environment = "image 2"
    for number in range(4):
        story.run(f"b{number}", (None, "S"), *elsewhere)
    story.environment = home
    assert story.prevention("fix", "other").repair == "fix"


def test_a_seldom_failure_is_not_prevented(story):
    story.run("x", (None, "ok")).run("y", (None, "ok")).run("z", (None, "ok")).run("w", (None, "ok"))
    assert _prevented(story).prevention("fix") is None


def test_of_two_failures_the_likelier_is_prevented(story):
    for run in "abc":
        story.run(run, (None, "S"), ("fix-s", "ok"))
        story.run(run + "2", (None, "T"), ("fix-t", "ok"))
    story.run("d", (None, "T"), ("fix-t", "ok"))
    assert story.prevention("fix-s", "fix-t", signatures=("S", "T")).repair == "fix-t"


def test_step_outcomes_reported_twice_or_out_of_order_change_nothing(story):
    once = _prevented(story, 9).prevention("fix")
    story.outcomes = [*reversed(story.outcomes), *story.outcomes[:5]]
    assert story.prevention("fix") == once
