"""The messages between the harness and its executors: claim one, run a command, ask a model."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from poimen.contracts.memory_calls import Count, Fingerprint, Seconds
from poimen.contracts.message import FreeText, Identifier, Many, Message, Name, Queue
from poimen.contracts.problems import refusal

CommandEnd = Literal["exited", "signaled", "timed_out", "cancelled", "not_found", "not_allowed"]
ModelEnd = Literal["answered", "refused", "timed_out", "unavailable", "not_configured"]
Purpose = Literal["step", "verify", "judge", "repair", "gate"]
Argument = Annotated[str, Field(max_length=131_072)]
RelativePath = Annotated[str, Field(max_length=4_096)]
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _checked_sha256(value: str) -> str:
    # It becomes a file's name on the executor.
    if not _SHA256.fullmatch(value):
        raise refusal("is no SHA-256: 64 of 0-9 and a-f are needed")
    return value


Sha256 = Annotated[str, AfterValidator(_checked_sha256)]


class RenderedContext(Message):
    """What memory hands to one attempt, as text, in parts and as JSON (at most 6 KiB each)."""

    text: FreeText = ""
    lessons: FreeText = ""
    skills: FreeText = ""
    budget: FreeText = ""
    # The context package as JSON text; a file of it is named in POIMEN_CONTEXT_JSON.
    package: FreeText = ""


class EnvironmentProbe(Message):
    """One source of the environment fingerprint: a command's output, a file's hash or a variable."""

    name: Name
    command: Many[Argument] | None = None
    file: RelativePath | None = None
    variable: str | None = None


class ClaimExecutor(Message):
    """Ask any executor to host a run: it answers with its own queue and the environment's fingerprint."""

    run: Identifier
    workspace: RelativePath | None = None
    environment: Many[EnvironmentProbe] = ()


class ExecutorClaim(Message):
    queue: Queue
    host: str
    workspace: str
    environment: Fingerprint = Field(default_factory=dict)
    warnings: Many[str] = ()


class OutputReference(Message):
    """A whole output in its executor's content-addressed store."""

    sha256: Sha256
    host: str
    bytes: Count


class RunCommand(Message):
    """Run one argv below the run's workspace; the prompt, or a stored output, goes to its standard input."""

    argv: Annotated[Many[Argument], Field(min_length=1, max_length=1_000)]
    run: Identifier
    step: Name
    # Whose store the output is kept in; one worker's callers that name none share one.
    tenant: Name | None = None
    attempt: int = 1
    purpose: Purpose = "step"
    workspace: RelativePath | None = None
    cwd: RelativePath | None = None
    prompt: FreeText | None = None
    # Goes to standard input in place of a prompt: what an earlier command of the run put out.
    stdin: OutputReference | None = None
    context: RenderedContext | None = None
    # Values of the form "env:NAME" are resolved by the executor against its allow-list.
    env: dict[str, str] = Field(default_factory=dict)
    timeout_seconds: Seconds = 600.0
    checkpoint: OutputReference | None = None
    # Nobody reads this output from the history; a few words of it are enough there.
    brief: bool = False


class StepReport(Message):
    """What a step wrote to the file named in POIMEN_RESULT."""

    output: FreeText | None = None
    lesson: FreeText | None = None
    decision: FreeText | None = None
    tokens: Count | None = None
    artifacts: Many[FreeText] = ()
    # Artifacts that may become knowledge of later runs; none does unless it is named here.
    indexed: Many[FreeText] = ()
    changed_files: Many[FreeText] = ()


class CommandResult(Message):
    end: CommandEnd
    exit_code: int | None = None
    signal: int | None = None
    # Head and tail of the merged output; bounded as encoded JSON: 2 KiB and 4 KiB for a step, less for all else.
    head: str = ""
    tail: str = ""
    output: OutputReference | None = None
    output_bytes: Count = 0
    binary: bool = False
    seconds: Seconds = 0.0
    report: StepReport | None = None
    # What is in force after the command; None when there never was one.
    checkpoint: OutputReference | None = None
    detail: str = ""
    warnings: Many[str] = ()


class RunModel(Message):
    """Ask a model that the executor's settings name."""

    model: Name
    prompt: FreeText
    run: Identifier
    step: Name
    tenant: Name | None = None
    attempt: int = 1
    purpose: Literal["step", "judge"] = "step"
    system: FreeText | None = None
    context: RenderedContext | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10**7)] | None = None
    timeout_seconds: Seconds = 600.0


class ModelResult(Message):
    end: ModelEnd
    text: str = ""
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    output: OutputReference | None = None
    status: int | None = None
    retry_after_seconds: Seconds | None = None
    seconds: Seconds = 0.0
    detail: str = ""
    warnings: Many[str] = ()


class ActivityWork(Message):
    """What a caller's own activity receives when a step names one."""

    run: str
    step: str
    attempt: int
    purpose: Literal["step", "verify", "judge", "gate"] = "step"
    prompt: str | None = None
    context: RenderedContext | None = None
    output: str | None = None


class ActivityAnswer(Message):
    """What a caller's own activity may answer; any other JSON counts as its output."""

    output: FreeText = ""
    passed: bool | None = None
    score: float | None = None
    tokens: Count = 0
    reason: FreeText = ""
