"""What a step sends fits the contracts and a workflow's history, whatever its attempts came to."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poimen.contracts.execution import StepReport
from poimen.contracts.message import decode, encode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import DeliverRecordsInput, PendingRecord
from poimen.excerpts import HEAD_BYTES, TAIL_BYTES, both_ends, cut_head, cut_tail, encoded_size
from poimen.record_batches import MOST_BYTES as BATCH_BYTES
from poimen.record_batches import batches
from poimen.step_messages import check_spec, tell_failure, tell_success
from poimen.step_rules import StepPolicy
from poimen.step_state import AttemptReport, StepState
from tests.step.scripted_world import START, World, analysis, package, run, spec

WORST = '\U0001f525\x01é"\\'


def state(report: AttemptReport) -> StepState:
    made = StepState(spec(), START, StepPolicy())
    made.last = report
    made.count(attempts=1, tokens=report.tokens)
    return made


@given(st.text(), st.integers(2, 100))
def test_a_cut_text_is_an_end_of_the_text_and_fits(text: str, limit: int) -> None:
    head, tail = cut_head(text, limit), cut_tail(text, limit)

    assert text.startswith(head)
    assert text.endswith(tail)
    assert max(encoded_size(head), encoded_size(tail)) <= limit


@given(st.text(alphabet=WORST + "a\n", max_size=200), st.integers(1, 200))
def test_both_ends_of_a_text_fit_a_history(part: str, times: int) -> None:
    assert encoded_size(both_ends(part * times)) <= HEAD_BYTES + TAIL_BYTES + 256


def test_a_text_cut_twice_is_cut_once() -> None:
    once = both_ends("a line of an output\n" * 10_000)

    assert both_ends(once) == once
    assert "characters left out" in once


@given(
    st.builds(
        AttemptReport,
        outcome=st.just("failed"),
        error=st.text(max_size=50).map(lambda text: text * 1_000),
        final=st.none() | st.text(max_size=50).map(lambda text: text * 1_000),
        output=st.text(max_size=50).map(lambda text: text * 1_000),
        seconds=st.floats(allow_nan=False),
        tokens=st.integers(),
        service_wait_seconds=st.none() | st.floats(allow_nan=False),
    )
)
def test_no_report_is_too_large_for_a_message(report: AttemptReport) -> None:
    failed = tell_failure(state(report), report, START)
    passed = tell_success(state(report), replace(report, outcome="succeeded"))

    assert max(len(json.dumps(encode(message))) for message in (failed, passed)) < 8 * 1024


def test_a_report_file_of_any_size_is_cut() -> None:
    huge = StepReport(lesson="x" * 100_000, decision="y" * 100_000, artifacts=("z" * 100_000,) * 100)
    report = AttemptReport("succeeded", report=huge)

    assert len(json.dumps(encode(tell_success(state(report), report)))) < 32 * 1024


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"scope": ""}, "scope is empty; give 1 to 256 characters."),
        ({"scope": "s" * 257}, "scope has 257 characters; at most 256."),
        ({"step": "a\nb"}, "step contains U+000A at character 2."),
        ({"tool": "t" * 129}, "tool has 129 characters; at most 128."),
        ({"step": "\ud800"}, "step contains a lone surrogate or U+FFFD at character 1."),
        ({"definition_hash": "h" * 81}, "definition_hash has 81 characters; at most 80."),
        ({"visit": 100_001}, "visit is too large; at most 100,000 is allowed."),
    ],
)
def test_a_step_that_no_message_can_name_is_refused_before_it_begins(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_spec(replace(spec(), **more))

    assert str(refused.value) == sentence


def test_a_repair_that_no_message_can_name_is_refused_before_the_step_begins() -> None:
    with pytest.raises(InvalidInput, match=r"repairs\[0\] is empty"):
        check_spec(spec(StepPolicy(repairs=("",))))


async def test_an_answer_with_ids_and_words_of_any_length_stops_no_step() -> None:
    long = "word " * 10_000
    world = World([AttemptReport("failed", error="x"), AttemptReport("succeeded")])
    world.answers["GetContext"] = lambda message: package(message, package_id=long)
    world.advise(analysis("retry", signature=long, because=long))

    result, _ = await run(world, spec(StepPolicy(first_delay=0.0)))

    assert result.end == "succeeded"
    assert all(len(json.dumps(message)) < 8 * 1024 for _, message in world.calls)


def test_records_are_handed_over_in_order_and_in_messages_that_fit() -> None:
    records = [
        PendingRecord(activity="AnalyzeError", message={"n": number, "error": "é" * 20_000}) for number in range(12)
    ]

    cut = batches(records)

    assert [record for batch in cut for record in batch] == records
    assert len(cut) == 3
    assert all(sum(len(json.dumps(record.message)) for record in batch) <= BATCH_BYTES for batch in cut)


def test_a_record_that_is_larger_than_a_message_goes_alone() -> None:
    large = PendingRecord(activity="AnalyzeError", message={"error": "x" * (BATCH_BYTES + 1)})
    small = PendingRecord(activity="AnalyzeError", message={})

    assert batches([small, large, small]) == [[small], [large], [small]]


def test_a_delivery_takes_as_many_small_records_as_its_message_allows() -> None:
    records = [PendingRecord(activity="AnalyzeError", message={"n": number}) for number in range(1_001)]

    cut = batches(records)

    assert [len(batch) for batch in cut] == [1_000, 1]
    for batch in cut:
        decode(DeliverRecordsInput, encode(DeliverRecordsInput(records=tuple(batch), queue="poimen")))


def test_nothing_to_hand_over_is_no_message() -> None:
    assert batches([]) == []
