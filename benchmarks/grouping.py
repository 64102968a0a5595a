"""Measure how well signatures group labelled texts: python -m benchmarks.grouping DATA

DATA holds ``errors/*.jsonl`` ({"class", "text"[, "near"]}) and ``loghub/*_2k.csv`` (Content, EventId); what is not
there is left out. GA is the share of texts whose group is exactly their class, FGA the F1 of exactly right groups,
precision and recall are pairwise, a near-miss merge is a pair of one family and two classes under one signature.
"""

import argparse
import csv
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memory.signatures import error_signature, log_signature

Sign = Callable[[str], str]


def grouping(classes: Sequence[str], signatures: Sequence[str]) -> dict[str, float]:
    """Compare the groups that signatures make with the labelled classes."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for label, signature in zip(classes, signatures, strict=True):
        groups[signature][label] += 1
    sizes = Counter(classes)
    exact = [label for members in groups.values() for label in members if _is_exact(members, sizes, label)]
    together = sum(_pairs(count) for members in groups.values() for count in members.values())
    precision = _share(together, sum(_pairs(members.total()) for members in groups.values()))
    recall = _share(together, sum(_pairs(count) for count in sizes.values()))
    return {
        "texts": len(classes),
        "GA": sum(sizes[label] for label in exact) / max(1, len(classes)),
        "FGA": 2 * len(exact) / max(1, len(groups) + len(sizes)),
        "precision": precision,
        "recall": recall,
        "F1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
    }


def near_merges(rows: Sequence[dict[str, str]], signatures: Sequence[str]) -> tuple[int, int]:
    """Return how many near-miss pairs were merged, and how many there are."""
    families: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row, signature in zip(rows, signatures, strict=True):
        if row.get("near"):
            families[row["near"]].append((row["class"], signature))
    near = [
        first[1] == second[1]
        for members in families.values()
        for number, first in enumerate(members)
        for second in members[number + 1 :]
        if first[0] != second[0]
    ]
    return sum(near), len(near)


def measure(data: Path) -> dict[str, Any]:
    """Measure everything that is found below a folder."""
    found: dict[str, Any] = {"errors": {}, "logs": {}}
    for path in sorted((data / "errors").glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        signatures, rate = _signed(error_signature, [row["text"] for row in rows])
        merged, near = near_merges(rows, signatures)
        scored = grouping([row["class"] for row in rows], signatures)
        found["errors"][path.stem] = {**scored, "near_merged": merged, "near_pairs": near, "texts_per_s": rate}
    for path in sorted((data / "loghub").glob("*_2k.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        signatures, rate = _signed(log_signature, [line["Content"] for line in lines])
        found["logs"][path.stem] = {**grouping([line["EventId"] for line in lines], signatures), "texts_per_s": rate}
    logs = found["logs"].values()
    found["logs_mean"] = (
        {name: sum(log[name] for log in logs) / len(logs) for name in ("GA", "FGA", "precision")} if logs else {}
    )
    return found


def _signed(sign: Sign, texts: list[str]) -> tuple[list[str], int]:
    began = time.perf_counter()
    signatures = [sign(text) for text in texts]
    return signatures, round(len(texts) / (time.perf_counter() - began))


def _is_exact(members: Counter[str], sizes: Counter[str], label: str) -> bool:
    return len(members) == 1 and members[label] == sizes[label]


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of labelled texts")
    print(json.dumps(measure(parser.parse_args().data), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
