"""Masking makes a text longer; what is stored fits its fields all the same, and what does not is still read."""

import json

import pytest

from memory.document import document
from memory.limits import restored
from memory.masking import Masker
from memory.scrub import scrub
from memory.stores import Stores
from memory.why import explain
from poimen.contracts.memory_calls import AttemptRecord, DocumentDecision, LearnFromExecution
from poimen.contracts.message import decode, encode
from poimen.contracts.problems import InvalidInput
from tests.fixtures_postgres import Database
from tests.memory.acted_step import ActedStep, caller, cured_by

MASKER = Masker(b"key of the tests")
# Each value is shorter than the mark that takes its place.
SECRETS = " ".join(f"password=q7{number:03}x" for number in range(400))[:4_096]


def decided(**values: object) -> DocumentDecision:
    given = {"scope": "acme/api", "run": "rel-1", "step": "serve", "kind": "step_completion", "decision": "failed"}
    return DocumentDecision.model_validate({**given, "end": "failed", **values})


async def test_a_text_that_masking_makes_too_long_is_cut_and_says_so() -> None:
    masked, found = await scrub(decided(reasoning=SECRETS), MASKER)
    assert found > 100
    assert len(masked.reasoning) <= 4_096
    assert masked.reasoning.endswith("password= [cut]")
    assert decode(DocumentDecision, encode(masked)).message == masked


async def test_texts_in_lists_objects_and_parts_are_cut_too() -> None:
    attempt = AttemptRecord(attempt=1, outcome="failed", next_move=SECRETS)
    call = decided(alternatives=(SECRETS,), attempts=(attempt,), environment={"env": SECRETS[:512]})
    masked, _ = await scrub(call, MASKER)
    lengths = (len(masked.alternatives[0]), len(masked.attempts[0].next_move), len(masked.environment["env"]))
    assert all(length <= longest for length, longest in zip(lengths, (4_096, 4_096, 512), strict=True))
    assert decode(DocumentDecision, encode(masked)).message == masked


async def test_a_tag_that_masking_makes_too_long_is_cut() -> None:
    tag = " ".join(f"password=q7{number}x" for number in range(9))[:128]
    masked, _ = await scrub(LearnFromExecution(scope="s", outcome="failed", tags=(tag,)), MASKER)
    assert len(masked.tags[0]) <= 128
    assert decode(LearnFromExecution, encode(masked)).message == masked


async def test_what_fits_is_left_as_it_is() -> None:
    masked, found = await scrub(decided(reasoning="password=q7001x and " + "word " * 100), MASKER)
    assert found == 1
    assert not masked.reasoning.endswith("[cut]")
    assert masked.reasoning.endswith("word ")


async def test_a_run_whose_record_held_many_secrets_is_explained(stores: Stores) -> None:
    call = decided(reasoning=SECRETS, attempts=(AttemptRecord(attempt=1, outcome="failed", next_move=SECRETS),))
    await document(call, caller(), stores)
    assert "failed" in (await explain(stores, "local", "rel-1", "serve")).text


async def test_a_run_that_an_earlier_version_recorded_too_long_is_explained(stores: Stores, database: Database) -> None:
    await document(decided(), caller(), stores)
    longer = "jsonb_set(payload, '{reasoning}', to_jsonb(repeat('x', 7216)))"
    await database.run_sql(f"update journal set payload = {longer};")
    assert "failed" in (await explain(stores, "local", "rel-1", "serve")).text


async def test_a_run_with_a_long_name_is_explained_with_what_was_delivered_to_it(stores: Stores) -> None:
    name = "".join(chr(0x4E00 + number) for number in range(1_000))
    step = ActedStep(stores)
    await step.run("rel-1", cured_by("free-port"))
    await step.run(name, cured_by("free-port"))
    assert "delivered les-" in (await explain(stores, "local", name, "serve")).text


def test_what_is_no_such_message_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="decision is missing"):
        restored(DocumentDecision, {"scope": "acme/api", "kind": "gate"})


def test_what_an_earlier_version_stored_is_read_whatever_its_length() -> None:
    stored = encode(decided())
    stored["reasoning"] = "x" * 7_216
    stored["alternatives"] = ["y" * 5_000] * 600
    told = restored(DocumentDecision, json.loads(json.dumps(stored)))
    assert told.reasoning == "x" * 4_090 + " [cut]"
    assert len(told.alternatives) == 600
