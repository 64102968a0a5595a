import pytest

from memory.learning.advice import Admissible, advise
from memory.learning.evidence import tried_in

PERMANENT = [(None, "S"), *[(1.0, "S")] * 8]


def test_a_transient_failure_gets_the_delay_that_worked(story):
    for run in ("a", "b", "c"):
        story.run(run, (None, "S"), (1.0, "S"), (2.0, "S"), (4.0, "ok"))
    story.run("d", (None, "S"))
    advice = story.advice("d", title="busy service")
    assert (advice.verdict, advice.delay_seconds) == ("retry_after", 8.0)
    assert advice.because == "busy service, known since a; waiting 8 s worked 3 of 3"


def test_a_learned_delay_counts_from_the_first_failure(story):
    for run in ("a", "b", "c"):
        story.run(run, (None, "S"), (1.0, "S"), (2.0, "S"), (4.0, "ok"))
    story.run("d", (None, "S"), (3.0, "S"))
    assert story.advice("d").delay_seconds == 5.0


def test_a_delay_that_worked_is_not_stretched_by_timers_that_fire_late(story):
    for number in range(8):
        story.run(f"r{number}", (None, "S"), (8.3, "ok"))
    story.run("z", (None, "S"))
    assert story.advice("z", delay=10.0).delay_seconds <= 10.0
    assert story.evidence().delay(8).worked == 8


def test_a_delay_after_an_odd_time_is_given_in_tenths(story):
    for run in ("a", "b", "c"):
        story.run(run, (None, "S"), (40.0, "ok"))
    story.run("d", (None, "S"), (1.0371, "S"))
    assert story.advice("d", longest=100.0).delay_seconds == 63.0


def test_a_cure_between_the_counted_delays_is_reached_by_the_longest_wait(story):
    for run in ("a", "b", "c"):
        story.run(run, (None, "S"), (40.0, "ok"))
    story.run("d", (None, "S"))
    assert story.advice("d", longest=60.0).delay_seconds == 60.0


def test_a_step_that_never_waits_and_has_no_repairs_is_looked_at_again(story):
    for run in "ab":
        story.run(run, (None, "S"), *[(None, "S")] * 8)
    verdicts = []
    for run in "cdefgh":
        story.run(run, (None, "S"))
        verdicts.append(story.advice(run, delay=0.0, longest=0.0).verdict)
        if verdicts[-1] != "stop":
            story.attempts.pop()
            story.run(run, (None, "S"), (None, "S"))
    assert verdicts == ["stop", "stop", "retry", "stop", "stop", "retry"]


def test_a_cure_that_was_seen_to_help_is_repeated_before_what_never_did(story):
    for run in "abcd":
        story.run(run, (None, "S"), ("never", "S"), ("fix", "ok"))
    story.run("e", (None, "S"), ("fix", "S"))
    assert story.advice("e", "never", "fix").repair == "fix"


def test_a_learned_delay_never_exceeds_the_longest_the_step_admits(story):
    for run in ("a", "b", "c"):
        story.run(run, (None, "S"), (40.0, "ok"))
    story.run("d", (None, "S"))
    advice = story.advice("d", longest=10.0)
    assert advice.delay_seconds <= 10.0
    assert all(step.delay_seconds <= 10.0 for step in advice.recovery_steps)


def test_a_wait_that_the_service_asks_for_is_honoured_first(story):
    story.run("a", (None, "S"))
    advice = story.advice("a", "restart", asked=6.0)
    assert (advice.verdict, advice.delay_seconds) == ("retry_after", 6.0)
    assert advice.because == "the service asked for 6 s"
    assert [step.repair for step in advice.recovery_steps[:2]] == [None, "restart"]


def test_a_wait_longer_than_the_step_admits_is_cut_and_said(story):
    story.run("a", (None, "S"))
    advice = story.advice("a", asked=150.0, longest=60.0)
    assert advice.delay_seconds == 60.0
    assert advice.because == "the service asked for 150 s; the step waits at most 60 s"


def test_an_asked_wait_that_never_helps_gives_way_to_the_repair_that_does(story):
    for run in "abcd":
        story.run(run, (None, "S"), (6.0, "S"), (6.0, "S"), ("restart", "ok"))
    story.run("e", (None, "S"))
    assert story.advice("e", "restart", asked=6.0).repair == "restart"


def test_no_wait_is_shorter_than_the_service_asked_for(story):
    story.run("a", *[(None, "S"), *[(6.0, "S")] * 5])
    advice = story.advice("a", asked=6.0)
    assert advice.verdict in ("retry", "retry_after")
    assert advice.delay_seconds >= 6.0


def test_the_known_repair_comes_first(story):
    story.run("rel-5", (None, "S"), ("free-port", "ok")).run("rel-6", (None, "S"), ("free-port", "ok"))
    story.run("rel-7", (None, "S"))
    advice = story.advice("rel-7", "clear-cache", "free-port")
    assert (advice.verdict, advice.repair, advice.confidence) == ("repair", "free-port", 0.76)
    assert advice.because == "port taken, known since rel-5; free-port worked 2 of 2"
    first = advice.recovery_steps[0]
    assert (first.action, first.repair, first.level, first.worked, first.tried) == (
        "repair",
        "free-port",
        "L1",
        2,
        2,
    )


def test_a_single_success_already_orders_the_repairs(story):
    story.run("a", (None, "S"), ("w1", "S"), ("w2", "S"), ("right", "ok")).run("b", (None, "S"))
    assert story.advice("b", "w1", "w2", "right").repair == "right"


def test_of_several_repairs_the_one_that_works_most_often_comes_first(story):
    for run in "abcd":
        story.run(run, (None, "S"), ("seldom", "S"), ("often", "ok"))
    story.run("e", (None, "S"), ("seldom", "ok")).run("f", (None, "S"))
    steps = story.advice("f", "seldom", "often").recovery_steps
    assert [step.repair for step in steps if step.repair][:2] == ["often", "seldom"]


def test_a_repair_that_failed_in_this_occurrence_gives_way_to_another(story):
    story.run("a", (None, "S"), ("right", "ok"))
    story.run("b", (None, "S"), ("right", "S"))
    assert story.advice("b", "right", "other").repair != "right"


def test_a_repair_that_makes_it_worse_is_left_out_once_another_way_is_known(story):
    for run in "abc":
        story.run(run, (None, "S"), ("harm", "S"), ("right", "S"), (4.0, "S"))
    story.run("d", (None, "S"), ("right", "ok")).run("e", (None, "S"))
    assert story.advice("e", "harm", "right").repair == "right"


def test_a_repair_that_only_ever_followed_a_harmful_one_is_not_yet_fairly_tried(story):
    for run in ("a", "b", "c", "d", "e", "f"):
        story.run(run, (None, "S"), ("harm", "S"), ("right", "S"), (64.0, "S"))
    story.run("g", (None, "S"))
    assert story.advice("g", "harm", "right").repair == "right"


def test_a_permanent_failure_seen_in_distinct_runs_stops_early(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT).run("c", (None, "S"))
    advice = story.advice("c", delay=0.25, longest=1.0, left=8)
    assert (advice.verdict, advice.delay_seconds) == ("stop", 0.0)
    assert advice.because == "16 retries in 2 runs, nothing helped"
    assert not any(step.retry for step in advice.recovery_steps)


def test_a_long_streak_inside_one_run_is_no_verdict(story):
    story.run("a", (None, "S"), *[(1.0, "S")] * 30)
    assert story.advice("a", longest=1.0).verdict == "retry"


def test_a_repair_that_was_not_fairly_tried_holds_the_verdict_back(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT).run("c", (None, "S"))
    assert story.advice("c", "untried", longest=1.0).repair == "untried"


def test_a_longer_wait_that_was_never_tried_holds_the_verdict_back(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT).run("c", (None, "S"))
    advice = story.advice("c", longest=60.0)
    assert (advice.verdict, advice.delay_seconds) == ("retry_after", 60.0)


def test_a_weak_signature_never_leads_to_a_stop(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT).run("c", (None, "S"))
    assert story.advice("c", longest=1.0, weak=True).verdict == "retry"


def test_a_stop_is_looked_at_again_after_two_idle_occurrences(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT)
    verdicts = []
    for run in ("c", "d", "e", "f", "g", "h"):
        story.run(run, (None, "S"))
        advice = story.advice(run, longest=1.0)
        verdicts.append(advice.verdict)
        if advice.verdict == "retry":
            assert advice.because.endswith("this once it is tried again, in case that changed")
            story.attempts.pop()
            story.run(run, (None, "S"), (1.0, "S"), (1.0, "S"))
            assert story.advice(run, longest=1.0).verdict == "stop"
    assert verdicts == ["stop", "stop", "retry", "stop", "stop", "retry"]


def test_a_wrong_permanent_verdict_heals_with_the_first_success(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT)
    story.run("c", (None, "S")).run("d", (None, "S"))
    story.run("e", (None, "S"), (1.0, "ok")).run("f", (None, "S"))
    advice = story.advice("f", longest=1.0)
    assert advice.verdict == "retry"
    assert advice.because == "port taken, known since a; a plain retry worked 1 of 17"


def test_an_overturned_verdict_makes_the_next_one_take_longer(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT).run("c", (None, "S"), (1.0, "ok"))
    overturned = story.evidence().streak.needed
    assert overturned > 16


def test_a_cure_that_no_longer_helps_is_handed_to_a_person(story):
    for run in ("a", "b"):
        story.run(run, (None, "S"), ("fix", "ok"))
    for number in range(6):
        story.run(f"r{number}", (None, "S"), ("fix", "S"), (1.0, "S"), (1.0, "S"))
    story.run("z", (None, "S"))
    advice = story.advice("z", "fix", longest=1.0)
    assert advice.verdict == "escalate"
    assert advice.because == "fix worked 2 times up to b, but 18 retries in 6 runs since then did not help"


def test_a_sentence_leaves_out_the_runs_that_it_is_given_no_name_for(story):
    for run in ("a", "b"):
        story.run(run, (None, "S"), ("fix", "ok"))
    story.run("z", (None, "S"))
    tried = tried_in(story.attempts, "z", "S")
    because = advise(story.evidence("S", "z"), Admissible(("fix",), 1.0, 60.0, 3), tried).because
    assert because == "this failure; fix worked 2 of 2"


def test_a_permanent_verdict_is_tried_again_in_a_new_environment(story):
    story.run("a", *PERMANENT).run("b", *PERMANENT)
    story.environment = "python 3.13"
    story.run("c", (None, "S"))
    assert story.advice("c", longest=1.0).verdict == "retry"


def test_an_environment_that_changes_with_every_run_does_not_renew_the_verdict(story):
    for number in range(6):
        story.environment = f"commit {number}"
        story.run(f"r{number}", (None, "S"), *[(1.0, "S")] * 4)
    story.environment = "commit 6"
    story.run("r6", (None, "S"))
    assert story.advice("r6", longest=1.0).verdict == "stop"


def test_a_cure_that_changes_with_the_environment_is_chosen_by_environment(story):
    for turn in range(3):
        story.environment = "image 1"
        story.run(f"old-{turn}", (None, "S"), ("one", "ok"))
        story.environment = "image 2"
        story.run(f"new-{turn}", (None, "S"), ("one", "S"), ("two", "ok"))
    story.run("next", (None, "S"))
    assert story.advice("next", "one", "two").repair == "two"


@pytest.mark.parametrize("cured", [5, 20])
@pytest.mark.parametrize("failed", [2, 4])
def test_a_cure_is_back_with_the_environment_in_which_it_never_failed(story, cured, failed):
    _rolled_back(story, cured, [(("X", "S"),)] * failed)
    advice = story.advice("z", "X", "Y")
    assert (advice.verdict, advice.repair) == ("repair", "X")


def test_a_wait_is_back_with_the_environment_in_which_it_never_failed(story):
    for number in range(12):
        story.run(f"a{number}", (None, "S"), (16.0, "ok"))
    story.environment = "image B"
    for number in range(3):
        story.run(f"b{number}", (None, "S"), (16.0, "S"))
    assert story.evidence().delay(16).mean < 0.3
    story.environment = "python 3.12"
    assert story.evidence().delay(16).mean > 0.7


def test_what_helped_elsewhere_meanwhile_does_not_take_the_place_of_the_cure_of_an_environment(story):
    _rolled_back(story, 20, [(("X", "S"), ("Y", "ok"))] * 2 + [(("Y", "ok"),)] * 20)
    assert story.advice("z", "X", "Y").repair == "X"


def test_a_cure_that_fails_again_in_its_own_environment_is_doubted_there(story):
    _rolled_back(story, 20, [(("X", "S"), ("Y", "ok"))] * 3)
    story.attempts.pop()
    for number in range(2):
        story.run(f"c{number}", (None, "S"), ("X", "S"))
    story.run("z", (None, "S"))
    assert story.advice("z", "X", "Y").repair == "Y"


@pytest.mark.parametrize("environments", [1, 4, 12])
def test_failures_elsewhere_do_not_give_up_what_has_been_cured_here(story, environments):
    orders = [(("X", "S"), ("Y", "S"), (64.0, "S")), (("Y", "S"), ("X", "S"), (64.0, "S"))]
    _rolled_back(story, 20, orders * 6, environments)
    assert story.advice("z", "X", "Y").repair == "X"


def _rolled_back(story, cured, elsewhere, environments=1):
    """X cures `cured` runs in one environment, others follow `elsewhere`, and the first is back with a failure."""
    home = story.environment
    for number in range(cured):
        story.run(f"a{number}", (None, "S"), ("X", "ok"))
    for number, entries in enumerate(elsewhere):
        story.environment = f"image {number % environments}"
        story.run(f"b{number}", (None, "S"), *entries)
    story.environment = home
    story.run("z", (None, "S"))


def test_a_repair_followed_by_a_second_failure_teaches_both_cures(story):
    for run in "ab":
        story.run(run, (None, "S"), ("fix-s", "T"), ("fix-t", "ok"))
    story.run("c", (None, "S"))
    assert story.advice("c", "fix-t", "fix-s").repair == "fix-s"
    story.attempts.pop()
    story.run("c", (None, "S"), ("fix-s", "T"))
    assert story.advice("c", "fix-s", "fix-t", signature="T").repair == "fix-t"


def test_two_failures_that_alternate_in_one_step_keep_their_own_cures(story):
    for run in "ab":
        story.run(run, (None, "S"), ("hides-s", "T"), ("fix-t", "S"), ("fix-s", "ok"))
    repairs = ("hides-s", "fix-t", "fix-s")
    story.run("c", (None, "S"))
    assert story.advice("c", *repairs).repair == "fix-s"
    story.attempts.pop()
    story.run("c", (None, "T"))
    assert story.advice("c", *repairs, signature="T").repair == "fix-t"


def test_a_delay_below_one_second_stays_as_the_step_has_it(story):
    for run in "ab":
        story.run(run, (None, "S"), (0.2, "ok"))
    story.run("c", (None, "S"))
    advice = story.advice("c", delay=0.2)
    assert (advice.verdict, advice.delay_seconds) == ("retry", 0.2)


def test_without_attempts_left_nothing_is_advised(story):
    story.run("a", (None, "S"))
    advice = story.advice("a", "fix", left=0)
    assert (advice.verdict, advice.because) == ("stop", "no attempts left")


@pytest.mark.parametrize("delay", [0.0, 0.5, 60.0])
def test_a_step_with_any_delay_of_its_own_gets_an_answer(story, delay):
    story.run("a", (None, "S"))
    assert story.advice("a", delay=delay).delay_seconds == delay


def test_a_late_report_leads_to_the_same_advice(story, new_story):
    for told in (story, new_story()):
        told.run("a", (None, "S"), ("w", "S"), ("right", "ok")).run("b", (None, "S"))
    story.attempts.reverse()
    story.attempts += story.attempts[:2]
    assert story.advice("b", "w", "right") == new_story_advice(new_story)


def new_story_advice(new_story):
    told = new_story()
    told.run("a", (None, "S"), ("w", "S"), ("right", "ok")).run("b", (None, "S"))
    return told.advice("b", "w", "right")


def test_after_a_repair_that_did_not_help_comes_what_ended_the_failure_then(story):
    """Two causes behind one signature: mostly the repair ends it, at other times a long wait."""
    for number in range(4):
        for turn in "abcef":
            story.run(f"{turn}{number}", (None, "S"), ("fix", "ok"))
        story.run(f"d{number}", (None, "S"), ("fix", "S"), (60.0, "ok"))
    story.run("z", (None, "S"))
    assert story.advice("z", "fix").repair == "fix"
    story.attempts.pop()
    story.run("z", (None, "S"), ("fix", "S"))
    advice = story.advice("z", "fix")
    assert (advice.repair, advice.delay_seconds) == (None, 60.0)


def test_a_repair_that_mostly_works_at_the_second_time_is_applied_twice(story):
    for number in range(6):
        story.run(f"r{number}", (None, "S"), ("slow", "S"), ("slow", "ok"))
    story.run("z", (None, "S"), ("slow", "S"))
    assert story.advice("z", "slow", "other").repair == "slow"


def test_an_environment_that_often_changes_in_vain_renews_the_verdict_with_two_looks(story):
    for number in range(12):
        story.environment = f"image {number // 3}"
        story.run(f"r{number}", (None, "S"), ("fix", "S"), *[(1.0, "S")] * 3)
    story.environment = "image 4"
    story.run("z", (None, "S"))
    assert story.advice("z", "fix", longest=1.0).verdict != "stop"
    story.attempts.pop()
    story.run("z", (None, "S"), (1.0, "S"), (1.0, "S"))
    assert story.advice("z", "fix", longest=1.0).verdict == "stop"
