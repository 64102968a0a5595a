"""Run one command for a step: prompt on its standard input, bounded excerpt and whole output back."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from executors.attempt_folder import AttemptFolder, attempt_folder
from executors.blobs import BlobStore, BlobWriter, tenant_store
from executors.excerpts import BothEnds
from executors.process import Ended, Launch, Stop, attend, in_thread, run
from executors.refusal import NotAllowed, named
from executors.reports import read_checkpoint, read_report
from executors.secret_values import Mask, resolve
from executors.settings import ExecutorSettings
from executors.workspace import find_cwd, find_workspace
from poimen.contracts.execution import CommandResult, OutputReference, RenderedContext, RunCommand, StepReport
from poimen.excerpts import BRIEF, HALF, THIRD, WHOLE
from poimen.render import fill


async def run_command(
    request: RunCommand, settings: ExecutorSettings, heartbeat: Callable[[], None] = lambda: None
) -> CommandResult:
    """Run the command to its end, with a heartbeat a second, and return how it ended.

    A request that this executor may not carry out is a result too (`not_allowed`). Cancelling ends the command with
    TERM, the grace period, then KILL, and raises CancelledError after it is gone. Raises OSError when the executor
    itself lacks what it needs to start a program.
    """
    stop = Stop()
    work = in_thread(lambda: _run(request, settings, stop))
    work.add_done_callback(lambda _: stop.close())
    return await attend(work, stop, heartbeat)


def _run(request: RunCommand, settings: ExecutorSettings, stop: Stop) -> CommandResult:
    try:
        if not settings.command_enabled:
            raise NotAllowed("the command executor is switched off here")
        cwd = find_cwd(find_workspace(request.workspace, settings), request.cwd)
        env, secret = resolve(request.env, settings)
        with attempt_folder(settings.state_dir) as folder:
            attempt = _Attempt(request, settings, folder, Mask(secret), tenant_store(settings, request.tenant))
            return attempt.run(cwd, dict(settings.base_environment) | env, stop)
    except NotAllowed as error:
        return CommandResult(end="not_allowed", detail=str(error))


@dataclass(frozen=True)
class _Attempt:
    request: RunCommand
    settings: ExecutorSettings
    folder: AttemptFolder
    mask: Mask
    store: BlobStore
    warnings: list[str] = field(default_factory=list)

    def run(self, cwd: Path, env: dict[str, str], stop: Stop) -> CommandResult:
        self._write_files()
        ends = BothEnds()
        writer = BlobWriter(self.folder.output, self.settings.output_limit_bytes)

        def take(data: bytes) -> None:
            ends.feed(data)
            writer.write(data)

        with closing(writer), self._stdin() as stdin:
            launch = self._launch(cwd, env | self._variables(), stdin)
            try:
                ended = run(launch, lambda data: take(self.mask.feed(data)), stop)
            except ValueError as error:
                raise NotAllowed(str(error)) from None
            take(self.mask.finish())
            return self._result(launch, ended, ends, writer)

    def _launch(self, cwd: Path, env: dict[str, str], stdin: int | None) -> Launch:
        return Launch(
            argv=self.request.argv,
            cwd=cwd,
            env=env,
            timeout_seconds=self.request.timeout_seconds,
            grace_seconds=self.settings.grace_seconds,
            stdin=stdin,
            mark=self.folder.mark,
        )

    def _write_files(self) -> None:
        context = self.request.context or RenderedContext()
        _write(self.folder.context, context.text)
        _write(self.folder.context_json, context.package or "{}")
        if self.request.checkpoint is not None:
            self._hand_over(self.request.checkpoint)

    def _hand_over(self, checkpoint: OutputReference) -> None:
        try:
            shutil.copyfile(self.store.find(checkpoint), self.folder.checkpoint)
        except OSError:
            self.warnings.append("the checkpoint of an earlier attempt cannot be read here; there is none now")

    def _variables(self) -> dict[str, str]:
        return {
            "POIMEN_RUN": self.request.run,
            "POIMEN_STEP": self.request.step,
            "POIMEN_ATTEMPT": str(self.request.attempt),
            "POIMEN_CONTEXT": str(self.folder.context),
            "POIMEN_CONTEXT_JSON": str(self.folder.context_json),
            "POIMEN_RESULT": str(self.folder.report),
            "POIMEN_CHECKPOINT": str(self.folder.checkpoint),
        }

    @contextmanager
    def _stdin(self) -> Iterator[int | None]:
        if self.request.stdin is not None:
            path = self.store.find(self.request.stdin)
        elif self.request.prompt is not None:
            # A file, because a pipe blocks as soon as the command does not read.
            path = self.folder.prompt
            _write(path, _filled(self.request.prompt, self.request.context))
        else:
            yield None
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _result(self, launch: Launch, ended: Ended, ends: BothEnds, writer: BlobWriter) -> CommandResult:
        output, warnings = writer.commit(self.store), self.warnings
        if writer.problem:
            warnings.append(writer.problem)
        if ended.leftovers:
            warnings.append(f"processes that outlived the command and were ended: {ended.leftovers}")
        report = read_report(self.folder.report, self.request.purpose, self.mask, warnings)
        outcome = _outcome(launch, ended)
        excerpt = ends.excerpt(*room_for(self.request, outcome, report))
        return outcome.model_copy(
            update={
                "head": excerpt.head,
                "tail": excerpt.tail,
                "binary": excerpt.binary,
                "output": output,
                "output_bytes": ends.size,
                "seconds": round(ended.seconds, 3),
                "report": report,
                "checkpoint": self._checkpoint(),
                "warnings": tuple(warnings),
            }
        )

    def _checkpoint(self) -> OutputReference | None:
        data = read_checkpoint(self.folder.checkpoint, self.mask, self.warnings)
        if data is None:
            return self.request.checkpoint
        try:
            return self.store.keep(data, self.folder.path / "kept")
        except OSError as error:
            self.warnings.append(f"the checkpoint was not kept: {error.strerror or 'it could not be written'}")
            return self.request.checkpoint


def room_for(request: RunCommand, outcome: CommandResult, report: StepReport | None) -> tuple[int, int]:
    """Return the bytes that a history has for both ends of an output: as much as what follows will read of it."""
    if request.brief or request.purpose == "repair":
        return BRIEF
    said = request.purpose in ("verify", "gate") or (report is not None and report.output)
    if outcome.exit_code == 0 and said:
        return BRIEF
    if request.purpose == "step":
        return WHOLE if report is None else THIRD
    return THIRD if request.purpose == "judge" else HALF


def _outcome(launch: Launch, ended: Ended) -> CommandResult:
    match ended.end:
        case "exited":
            return CommandResult(end="exited", exit_code=ended.value)
        case "signaled":
            detail = "the command's keeper was killed" if ended.keeper_lost else ""
            return CommandResult(end="signaled", signal=ended.value, detail=detail)
        case "timed_out":
            limit = f"{launch.timeout_seconds:g} s"
            return CommandResult(end="timed_out", detail=f"the command was ended after {limit}")
        case "cancelled":
            return CommandResult(end="cancelled", detail="the command was ended because it was cancelled")
        case "failed":
            return _not_started(launch, ended)


def _not_started(launch: Launch, ended: Ended) -> CommandResult:
    if ended.stage == "cwd":
        return CommandResult(end="not_allowed", detail="cwd cannot be entered on the executor")
    command = named("the command", launch.argv[0])
    if ended.value in (errno.ENOENT, errno.ENOTDIR):
        what = f"the interpreter of {command}" if _program(launch) else command
        return CommandResult(end="not_found", detail=f"{what} is not on the executor")
    reasons = {
        errno.EACCES: "is on the executor but is not executable",
        errno.ENOEXEC: "is on the executor but is not a program: it has no #! line",
        errno.E2BIG: "line is longer than the executor's system allows",
    }
    reason = reasons.get(ended.value or 0, f"could not be started: {os.strerror(ended.value or 0)}")
    return CommandResult(end="not_found", detail=f"{command} {reason}")


def _program(launch: Launch) -> str | None:
    name = launch.argv[0]
    if "/" in name:
        path = launch.cwd / name
        return str(path) if path.exists() else None
    return shutil.which(name, path=launch.env.get("PATH"))


def _filled(prompt: str, context: RenderedContext | None) -> str:
    # Without a context the text is material, as a judge's is, and names no placeholders.
    return prompt if context is None else fill(prompt, context)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")
