"""Masking: the short alternations find what the whole one finds."""

import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.signatures import VERSION, sign
from memory.signatures.volatile import ALL_SIGNS, alternation, volatile

GOLDEN = Path(__file__).parent / f"golden_{VERSION}.jsonl"
SAMPLES = [sign(json.loads(line)["text"]).sample for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
some_words = st.text(alphabet="ab Z019-_./@:'*\\([=,", max_size=40)


def found(pattern: re.Pattern[str], words: str) -> list[tuple[str, int, int]]:
    return [(match.lastgroup, *match.span()) for match in pattern.finditer(words) if match.lastgroup]


def test_frozen_samples_are_masked_alike_by_the_whole_alternation() -> None:
    whole = alternation(ALL_SIGNS)
    assert [words for words in SAMPLES if found(volatile(words), words) != found(whole, words)] == []


@given(some_words)
@settings(max_examples=400, deadline=None)
def test_any_words_are_masked_alike_by_the_whole_alternation(words: str) -> None:
    assert found(volatile(words), words) == found(alternation(ALL_SIGNS), words)
