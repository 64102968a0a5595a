"""ProjectJournal: build the index anew from what is on record, beside the live one, compare it and swap."""

from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from poimen.contracts.message import Message, decode, encode
    from poimen.contracts.problems import counted
    from poimen.contracts.rebuild import (
        MOST_FAILED,
        BeginGeneration,
        ChangesCopied,
        CompareGeneration,
        CopyChanges,
        CopyItems,
        GenerationBegun,
        GenerationCompared,
        ItemsCopied,
        ProjectJournalResult,
        Promoted,
        PromoteGeneration,
        RebuildState,
        StartProjectJournal,
    )
    from poimen.entry import EMPTY, one_argument
    from poimen.temporal_memory import FINAL_ERRORS

from workflows.messages import accept
from workflows.step_ports import TENANT

M = TypeVar("M", bound=Message)
# A store that is down is waited for: the activity says how long, and this is how long at most.
RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_interval=timedelta(seconds=30),
    non_retryable_error_types=sorted(FINAL_ERRORS),
)
ATTEMPT_LIMIT: Final = timedelta(minutes=10)
# After which another worker goes on where a killed one was.
HEARTBEAT: Final = timedelta(seconds=20)
# Stretches copied by one execution; each takes some ten events of its history.
MOST_STRETCHES: Final = 200
# Writers are brought up to date and compared again, for some change while they are compared.
ROUNDS: Final = 3


@workflow.defn(name="ProjectJournal")
class ProjectJournal:
    """Builds one tenant's index anew; searches read the former one until the new one is the same."""

    def __init__(self) -> None:
        self.state: RebuildState | None = None
        self.stage = "beginning"

    @workflow.run
    @one_argument
    async def run(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Return what was built; the former generation is kept, and stays live when this fails."""
        start = _accepted(raw)
        self.state = start.state
        if self.state is None:
            begun = await self._do("BeginGeneration", BeginGeneration(tenant=start.tenant), GenerationBegun)
            self.state = RebuildState(begun=begun)
        workflow.upsert_search_attributes([TENANT.value_set(self.state.begun.tenant)])
        await self._copy(self.state, fresh=start.state is None)
        since = await self._compare(self.state.begun)
        promoted = await self._promote(self.state.begun, since)
        self._show("done")
        return encode(_result(self.state, promoted))

    @workflow.query(description="What is being done, into which generation, and how many items were copied so far.")
    def progress(self) -> dict[str, Any]:
        """Return the stage and the counts."""
        state = self.state
        if state is None:
            return {"stage": self.stage, "items": 0, "failed": 0}
        generation = {"tenant": state.begun.tenant, "generation": state.begun.generation}
        return {"stage": self.stage, "items": state.items, "failed": state.failed, **generation}

    async def _copy(self, state: RebuildState, *, fresh: bool) -> None:
        """Copy all items, a stretch an activity; a long copy goes on in a new execution."""
        after, stretches = state.after, 0
        while fresh or after is not None:
            if stretches == MOST_STRETCHES or workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(encode(StartProjectJournal(tenant=state.begun.tenant, state=self.state)))
            self._show("copying")
            asked = CopyItems(tenant=state.begun.tenant, generation=state.begun.generation, after=after)
            copied = await self._do("CopyItems", asked, ItemsCopied)
            fresh, after, stretches = False, copied.after, stretches + 1
            moved = state.model_copy(update={"after": after, "items": state.items + copied.items})
            state = self.state = _with_failed(moved, copied)

    async def _compare(self, begun: GenerationBegun) -> datetime:
        """Bring what changed meanwhile and compare, until nothing differs but what does not go in."""
        since = begun.since
        for _ in range(ROUNDS):
            state, since = await self._catch_up(begun, since)
            self._show("comparing")
            asked = CompareGeneration(
                tenant=begun.tenant, generation=begun.generation, since=since, failed_ids=state.failed_ids
            )
            compared = await self._do("CompareGeneration", asked, GenerationCompared)
            if not compared.differences:
                # Some may have gone in at a later try.
                left = {"failed": len(compared.failed_ids), "failed_ids": compared.failed_ids}
                self.state = state.model_copy(update=left)
                return since
        raise ApplicationError(_differs(compared), encode(compared), type="Differs", non_retryable=True)

    async def _catch_up(self, begun: GenerationBegun, since: datetime) -> tuple[RebuildState, datetime]:
        self._show("catching up")
        asked = CopyChanges(tenant=begun.tenant, generation=begun.generation, since=since)
        caught_up = await self._do("CopyChanges", asked, ChangesCopied)
        assert self.state is not None
        self.state = _with_failed(self.state, caught_up)
        return self.state, caught_up.since

    async def _promote(self, begun: GenerationBegun, since: datetime) -> Promoted:
        """Swap, and bring what a worker with the former settings wrote into the former generation alone."""
        self._show("swapping")
        asked = PromoteGeneration(tenant=begun.tenant, generation=begun.generation)
        promoted = await self._do("PromoteGeneration", asked, Promoted)
        await self._catch_up(begun, since)
        return promoted

    async def _do(self, activity: str, message: Message, answer: type[M]) -> M:
        told = await workflow.execute_activity(
            activity,
            encode(message),
            result_type=dict,
            start_to_close_timeout=ATTEMPT_LIMIT,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=RETRY,
            summary=self.stage,
        )
        return decode(answer, told, activity).message

    def _show(self, stage: str) -> None:
        self.stage = stage
        state = self.state
        assert state is not None
        failed = f", **{state.failed:,}** do not go in" if state.failed else ""
        where = f"generation {state.begun.generation} of {state.begun.index}"
        workflow.set_current_details(f"**{stage}** · {where} · **{state.items:,}** items copied{failed}")


def _accepted(raw: RawValue) -> StartProjectJournal:
    # Nothing has to be said: it may be started by hand, or on a schedule, without an input.
    return accept(raw, StartProjectJournal, "ProjectJournal").message if raw.payload.data else StartProjectJournal()


def _with_failed(state: RebuildState, copied: ItemsCopied | ChangesCopied) -> RebuildState:
    """Add what did not go in, each once; raise when it is more than can be named."""
    failed_ids = tuple(dict.fromkeys((*state.failed_ids, *copied.failed_ids)))
    if max(copied.failed, len(failed_ids)) > MOST_FAILED:
        raise ApplicationError(
            f"More than {MOST_FAILED} items do not go into the new generation, {failed_ids[0]} among them; the former "
            "one stays. The worker's log says why the index refuses them.",
            type="TooManyFailed",
            non_retryable=True,
        )
    return state.model_copy(update={"failed": len(failed_ids), "failed_ids": failed_ids})


def _differs(compared: GenerationCompared) -> str:
    named = "; ".join(compared.told[:3])
    return f"The new generation differs from what is on record in {counted(compared.differences, 'place')}: {named}"


def _result(state: RebuildState, promoted: Promoted) -> ProjectJournalResult:
    begun = state.begun
    return ProjectJournalResult(
        tenant=begun.tenant,
        index=begun.index,
        embedder=begun.embedder,
        generation=promoted.generation,
        items=state.items,
        kept=promoted.kept,
        failed=state.failed,
        failed_ids=state.failed_ids,
    )
