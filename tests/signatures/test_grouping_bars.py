"""The bars of the error profile on labelled outputs: a wrong merge hands out the wrong recovery, so none is allowed."""

import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from memory.signatures import error_signature

DATA = Path(__file__).parent / "data"
FILES = ["ran_outputs.jsonl", "written_outputs.jsonl", "further_outputs.jsonl"]


def labelled(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def pairs(counts: Counter[object]) -> int:
    return sum(n * (n - 1) // 2 for n in counts.values())


def scores(rows: list[dict[str, str]]) -> tuple[float, float]:
    """Pairwise precision and recall of "same class"."""
    keys = [error_signature(row["text"]) for row in rows]
    both = pairs(Counter((row["class"], key) for row, key in zip(rows, keys, strict=True)))
    told, true = pairs(Counter(keys)), pairs(Counter(row["class"] for row in rows))
    return (both / told if told else 1.0), both / true


@pytest.mark.parametrize("name", FILES)
def test_the_same_failure_gets_the_same_signature(name: str) -> None:
    precision, recall = scores(labelled(name))
    assert 2 * precision * recall / (precision + recall) >= 0.95


@pytest.mark.parametrize("name", FILES)
def test_two_failures_never_share_a_signature(name: str) -> None:
    classes = defaultdict(set)
    for row in labelled(name):
        classes[error_signature(row["text"])].add(row["class"])
    assert [found for found in classes.values() if len(found) > 1] == []


def test_near_misses_of_all_files_stay_apart() -> None:
    families = defaultdict(list)
    for row in itertools.chain.from_iterable(map(labelled, FILES)):
        families[row["near"]].append((row["class"], error_signature(row["text"])))
    merged = [
        (first[0], second[0])
        for members in families.values()
        for first, second in itertools.combinations(members, 2)
        if first[0] != second[0] and first[1] == second[1]
    ]
    assert merged == []
