"""`poimen eval`: measure a store's search on sets of questions whose answers are known."""

import argparse
import contextlib
import dataclasses
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memory.vectors.cached import CachedEmbedder
from memory.vectors.evaluation.cutoff import mean_cutoff, measure_cutoff
from memory.vectors.evaluation.kept_vectors import KeptVectors
from memory.vectors.evaluation.question_sets import BadQuestions, Question, QuestionSet, read_sets
from memory.vectors.evaluation.retrieval import DEADLINE_SECONDS, Bench, mean_of, measure_set
from worker.cli.opened import opened_stores
from worker.cli.output import print_json, table
from worker.exits import USAGE, ExitError
from worker.found_stack import load_settings
from worker.settings import Settings

_MOST_OF_CUTOFF: Final = 1_000


async def run(arguments: argparse.Namespace) -> int:
    """Measure each set in turn, in a tenant that is taken away at the end; nothing else in the store is touched."""
    sets = _chosen(_read(arguments.folder), arguments.sets, arguments.folder)
    others = _others(arguments, sets)
    async with _bench(_settings(arguments.index), arguments.vectors) as bench:
        measured: dict[str, dict[str, Any]] = {}
        for one in sets:
            print(f"{one.name}: {sum(len(group.items) for group in one.groups):,} items …", file=sys.stderr)
            if arguments.what == "retrieval":
                measured[one.name] = await measure_set(bench, one, most=arguments.most)
            else:
                most = arguments.most or _MOST_OF_CUTOFF
                measured[one.name] = await measure_cutoff(bench, one, others[one.name], most=most)
        used = {"index": bench.index.name, "embedder": bench.vectors.name if bench.vectors else None}
    if arguments.what == "retrieval":
        _tell_retrieval({**used, "sets": measured, "mean": mean_of(measured)}, as_json=arguments.json)
    else:
        _tell_cutoff({**used, "sets": measured, "mean": mean_cutoff(list(measured.values()))}, as_json=arguments.json)
    return 0


def _read(folder: Path) -> tuple[QuestionSet, ...]:
    try:
        return read_sets(folder)
    except BadQuestions as error:
        raise ExitError(str(error), USAGE) from None


def _chosen(sets: Sequence[QuestionSet], names: Sequence[str] | None, folder: Path) -> list[QuestionSet]:
    known = [one.name for one in sets]
    for name in names or ():
        if name not in known:
            raise ExitError(f'{folder} has no set "{name}"; it has {", ".join(known)}.', USAGE)
    return [one for one in sets if names is None or one.name in names]


def _others(arguments: argparse.Namespace, sets: Sequence[QuestionSet]) -> dict[str, list[Question]]:
    """Give the unrelated questions of each set: all those of --against that it does not ask itself."""
    if arguments.what == "retrieval":
        return {}
    if not arguments.against:
        raise ExitError("eval cutoff needs --against: sets whose questions have no answer in those of DIR.", USAGE)
    given = [question for folder in arguments.against for one in _read(folder) for question in one.questions]
    others = {}
    for one in sets:
        own = {question.text for question in one.questions}
        others[one.name] = [question for question in given if question.text not in own]
        if not others[one.name]:
            raise ExitError(f'--against has no question that "{one.name}" does not ask itself.', USAGE)
    return others


def _settings(index: str | None) -> Settings:
    settings = load_settings()
    # A request of hundreds of documents may take what a step would never wait.
    chosen = {"opensearch_seconds": DEADLINE_SECONDS} | ({"index": index} if index is not None else {})
    return dataclasses.replace(settings, values={**settings.values, **chosen})


@contextlib.asynccontextmanager
async def _bench(settings: Settings, folder: Path | None) -> AsyncIterator[Bench]:
    async with opened_stores(settings) as stores:
        embedder = stores.embedder
        # What it takes to embed a text is measured too: not from a cache.
        maker = embedder.behind if isinstance(embedder, CachedEmbedder) else embedder
        vectors = KeptVectors(maker, folder) if maker is not None else None
        bench = Bench(stores.index_with(vectors), vectors, f"eval-{uuid.uuid4().hex}")
        try:
            yield bench
        finally:
            if vectors is not None:
                vectors.save()
            await bench.index.drop(bench.tenant, deadline_seconds=DEADLINE_SECONDS)
            await bench.index.close()


def _tell_retrieval(figures: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(figures)
        return
    heads = [
        "set",
        "items",
        "asked",
        "nDCG@10",
        "R@5",
        "R@10",
        "MRR@10",
        "p50 ms",
        "p95 ms",
        "with embedding",
        "adds/s",
    ]
    rows = [
        [
            name,
            f"{one['items']:,}",
            f"{one['questions']:,}",
            *_measures(one),
            f"{one['search_ms']['p50']:.1f}",
            f"{one['search_ms']['p95']:.1f}",
            f"{one['search_with_embedding_ms']['p50']:.1f}" if "search_with_embedding_ms" in one else "",
            f"{one['adds_per_second']:,.0f}",
        ]
        for name, one in figures["sets"].items()
    ]
    rows.append(["mean", "", "", *_measures(figures["mean"]), "", "", "", ""])
    rows.append(["with cut-off", "", "", *_measures(figures["mean"]["with_cut_off"]), "", "", "", ""])
    print(table(heads, rows, right=range(1, len(heads))))


def _measures(scores: Mapping[str, float]) -> list[str]:
    return [f"{scores[name]:.3f}" for name in ("ndcg@10", "recall@5", "recall@10", "mrr@10")]


def _tell_cutoff(figures: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(figures)
        return
    heads = ["set", "answered with nothing", "R@5 lost", "in small scopes", "R@5 lost"]
    rows = [[name, *_rates(one)] for name, one in [*figures["sets"].items(), ("mean", figures["mean"])]]
    print(table(heads, rows, right=range(1, len(heads))))


def _rates(one: Mapping[str, Any]) -> list[str]:
    told = []
    for kind in ("whole", "small_scopes"):
        told += [f"{one[kind]['unrelated_rejected']:.1%}", f"{one[kind]['recall@5_lost_points']:.2f} points"]
    return told
