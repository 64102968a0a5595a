"""Start a command, and end the process as the command ended."""

import asyncio
import importlib
import inspect
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn

from worker.cli.arguments import parse

_INTERRUPTED = 130
_TERMINATED = 143
_BROKEN_PIPE = 141


class _Terminated(BaseException):
    """SIGTERM came, and no command of its own took it."""


def main() -> NoReturn:
    """Run the command line of this process and end the process.

    It ends hard once everything is written: threads of the Temporal SDK that are still there when the interpreter
    winds down can abort it, and then its exit code would be lost.
    """
    code = _code_of(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = _BROKEN_PIPE
    os._exit(code)


def _code_of(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        return run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except _Terminated:
        return _TERMINATED
    except BrokenPipeError:
        return _BROKEN_PIPE


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; an expected error is told in sentences on standard error."""
    parsed = parse(arguments)
    if parsed.command is None:
        return _version() if parsed.version else 2
    try:
        answer: Any = importlib.import_module(f"worker.cli.{parsed.module}").run(parsed)
        return int(asyncio.run(_until_terminated(answer)) if inspect.iscoroutine(answer) else answer)
    except Exception as error:
        explained = importlib.import_module("worker.exits").explain(error)
        if explained is None:
            raise
        sentence, code = explained
        told = sentence if parsed.json else _in_lines(error, sentence)
        # It may quote what a file, a server or an argument said, and stands on a terminal.
        print(importlib.import_module("worker.cli.output").plain(told), file=sys.stderr)
        return int(code)


def _in_lines(error: Exception, sentence: str) -> str:
    refused = importlib.import_module("poimen.contracts.problems").InvalidInput
    return "\n".join(problem.reason for problem in error.problems) if isinstance(error, refused) else sentence


async def _until_terminated(answer: Coroutine[Any, Any, int]) -> int:
    """Let SIGTERM cancel a command as Ctrl-C does, so that it comes where the command waits and nowhere else."""
    task = asyncio.current_task()
    assert task is not None
    asked: list[int] = []

    def cancel() -> None:
        asked.append(signal.SIGTERM)
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, cancel)
    try:
        return await answer
    except asyncio.CancelledError:
        if asked:
            raise _Terminated from None
        raise


def _version() -> int:
    metadata = importlib.import_module("importlib.metadata")
    print(f"poimen-memory {metadata.version('poimen-memory')}")
    return 0


def _on_terminate(_number: int, _frame: object) -> None:
    raise _Terminated
