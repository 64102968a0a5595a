import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.learning.evidence import AppliedAction, Attempt, Tally, fold, tried_in


def _counts(tally: Tally | None) -> tuple[int, int]:
    return (tally.worked, tally.tried) if tally else (0, 0)


def _repair(story, repair, signature="S"):
    return _counts(story.evidence(signature).repairs.get(repair))


def test_a_success_credits_the_repair_before_it(story):
    story.run("a", (None, "S"), ("fix", "ok"))
    assert _repair(story, "fix") == (1, 1)


def test_the_same_failure_again_debits_the_repair_before_it(story):
    story.run("a", (None, "S"), ("wrong", "S"), ("fix", "ok"))
    assert _repair(story, "wrong") == (0, 1)
    assert _repair(story, "fix") == (1, 1)


def test_a_stacked_failure_credits_each_repair_for_the_failure_it_ended(story):
    story.run("a", (None, "S"), ("fix-s", "T"), ("fix-t", "ok"))
    assert story.evidence("S").repairs.keys() == {"fix-s"}
    assert _repair(story, "fix-s", "S") == (1, 1)
    assert story.evidence("T").repairs.keys() == {"fix-t"}
    assert _repair(story, "fix-t", "T") == (1, 1)


def test_a_failure_that_returns_after_another_debits_the_repair(story):
    story.run("a", (None, "S"), ("fix", "T"), ("other", "S"), ("late", "ok"))
    assert _repair(story, "fix") == (0, 1)
    assert _repair(story, "late") == (1, 1)
    assert _repair(story, "other", "T") == (1, 1)


def test_two_alternating_failures_that_never_end_debit_what_came_back_and_leave_the_last_open(story):
    story.run("a", (None, "S"), ("x", "T"), ("y", "S"), ("x", "T"))
    assert _repair(story, "x") == (0, 1)
    assert _repair(story, "y", "T") == (0, 1)


def test_an_occurrence_that_ends_in_another_failure_leaves_the_action_uncounted(story):
    story.run("a", (None, "S"), ("fix", "T"))
    assert _repair(story, "fix") == (0, 0)


def test_a_lost_worker_between_a_repair_and_success_does_not_take_its_credit(story):
    story.run("a", (None, "S"), ("fix", "lost"), (None, "ok"))
    story.attempts[1] = replace(story.attempts[1], signature=None)
    assert _repair(story, "fix") == (1, 1)


def test_prevention_that_fails_with_the_signature_debits_its_repair(story):
    story.run("a", ("fix", "S"), (1.0, "ok"))
    assert _repair(story, "fix") == (0, 1)


def test_success_after_prevention_credits_nothing(story):
    story.run("a", ("fix", "ok"))
    assert _repair(story, "fix") == (0, 0)
    assert story.evidence().occurrences == 0


def test_a_missing_report_leaves_the_action_after_it_uncounted_until_it_arrives(story):
    story.run("a", (None, "S"), ("wrong", "S"), ("fix", "ok"))
    late = story.attempts.pop(1)
    assert story.evidence().repairs == {}
    story.attempts.append(replace(late, recorded_order=99))
    assert _repair(story, "wrong") == (0, 1)
    assert _repair(story, "fix") == (1, 1)


def test_the_first_of_two_different_reports_of_one_attempt_counts(story):
    story.run("a", (None, "S"), ("fix", "ok"))
    later = replace(story.attempts[1], outcome="failed", signature="S", recorded_order=50)
    story.attempts.insert(0, later)
    assert _repair(story, "fix") == (1, 1)


def test_a_success_credits_every_delay_at_least_as_long(story):
    story.run("a", (None, "S"), (6.0, "ok"))
    evidence = story.evidence()
    assert [_counts(evidence.delay(g)) for g in (4, 6, 8, 64)] == [(0, 0), (1, 1), (1, 1), (1, 1)]


def test_a_failure_debits_every_delay_at_most_as_long_since_the_first_failure(story):
    story.run("a", (None, "S"), (2.0, "S"), (3.0, "S"))
    evidence = story.evidence()
    assert [_counts(evidence.delay(g)) for g in (1, 2, 4, 8)] == [(0, 2), (0, 2), (0, 1), (0, 0)]


def test_a_delay_is_counted_from_the_first_failure_with_that_signature(story):
    story.run("a", (None, "T"), (30.0, "S"), (4.0, "ok"))
    assert _counts(story.evidence("S").delay(4)) == (1, 1)
    assert _counts(story.evidence("T").delay(32)) == (1, 1)


def test_sub_second_delays_count_for_one_second(story):
    story.run("a", (None, "S"), (0.25, "S"), (0.25, "ok"))
    assert _counts(story.evidence().delay(1)) == (1, 1)
    assert _counts(story.evidence().plain) == (1, 2)


def _cured(new_story, results):
    story = new_story()
    for number, result in enumerate(results):
        story.run(f"r{number}", (None, "S"), ("fix", result))
    return story.evidence().repairs["fix"]


def test_the_first_failures_in_a_row_of_a_cure_that_never_failed_cast_doubt_on_it(new_story):
    kept = []
    for past in (["ok"] * 12, ["ok", "ok", "S", "ok"] * 3):
        before, after = _cured(new_story, past), _cured(new_story, [*past, "S", "S"])
        kept.append(after.successes / before.successes)
    assert kept[0] < 0.3
    assert kept[1] > 0.6


def test_a_success_ends_the_doubt(new_story):
    assert _cured(new_story, ["ok"] * 8 + ["S", "S", "ok"]).mean > 0.65


def test_evidence_of_another_environment_weighs_half(story):
    story.run("a", (None, "S"), ("fix", "ok"))
    here = story.evidence().repairs["fix"].successes
    story.environment = "python 3.13"
    assert story.evidence().repairs["fix"].successes == here / 2


def test_older_occurrences_weigh_less(story):
    story.run("a", (None, "S"), ("fix", "ok")).run("b", (None, "S"), ("fix", "ok"))
    assert round(story.evidence().repairs["fix"].successes, 6) == 1.9


def test_occurrences_of_another_environment_do_not_make_the_evidence_of_this_one_older(story):
    story.run("a", (None, "S"), ("fix", "ok"))
    before = story.evidence().repairs["fix"]
    story.environment = "python 3.13"
    story.run("b", (None, "S"), ("other", "ok"))
    story.environment = "python 3.12"
    assert story.evidence().repairs["fix"] == before


def test_what_was_tried_in_the_occurrence_at_hand_is_summed_up(story):
    story.run("a", (None, "T"), ("early", "S"), (4.0, "S"), ("fix", "S"))
    tried = tried_in(story.attempts, "a", "S")
    assert (tried.repairs, tried.retries, tried.since_first_failure_seconds) == (("fix",), 2, 4.0)


def test_a_repair_that_did_not_prevent_counts_as_tried(story):
    story.run("a", ("fix", "S"))
    assert tried_in(story.attempts, "a", "S").repairs == ("fix",)


def test_no_records_give_empty_evidence():
    evidence = fold([], "S", "e")
    assert (evidence.occurrences, evidence.runs, evidence.streak.length) == (0, (), 0)


_ACTIONS = st.one_of(
    st.just(AppliedAction()),
    st.builds(lambda s: AppliedAction("wait", None, s, s), st.sampled_from([0.2, 1.0, 6.0, 64.0])),
    st.builds(lambda r: AppliedAction("repair", r), st.sampled_from(["x", "y"])),
)


@st.composite
def _records(draw):
    records = []
    for occurrence in range(draw(st.integers(1, 5))):
        for number in range(1, draw(st.integers(1, 5)) + 1):
            result = draw(st.sampled_from(["S", "T", None, "ok"]))
            records.append(
                Attempt(
                    f"o{occurrence}",
                    f"r{occurrence // 2}",
                    number,
                    "succeeded" if result == "ok" else "failed",
                    None if result == "ok" else result,
                    draw(_ACTIONS),
                    draw(st.sampled_from(["e", "f"])),
                    draw(st.integers(0, 20)),
                )
            )
    return records


@settings(max_examples=150, deadline=None)
@given(_records(), st.randoms(use_true_random=False))
def test_neither_order_nor_repeated_reports_matter(records, chance: random.Random):
    shuffled = records + chance.sample(records, len(records) // 2)
    chance.shuffle(shuffled)
    assert fold(shuffled, "S", "e", "o1") == fold(records, "S", "e", "o1")
    assert tried_in(shuffled, "o0", "S") == tried_in(records, "o0", "S")


@settings(max_examples=50, deadline=None)
@given(_records())
def test_no_action_works_more_often_than_it_was_tried(records):
    evidence = fold(records, "S", "e")
    for tally in (*evidence.repairs.values(), evidence.plain, *map(evidence.delay, (1, 8, 64))):
        assert 0 <= tally.worked <= tally.tried
        assert 0 < tally.mean < 1
