"""Frozen signatures: rules may change only together with the version of the key."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.signatures import VERSION, error_signature, log_signature, sign, signatures_of
from memory.signatures.versions import RULES

HERE = Path(__file__).parent


def frozen(version: str = VERSION) -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / f"golden_{version}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("version", RULES)
def test_no_frozen_signature_changes_without_a_new_version(version: str) -> None:
    rules = RULES[version]
    changed = [
        row["text"]
        for row in frozen(version)
        if rules(row["text"], "log" if row["profile"] == "log" else "error").key != row["signature"]
    ]
    assert changed == [], f"raise VERSION and freeze golden_<version>.jsonl: {changed[:3]}"


def test_the_short_forms_have_the_key_of_the_full_one() -> None:
    sign_by = {"error": error_signature, "log": log_signature}
    for row in frozen():
        assert sign_by[row["profile"]](row["text"]) == row["signature"]
        # Once more: a line that was signed before is remembered.
        assert sign_by[row["profile"]](row["text"]) == row["signature"]


def test_a_text_is_looked_up_by_its_key_of_the_version_before() -> None:
    earlier = {row["text"]: row["signature"] for row in frozen("s1") if row["profile"] == "error"}
    text = next(text for text in earlier if sign(text).template)
    assert [one.key for one in signatures_of(text)] == [sign(text).key, earlier[text]]


def test_another_process_with_another_hash_seed_signs_alike() -> None:
    script = (
        "import json, sys; from memory.signatures import error_signature as f;"
        "print(json.dumps([f(t) for t in json.load(sys.stdin)]))"
    )
    texts = [row["text"] for row in frozen()][::-1]
    seeded = {**os.environ, "PYTHONHASHSEED": "4242", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(texts),
        env=seeded,
        cwd=Path(__file__).parents[2],
        text=True,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [error_signature(text) for text in texts]
