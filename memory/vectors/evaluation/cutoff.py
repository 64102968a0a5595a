"""Measure the cut-off: how many unrelated questions it answers with nothing, and what it costs related ones."""

from collections.abc import Iterator, Sequence
from random import Random
from statistics import fmean
from typing import Any, Final

from memory.vectors.evaluation.measures import score
from memory.vectors.evaluation.question_sets import Group, Question, QuestionSet
from memory.vectors.evaluation.retrieval import Bench, drawn, ids, scopes_of

SMALLEST_SCOPE: Final = 3
LARGEST_SCOPE: Final = 100
SMALL_SCOPES: Final = 60
UNRELATED_A_SMALL_SCOPE: Final = 8
RELATED_A_SMALL_SCOPE: Final = 12


async def measure_cutoff(
    bench: Bench, questions: QuestionSet, unrelated: Sequence[Question], *, most: int
) -> dict[str, Any]:
    """Ask a set its own questions and unrelated ones, in its whole groups and in small parts of them.

    At most `most` questions of each kind, drawn the same way each time.
    """
    chance = Random(questions.name)  # noqa: S311  because it only draws samples
    whole, small = _Tally(bench), _Tally(bench)
    others = chance.sample(list(unrelated), min(most, len(unrelated)))
    groups = list(scopes_of(questions))
    for number, (scope, group) in enumerate(groups):
        await bench.put(scope, group.items)
        await whole.related(scope, drawn(group.questions, most, len(questions.questions)))
        await whole.unrelated(scope, others[number :: len(groups)])
    for number, part in enumerate(_parts([group for _, group in groups], chance)):
        scope = f"{questions.name[:200]}/part {number}"
        await bench.put(scope, part.items)
        await small.related(scope, part.questions)
        await small.unrelated(scope, chance.sample(others, min(UNRELATED_A_SMALL_SCOPE, len(others))))
    return {"whole": whole.figures(), "small_scopes": small.figures()}


def mean_cutoff(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Give the plain mean over sets."""
    names = ("unrelated_rejected", "recall@5_lost_points")
    return {
        kind: {name: round(fmean(one[kind][name] for one in measured), 4) for name in names}
        for kind in ("whole", "small_scopes")
    }


class _Tally:
    """What came of questions: recall with and without the cut-off, and which unrelated ones were rejected."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._kept: list[float] = []
        self._full: list[float] = []
        self._rejected: list[bool] = []

    async def related(self, scope: str, questions: Sequence[Question]) -> None:
        for question in questions:
            found, _ = await self._bench.ask(scope, question)
            self._kept.append(score(ids(found, question), question.relevant).recall_5)
            if not found.hits:
                found, _ = await self._bench.ask(scope, question, cut_off=False)
            self._full.append(score(ids(found, question), question.relevant).recall_5)

    async def unrelated(self, scope: str, questions: Sequence[Question]) -> None:
        for question in questions:
            found, _ = await self._bench.ask(scope, question)
            self._rejected.append(not found.hits)

    def figures(self) -> dict[str, Any]:
        return {
            "related": len(self._full),
            "recall@5": round(fmean(self._full), 4),
            "recall@5_lost_points": round(100 * (fmean(self._full) - fmean(self._kept)), 2),
            "unrelated": len(self._rejected),
            "unrelated_rejected": round(fmean(self._rejected), 4),
        }


def _parts(groups: Sequence[Group], chance: Random) -> Iterator[Group]:
    """Draw small parts of groups, their sizes spread evenly over the orders of magnitude, each with an answer in it."""
    for number in range(SMALL_SCOPES):
        group = chance.choice(groups)
        spread = LARGEST_SCOPE / SMALLEST_SCOPE
        size = min(round(SMALLEST_SCOPE * spread ** (number / (SMALL_SCOPES - 1))), len(group.items))
        answered = min(chance.choice(group.questions).relevant)
        chosen = {answered, *chance.sample([item for item in group.items if item != answered], size - 1)}
        inside = [
            Question(question.text, question.relevant & chosen, question.own)
            for question in group.questions
            if question.relevant & chosen
        ]
        asked = chance.sample(inside, min(RELATED_A_SMALL_SCOPE, len(inside)))
        yield Group({item: text for item, text in group.items.items() if item in chosen}, asked)
