"""A step's effects inside a workflow: activities, timers, and the page people watch."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate

from poimen.contracts.definition import Step
from poimen.contracts.execution import OutputReference
from poimen.details import step_details
from poimen.step_loop import RUNNING
from poimen.step_rules import StepPolicy, history_is_full
from poimen.step_state import AttemptReport, AttemptWork, Progress
from workflows.attempts import WorkPlace, attempt, repair

TENANT = SearchAttributeKey.for_keyword("MemoryTenant")
SCOPE = SearchAttributeKey.for_keyword("MemoryScope")
SIGNATURE = SearchAttributeKey.for_keyword("MemorySignature")
VERDICT = SearchAttributeKey.for_keyword("MemoryVerdict")
HITS = SearchAttributeKey.for_int("MemoryHits")
# A visibility store of SQL has 255 characters; the server takes 2,048 bytes of JSON, where a letter may have twelve.
_KEYWORD_CHARACTERS = 255
_KEYWORD_BYTES = 2_000


def scope_attributes(scope: str, tenant: str | None) -> list[SearchAttributePair]:  # type: ignore[type-arg]  # because pairs of several types share one list
    """Return what a workflow is found by from its start."""
    pairs = [SearchAttributePair(SCOPE, keyword(scope))]
    return [*pairs, SearchAttributePair(TENANT, keyword(tenant))] if tenant else pairs


def keyword(text: str) -> str:
    """Cut a text to what every server takes as a keyword: it refuses a longer one for ever, or ends the workflow."""
    text = text[:_KEYWORD_CHARACTERS]
    while len(json.dumps(text)) > _KEYWORD_BYTES:
        text = text[:-1]
    return text


class WorkflowStepPorts:
    """Runs one step's attempts, repairs and waits where its run does its work."""

    def __init__(
        self,
        step: Step,
        find_place: Callable[[], Awaitable[WorkPlace]],
        deadline: datetime | None,
        tokens_limit: Callable[[], int | None],
    ) -> None:
        self.step, self.deadline = step, deadline
        # What a shared token budget leaves to this step in all, once the run has said so.
        self._tokens_limit = tokens_limit
        # Found at the first need, inside the step's loop: whatever ends the search is documented as the step's end.
        self._find_place = find_place
        self._place: WorkPlace | None = None
        self.progress: Progress | None = None
        # What the latest attempt that left a checkpoint left.
        self.checkpoint: OutputReference | None = None
        self.tokens_used = 0
        self.on_tokens: Callable[[int], Awaitable[None]] | None = None
        self._shown: dict[str, str | int] = {}

    def now(self) -> datetime:
        """Return workflow time."""
        return workflow.now()

    def bounds(self, policy: StepPolicy) -> StepPolicy:
        """Return the bounds with what other steps have left of the run's tokens, and the history of its room."""
        info = workflow.info()
        if history_is_full(info.get_current_history_length(), info.get_current_history_size()):
            return replace(policy, history_is_full=True)
        limit, own = self._tokens_limit(), policy.tokens_budget
        if limit is None or (own is not None and own <= limit):
            return policy
        return replace(policy, tokens_budget=limit, tokens_owner="run")

    async def attempt(self, work: AttemptWork) -> AttemptReport:
        """Run, verify and judge once."""
        report = await attempt(self.step, work, await self._where(), self.checkpoint)
        if report.checkpoint is not None:
            self.checkpoint = report.checkpoint
        self.tokens_used += report.tokens
        if report.tokens and self.on_tokens is not None:
            await self.on_tokens(self.tokens_used)
        return report

    async def repair(self, repair_id: str, number: int) -> int | None:
        """Run the declared repair of that id."""
        body = next(body for body in self.step.repairs if body.id == repair_id)
        return await repair(body, self.step.id, number, await self._where(), self._seconds_left())

    async def wait(self, seconds: float, why: str) -> None:
        """Start a timer that says how long and who asked for it."""
        await workflow.sleep(seconds, summary=f"wait {seconds:g} s, {why}"[:200])

    def show(self, progress: Progress) -> None:
        """Update the current details, and the search attributes that changed."""
        if progress.activity == RUNNING:
            queue = self.step.run.activity.queue if self.step.run.activity else None
            activity = running(self.step, queue or workflow.info().task_queue, progress.left.time_seconds)
            progress = replace(progress, activity=activity)
        self.progress = progress
        workflow.set_current_details(step_details(progress))
        updates = self._updates(progress)
        if updates:
            workflow.upsert_search_attributes(updates)

    async def _where(self) -> WorkPlace:
        if self._place is None:
            self._place = await self._find_place()
        return self._place

    def _updates(self, progress: Progress) -> list[SearchAttributeUpdate]:  # type: ignore[type-arg]  # because updates of several types share one list
        found: list[SearchAttributeUpdate] = []  # type: ignore[type-arg]  # because of the same
        package, analysis = progress.package, progress.analysis
        tenant = package.tenant if package else analysis.tenant if analysis else None
        if tenant and self._is_new("tenant", tenant):
            found.append(TENANT.value_set(keyword(tenant)))
        if package and self._is_new("hits", len(package.items)):
            found.append(HITS.value_set(len(package.items)))
        if analysis and analysis.signature and self._is_new("signature", analysis.signature):
            found.append(SIGNATURE.value_set(analysis.signature))
        if analysis and analysis.signature and self._is_new("verdict", analysis.advice.verdict):
            found.append(VERDICT.value_set(analysis.advice.verdict))
        return found

    def _is_new(self, name: str, value: str | int) -> bool:
        # Each upsert is an event of history, so only a change is worth one.
        if self._shown.get(name) == value:
            return False
        self._shown[name] = value
        return True

    def _seconds_left(self) -> float | None:
        if self.deadline is None:
            return None
        return max(0.0, (self.deadline - workflow.now()) / timedelta(seconds=1))


def running(step: Step, queue: str, seconds_left: float | None) -> str:
    """Say what an attempt waits for, and how long at most: nobody can see from here whether a worker has taken it."""
    if step.run.activity is None:
        return RUNNING
    limit = step.run.activity.start_within / 1000
    if seconds_left is not None:
        limit = min(limit, round(seconds_left, 1))
    return f"{RUNNING}, or waiting for a worker on queue {queue} (at most {limit:g} s)"
