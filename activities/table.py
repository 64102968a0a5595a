"""Which activity is which use case: name, the message it takes, and how long it may work."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from memory.analyze import analyze
from memory.diagnose import diagnose
from memory.document import document
from memory.health import health
from memory.knowledge import retire, search
from memory.learn import learn
from memory.producers.runs import summarise
from memory.recall import recall
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import (
    AnalyzeError,
    DiagnoseIssue,
    DocumentDecision,
    GetContext,
    HealthCheck,
    HealthReport,
    LearnFromExecution,
    RetireKnowledge,
    SearchKnowledge,
    SummariseRun,
)
from poimen.contracts.message import Message

UseCase = Callable[[Any, Caller, Stores], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One activity. `longest_seconds` bounds its work; None is the settings' deadline of a memory call.

    `writes` is true for one that changes what a scope knows.
    """

    name: str
    takes: type[Message]
    use_case: UseCase
    longest_seconds: float | None = None
    writes: bool = True


async def _health(_: HealthCheck, caller: Caller, stores: Stores) -> HealthReport:
    return await health(caller.tenant, stores)


# GetContext, SearchKnowledge and DiagnoseIssue carry deadlines of their own, at most a minute.
TABLE: Final = (
    Entry("GetContext", GetContext, recall, 60.0, writes=False),
    Entry("LearnFromExecution", LearnFromExecution, learn),
    Entry("AnalyzeError", AnalyzeError, analyze),
    Entry("DocumentDecision", DocumentDecision, document),
    Entry("SearchKnowledge", SearchKnowledge, search, 60.0, writes=False),
    Entry("DiagnoseIssue", DiagnoseIssue, diagnose, 60.0, writes=False),
    Entry("RetireKnowledge", RetireKnowledge, retire, 5.0),
    Entry("SummariseRun", SummariseRun, summarise, 5.0),
    Entry("HealthCheck", HealthCheck, _health, 5.0, writes=False),
)
