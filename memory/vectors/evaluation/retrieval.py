"""Measure a store's search: how good its ranking is, and how fast it searches and takes documents."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean
from typing import Any, Final

from memory.vectors.evaluation.kept_vectors import KeptVectors
from memory.vectors.evaluation.measures import DEPTH, Scores, at_share, mean, score
from memory.vectors.evaluation.question_sets import Group, Question, QuestionSet
from memory.vectors.index import Document, Found, Query, VectorIndex, begin_first

DEADLINE_SECONDS: Final = 60.0
DOCUMENTS_AT_ONCE: Final = 200
TIMED_EMBEDDINGS: Final = 40


@dataclass(frozen=True, slots=True)
class Bench:
    """A store under measurement, and a tenant of it that nobody else uses."""

    index: VectorIndex
    vectors: KeptVectors | None
    tenant: str

    async def put(self, scope: str, items: Mapping[str, str]) -> float:
        """Put the items of a scope and give the seconds until all of them are found; their vectors are made before."""
        if self.vectors is not None:
            await self.vectors.embed(list(items.values()))
        documents = [
            Document(tenant=self.tenant, scope=scope, id=item, kind="fact", level="L1", text=text, version=1)
            for item, text in items.items()
        ]
        await begin_first(self.index, self.tenant, deadline_seconds=DEADLINE_SECONDS)
        began = time.perf_counter()
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            batch = documents[start : start + DOCUMENTS_AT_ONCE]
            put = await self.index.put(batch, deadline_seconds=DEADLINE_SECONDS)
            refused = [one.because for one in put if one.outcome == "failed"]
            if refused:
                raise RuntimeError(f"The store refuses a document: {refused[0]}")
        # A listing begins with everything that is there: what was put is found from then on.
        for generation in await self.index.generations(self.tenant, deadline_seconds=DEADLINE_SECONDS):
            await self.index.entries(
                self.tenant, generation.number, after=None, limit=1, deadline_seconds=DEADLINE_SECONDS
            )
        return time.perf_counter() - began

    async def ask(self, scope: str, question: Question, *, cut_off: bool = True) -> tuple[Found, float]:
        """Search and give what was found and the seconds it took; the question's vector is made before."""
        if self.vectors is not None:
            await self.vectors.embed([question.text])
        limit = DEPTH + (question.own is not None)
        query = Query(tenant=self.tenant, scope=scope, text=question.text, limit=limit, cut_off=cut_off)
        began = time.perf_counter()
        found = await self.index.search(query, deadline_seconds=DEADLINE_SECONDS)
        return found, time.perf_counter() - began


def ids(found: Found, question: Question) -> list[str]:
    """Give what was found, best first, without the question's own item."""
    return [hit.id for hit in found.hits if hit.id != question.own]


def scopes_of(questions: QuestionSet) -> Iterator[tuple[str, Group]]:
    """Give each group that something is asked of, under a scope of its own."""
    for number, group in enumerate(questions.groups):
        if group.questions:
            yield f"{questions.name[:200]}/{number}", group


async def measure_set(bench: Bench, questions: QuestionSet, *, most: int | None = None) -> dict[str, Any]:
    """Put a set and ask all of its questions, or `most` of them, drawn the same way each time."""
    delivered, ranked, seconds, added, adding = list[Scores](), list[Scores](), list[float](), 0, 0.0
    for scope, group in scopes_of(questions):
        adding += await bench.put(scope, group.items)
        added += len(group.items)
        await bench.ask(scope, group.questions[0])  # the first search of a scope reads it from disk
        for question in drawn(group.questions, most, len(questions.questions)):
            found, taken = await bench.ask(scope, question)
            seconds.append(taken)
            delivered.append(score(ids(found, question), question.relevant))
            if found.empty_reason == "below_threshold":
                found, _ = await bench.ask(scope, question, cut_off=False)
            ranked.append(score(ids(found, question), question.relevant))
    return {
        "items": added,
        "questions": len(seconds),
        **named(mean(ranked)),
        "with_cut_off": named(mean(delivered)),
        "adds_per_second": round(added / adding, 1),
        "search_ms": _milliseconds(seconds),
        **await _with_embedding(bench.vectors, questions, seconds, adding / added),
    }


def drawn(questions: Sequence[Question], most: int | None, of: int) -> Sequence[Question]:
    """Give a group's share of `most` questions out of `of`, the same each time; all of them without a bound."""
    if most is None or of <= most:
        return questions
    share = max(1, round(len(questions) * most / of))
    return Random(len(questions)).sample(questions, min(share, len(questions)))  # noqa: S311  because it only draws a sample


def named(scores: Scores) -> dict[str, float]:
    """Give scores under the names they are usually told by."""
    names = {"ndcg": "ndcg@10", "recall_5": "recall@5", "recall_10": "recall@10", "mrr": "mrr@10"}
    return {names[name]: round(value, 4) for name, value in asdict(scores).items()}


def mean_of(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give the plain mean over sets of every measure of the ranking."""
    measures = ("ndcg@10", "recall@5", "recall@10", "mrr@10")

    def over(sets: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return {name: round(fmean(one[name] for one in sets), 4) for name in measures}

    sets = list(measured.values())
    return over(sets) | {"with_cut_off": over([one["with_cut_off"] for one in sets])}


async def _with_embedding(
    vectors: KeptVectors | None, questions: QuestionSet, searches: Sequence[float], an_add: float
) -> dict[str, Any]:
    """Add what embedding takes, of a sample, to what the store takes."""
    if vectors is None:
        return {}
    some = questions.questions[:TIMED_EMBEDDINGS]
    asked = await vectors.seconds_for([question.text for question in some])
    texts = [text for group in questions.groups for text in group.items.values()][:TIMED_EMBEDDINGS]
    put = await vectors.seconds_for(texts)
    together = [search + embedding for search, embedding in zip(searches, asked, strict=False)]
    return {
        "embedding_ms": _milliseconds(asked),
        "search_with_embedding_ms": _milliseconds(together),
        "adds_with_embedding_per_second": round(1 / (an_add + fmean(put)), 1),
    }


def _milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": round(1_000 * at_share(seconds, share / 100), 2) for share in (50, 95)}
