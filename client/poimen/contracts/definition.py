"""WorkflowDef: what a harness runs, with every field strict and unknown fields refused."""

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_serializer,
    model_validator,
)

from poimen.contracts.definition_checks import (
    MAX_STEPS,
    argv_refusal,
    definition_faults,
    env_refusal,
    path_refusal,
    size_faults,
    step_faults,
    variable_refusal,
)
from poimen.contracts.durations import Duration, TimeLimit
from poimen.contracts.message import ActivityName, FreeText, Many, Name, Number, Part, Queue, Scope, StepId
from poimen.contracts.problems import faults_found, quoted, refusal

LIBRARY = "@library"  # the scope that every scope of a tenant reads as well


def _checked_argv(value: tuple[str, ...]) -> tuple[str, ...]:
    if predicate := argv_refusal(value):
        raise refusal(predicate)
    return value


def _checked_path(value: str) -> str:
    if predicate := path_refusal(value):
        raise refusal(predicate)
    return value


def _checked_variable(value: str) -> str:
    if predicate := variable_refusal(value):
        raise refusal(predicate)
    return value


def _checked_env(value: dict[str, str]) -> dict[str, str]:
    if predicate := env_refusal(value):
        raise refusal(predicate)
    return value


Argv = Annotated[Many[str], AfterValidator(_checked_argv)]
RelativePath = Annotated[str, AfterValidator(_checked_path)]
Variable = Annotated[str, AfterValidator(_checked_variable)]
Env = Annotated[dict[str, str], AfterValidator(_checked_env)]

_ARGV = "The program and its arguments, one item each; no shell reads them."
_CWD = "The folder to run in, relative to the workspace; the workspace itself when left out."
_ENV = 'Environment variables by name; "env:NAME" takes the value from the executor when it runs.'


def _give_one(part: Part, *fields: str) -> None:
    given = [name for name in fields if getattr(part, name) is not None]
    if len(given) > 1:
        raise refusal(f"has {' and '.join(given)}; give only one")
    if not given:
        raise refusal(f"needs one of {quoted(fields)}")


class Budget(Part):
    """What may be spent; what is left out is not bounded."""

    attempts: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(None, description="Attempts in all.")
    tokens: Annotated[int, Field(ge=1, le=10**15)] | None = Field(None, description="Model tokens in all.")
    time: TimeLimit | None = Field(None, description="Wall-clock time in all.")


class Retry(Part):
    """The delays between attempts when memory has no better advice."""

    attempts: int = Field(4, ge=1, le=1000, description="Attempts, the first one included.")
    first_delay: Duration = Field(1_000, description="Wait before the second attempt.")
    factor: Number = Field(Decimal(2), ge=1, le=100, description="Each wait is this many times the one before.")
    longest_delay: Duration = Field(60_000, description="No wait is longer.")

    @model_validator(mode="after")
    def _delays_in_order(self) -> Self:
        if self.first_delay > self.longest_delay:
            raise refusal("has a first_delay above longest_delay (1m when left out)")
        return self


class ActivityCall(Part):
    """An activity of the caller's own."""

    name: ActivityName = Field(description="The activity's registered name.")
    queue: Queue | None = Field(None, description="Its task queue; the harness's own when left out.")
    start_within: TimeLimit = Field(300_000, description="It may wait this long in the queue for a worker.")


class Run(Part):
    """What a step does: exactly one of a command, a named model or an activity."""

    command: Argv | None = Field(None, description=_ARGV)
    model: Name | None = Field(None, description="A model by its name in the worker's settings.")
    activity: ActivityCall | None = Field(None, description="An activity of your own.")
    prompt: FreeText | None = Field(
        None,
        description="For a model the message, for a command its standard input; {{context}} is filled in.",
    )
    timeout: TimeLimit = Field(600_000, description="One attempt may take this long.")
    cwd: RelativePath | None = Field(None, description=_CWD)
    env: Env = Field({}, description=_ENV)
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, description="The most tokens a model may answer with."
    )

    @model_validator(mode="after")
    def _one_way_to_run(self) -> Self:
        _give_one(self, "command", "model", "activity")
        if self.model is not None and not self.prompt:
            raise refusal("has a model and no prompt")
        return self


class Check(Part):
    """Decides by exit code (0 passes) or an activity's answer; exactly one of them."""

    command: Argv | None = Field(None, description=_ARGV)
    activity: ActivityCall | None = Field(None, description="An activity of your own that answers.")
    timeout: TimeLimit = Field(600_000, description="One check may take this long.")
    cwd: RelativePath | None = Field(None, description=_CWD)
    env: Env = Field({}, description=_ENV)

    @model_validator(mode="after")
    def _one_way_to_check(self) -> Self:
        _give_one(self, "command", "activity")
        return self


class Judge(Part):
    """Scores a result from 0 to 1: exactly one of a command, a model with a rubric, or an activity."""

    command: Argv | None = Field(None, description=_ARGV)
    model: Name | None = Field(None, description="A model by its name in the worker's settings.")
    activity: ActivityCall | None = Field(None, description="An activity of your own that answers a score.")
    rubric: FreeText | None = Field(None, description="What the model judges by.")
    pass_: Number = Field(Decimal("0.5"), alias="pass", ge=0, le=1, description="The least score that passes.")
    timeout: TimeLimit = Field(600_000, description="One judgement may take this long.")
    cwd: RelativePath | None = Field(None, description=_CWD)
    env: Env = Field({}, description=_ENV)

    @model_validator(mode="after")
    def _one_way_to_judge(self) -> Self:
        _give_one(self, "command", "model", "activity")
        if self.model is not None and not self.rubric:
            raise refusal("has a model and no rubric")
        return self


class Repair(Part):
    """A command that may cure a failure of its step; memory chooses among a step's repairs."""

    id: StepId = Field(description="Its name, unique in the step.")
    command: Argv = Field(description=_ARGV)
    before: bool = Field(False, description="Whether it may run before a failure, to prevent it.")
    timeout: TimeLimit = Field(300_000, description="It may take this long.")
    cwd: RelativePath | None = Field(None, description=_CWD)
    env: Env = Field({}, description=_ENV)


class GoTo(Part):
    """On failure, go back to an earlier step, a bounded number of times."""

    go_to: StepId = Field(description="The id of the earlier step.")
    at_most: int = Field(ge=1, le=100, description="How often in a run; after that the run stops.")


def _failure_form(value: Any) -> str | None:
    if isinstance(value, GoTo | dict):
        return "way back"
    return "word" if isinstance(value, str) else None


OnFailure = Annotated[
    Annotated[Literal["stop", "skip"], Tag("word")] | Annotated[GoTo, Tag("way back")],
    Discriminator(
        _failure_form,
        custom_error_type="needed",
        custom_error_message="refused",
        custom_error_context={"kind": '"stop", "skip" or {go_to: …, at_most: …}'},
    ),
]
_ON_FAILURE = "What follows when it has failed for good: stop the run, skip it, or go back."


class Step(Part):
    """One unit of work, attempted until it is verified, its retry is used up or a budget ends."""

    id: StepId = Field(description="Its name, unique in the definition.")
    title: Annotated[FreeText, Field(max_length=200)] | None = Field(None, description="A line for people.")
    tool: Name = Field("executor", description="The role: planner, judge, implementer, verifier, executor, …")
    needs: Many[StepId] = Field(
        (),
        max_length=MAX_STEPS,
        description="Steps that must have ended first, by id; one that failed and is skipped has ended too.",
    )
    run: Run = Field(description="What the step does.")
    verify: Check | None = Field(None, description="Decides whether it succeeded.")
    judge: Judge | None = Field(None, description="Scores the result.")
    repairs: Many[Repair] = Field((), max_length=100, description="Commands that may cure a failure, in order.")
    retry: Retry | None = Field(None, description="Its own delays; the definition's when left out.")
    budget: Budget | None = Field(None, description="Its own bounds, inside the run's.")
    on_failure: OnFailure = Field("stop", description=_ON_FAILURE)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if faults := step_faults(self):
            raise faults_found(faults)
        return self


class Gate(Check):
    """A check after a phase, on what its steps made together."""

    on_failure: OnFailure = Field("stop", description=_ON_FAILURE)


class Phase(Part):
    """An ordered part of a run; its steps run in parallel where `needs` allows."""

    id: StepId = Field(description="Its name, unique in the definition.")
    title: Annotated[FreeText, Field(max_length=200)] | None = Field(None, description="A line for people.")
    steps: Many[Step] = Field(min_length=1, description="The steps, in any order.")
    gate: Gate | None = Field(None, description="A check after the steps.")


class EnvironmentSource(Part):
    """What a verdict depends on: a command's output, a file's content, or a variable ("env:NAME")."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    command: Argv | None = Field(None, description=_ARGV)
    file: RelativePath | None = Field(None, description="A file in the workspace, by content.")
    env: Variable | None = Field(None, description="A variable of the executor, by a hash of its value.")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not value.startswith("env:"):
            raise refusal('is no source; write {command: […]}, {file: …} or "env:NAME"')
        return {"env": value.removeprefix("env:")}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _give_one(self, "command", "file", "env")
        return self

    @model_serializer
    def _short(self) -> str | dict[str, Any]:
        if self.env is not None:
            return f"env:{self.env}"
        return {"command": list(self.command)} if self.command is not None else {"file": self.file}


def _checked_scope(value: str) -> str:
    if value == LIBRARY:
        raise refusal(f'is "{LIBRARY}", which is reserved; choose another')
    return value


class WorkflowDef(Part):
    """A whole harness: phases in order, each with its steps and a gate."""

    name: Name = Field(description="What the harness is called.")
    scope: Annotated[Scope, AfterValidator(_checked_scope)] = Field(
        description="Where memory is shared: an exact name of your own, 1 to 256 characters."
    )
    budget: Budget = Field(Budget(), description="Bounds of a whole run.")
    retry: Retry = Field(Retry(), description="Attempts and delays of steps that have no retry of their own.")
    environment: dict[Name, EnvironmentSource] = Field(
        {}, description="What a verdict depends on, gathered once a run."
    )
    phases: Many[Phase] = Field(min_length=1, description="The phases, in the order they run.")

    @model_validator(mode="before")
    @classmethod
    def _of_bounded_size(cls, value: Any) -> Any:
        # Before the parts are read: thousands of them would hold up the workflow that reads them.
        if faults := size_faults(value):
            raise faults_found(faults)
        return value

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if faults := definition_faults(self):
            raise faults_found(faults)
        return self
