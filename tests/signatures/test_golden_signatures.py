"""Frozen signatures: rules may change only together with the version of the key."""

import json
import os
import subprocess
import sys
from pathlib import Path

from memory.signatures import VERSION, error_signature, log_signature, sign

GOLDEN = Path(__file__).parent / f"golden_{VERSION}.jsonl"


def frozen() -> list[dict[str, str]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def test_no_frozen_signature_changes_without_a_new_version() -> None:
    sign_by = {"error": error_signature, "log": log_signature}
    changed = [row["text"] for row in frozen() if sign_by[row["profile"]](row["text"]) != row["signature"]]
    assert changed == [], f"raise VERSION and freeze golden_<version>.jsonl: {changed[:3]}"


def test_the_full_form_has_the_key_of_the_short_one() -> None:
    for row in frozen():
        profile = "log" if row["profile"] == "log" else "error"
        assert sign(row["text"], profile=profile).key == row["signature"]


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
