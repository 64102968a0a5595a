import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poimen.contracts.canonical import canonical_text, definition_hash
from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import decode, encode

Fields = dict[str, Any]

PLAIN: Fields = {
    "name": "release",
    "scope": "acme/api",
    "environment": {"image": "env:IMAGE", "lock": {"file": "uv.lock"}},
    "phases": [
        {
            "id": "T0",
            "steps": [
                {"id": "build", "run": {"command": ["make"], "timeout": "60s"}},
                {
                    "id": "plan",
                    "needs": ["build"],
                    "run": {"model": "small", "prompt": "Plan.\n{{context}}"},
                    "judge": {"command": ["./score"], "pass": 0.8},
                    "on_failure": {"go_to": "build", "at_most": 1},
                },
            ],
            "gate": {"command": ["./smoke"]},
        }
    ],
}


def hashed(data: Fields) -> str:
    return definition_hash(decode(WorkflowDef, data).message)


def changed(**fields: Any) -> Fields:
    return json.loads(json.dumps(PLAIN)) | fields


def with_step(**fields: Any) -> Fields:
    data = changed()
    data["phases"][0]["steps"][0] |= fields
    return data


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    order.shuffle(keys)
    return {key: shuffled(value[key], order) for key in keys}


def test_the_canonical_form_is_a_fixed_text() -> None:
    assert canonical_text(decode(WorkflowDef, PLAIN).message) == (
        '{"environment":{"image":"env:IMAGE","lock":{"file":"uv.lock"}},"name":"release","phases":'
        '[{"gate":{"command":["./smoke"]},"id":"T0","steps":[{"id":"build","run":{"command":["make"],"timeout":60000}},'
        '{"id":"plan","judge":{"command":["./score"],"pass":"0.8"},"needs":["build"],'
        '"on_failure":{"at_most":1,"go_to":"build"},"run":{"model":"small","prompt":"Plan.\\n{{context}}"}}]}],'
        '"scope":"acme/api"}'
    )


def test_the_hash_of_a_known_definition_never_changes() -> None:
    assert hashed(PLAIN) == "wd1:619e35eafdc3961792319970ea4918fecc48975452cf645d1c233e8f56dfa806"


@given(st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_order_of_keys_does_not_matter(order: random.Random) -> None:
    assert hashed(shuffled(PLAIN, order)) == hashed(PLAIN)


def test_defaults_written_out_do_not_matter() -> None:
    written_out = encode(decode(WorkflowDef, PLAIN).message)
    assert written_out["budget"] == {"attempts": None, "tokens": None, "time": None}
    assert hashed(written_out) == hashed(PLAIN)


@given(st.data())
@settings(max_examples=30)
def test_any_of_the_defaults_may_be_written_out(data: st.DataObject) -> None:
    full = encode(decode(WorkflowDef, PLAIN).message)
    written = {name: full[name] for name in full if name in PLAIN or data.draw(st.booleans())}
    steps = zip(PLAIN["phases"][0]["steps"], full["phases"][0]["steps"], strict=True)
    written["phases"][0]["steps"] = [
        {name: all_of_it[name] for name in all_of_it if name in plain or data.draw(st.booleans())}
        for plain, all_of_it in steps
    ]
    assert hashed(written) == hashed(PLAIN)


@pytest.mark.parametrize("timeout", ["1m", "60000ms", "0h1m", "59s1000ms"])
def test_one_duration_has_many_spellings_and_one_hash(timeout: str) -> None:
    assert hashed(with_step(run={"command": ["make"], "timeout": timeout})) == hashed(PLAIN)


def test_decimals_are_compared_by_value() -> None:
    assert hashed(changed(retry={"factor": 1.50})) == hashed(changed(retry={"factor": 1.5}))
    assert hashed(changed(retry={"factor": 2.0})) == hashed(PLAIN)
    assert '"factor":"100"' in canonical_text(decode(WorkflowDef, changed(retry={"factor": 1e2})).message)


@pytest.mark.parametrize(
    "other",
    [
        changed(name="release2"),
        changed(scope="acme/apI"),
        changed(budget={"attempts": 3}),
        changed(environment={"image": "env:IMAGE2", "lock": {"file": "uv.lock"}}),
        with_step(run={"command": ["make"], "timeout": "61s"}),
        with_step(title="Build"),
        with_step(retry={}),  # the defaults, where nothing means the definition's own
        with_step(on_failure="skip"),
    ],
)
def test_every_change_changes_the_hash(other: Fields) -> None:
    assert hashed(other) != hashed(PLAIN)


def test_text_is_hashed_as_written_and_not_normalised() -> None:
    assert hashed(changed(name="\u00e9")) != hashed(changed(name="e\u0301"))
