"""Choose the notes that fit a step: pure, in a fixed order, each with its reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Final

from memory.notes.note import Note
from memory.vectors.tokens import spellings, terms
from poimen.contracts.definition import LIBRARY

TITLE_WEIGHT: Final = 2.0
CHARACTERS_A_NOTE: Final = 128
"""What looking at one note costs, as characters of text that is read."""
LEAST_WORDS: Final = 2
"""Shared words that make a note fit when its tool, phase and step say nothing; fewer where the text has no more."""
LEAST_SHARE: Final = 0.5
"""Of the best fit's score, for such a note."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step stands; None fits any."""

    scope: str
    tool: str | None = None
    phase: str | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """A note that fits, how well, and why."""

    note: Note
    score: float
    because: str
    named: bool = False


def fitting(notes: Sequence[Note], place: Place, text: str, limit: int) -> list[Fit]:
    """Give the best notes for a place and a text, at most `limit`, ties in the order of their ids.

    A note that names tools, phases or steps fits only those; one that names none needs words in common.
    """
    readable = [note for note in notes if note.scope in {place.scope, LIBRARY}]
    written = spellings(text)
    wanted = set(written)
    words = {id(note): words_of(note) for note in readable}
    rarity = _rarity(words.values(), wanted)
    least = min(LEAST_WORDS, len(wanted))
    fits = [fit for note in readable if (fit := _fit(note, place, words[id(note)], rarity, least, written))]
    best = max((fit.score for fit in fits), default=0.0)
    # Common words alone make many notes fit a little; beside a good fit they are noise.
    good = [fit for fit in fits if fit.named or fit.score >= best * LEAST_SHARE]
    return sorted(good, key=lambda fit: (-fit.score, fit.note.id))[:limit]


def _fit(
    note: Note, place: Place, words: Counter[str], rarity: dict[str, float], least: int, written: dict[str, str]
) -> Fit | None:
    named = [
        (noun, value)
        for noun, value, wanted in (
            ("step", place.step, note.steps),
            ("tool", place.tool, note.tools),
            ("phase", place.phase, note.phases),
        )
        if wanted and value in wanted
    ]
    elsewhere = any(
        wanted and value not in wanted
        for value, wanted in ((place.step, note.steps), (place.tool, note.tools), (place.phase, note.phases))
        if value is not None or wanted
    )
    shared = sorted((word for word in rarity if word in words), key=lambda word: (-rarity[word], word))
    if elsewhere or not (named or len(shared) >= max(least, 1)):
        return None
    score = sum(rarity[word] * min(words[word], 3) for word in shared) + 3.0 * len(named)
    reasons = [f"for {noun} {value}" for noun, value in named]
    if shared:
        reasons.append(f"shares {', '.join(written[word] for word in shared[:3])}")
    return Fit(note, round(score, 6), "; ".join(reasons), bool(named))


def place_tags(note: Note) -> tuple[str, ...]:
    """Give the places that a note is for as tags, `tool=planner`."""
    places = (("step", note.steps), ("tool", note.tools), ("phase", note.phases))
    return tuple(f"{noun}={value}" for noun, values in places for value in values)


def is_elsewhere(tags: Iterable[str], place: Place) -> bool:
    """Say whether an item whose tags name its places is for other ones than this."""
    wanted: dict[str, set[str]] = {}
    for noun, equals, value in (tag.partition("=") for tag in tags):
        if equals and noun in {"step", "tool", "phase"}:
            wanted.setdefault(noun, set()).add(value)
    return any(getattr(place, noun) not in values for noun, values in wanted.items())


# Cutting a note into terms costs a thousand times more than looking it up; every GetContext reads every note.
@lru_cache(maxsize=10_000)
def words_of(note: Note) -> Counter[str]:
    """Give the words of a note and how much each counts. Slow for a note that is new."""
    head = terms(" ".join((note.title, note.name, *note.tags)))
    return Counter({word: int(count * TITLE_WEIGHT) for word, count in head.items()}) + terms(note.text)


def _rarity(documents: Iterable[Counter[str]], wanted: set[str]) -> dict[str, float]:
    counted = list(documents)
    found = {word: sum(word in words for words in counted) for word in wanted}
    return {word: log(1 + len(counted) / n) for word, n in found.items() if n}
