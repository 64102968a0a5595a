"""Stopping a stack from outside."""

import asyncio
import os
import signal
from pathlib import Path

from worker.stack.state import Holder, StackError, StateFolder, is_held, read_holder

_POLL_SECONDS = 0.05


async def stop_holder(state_dir: Path, wait_seconds: float = 60.0) -> Holder | None:
    """Ask the process that holds a state folder to end, and wait until all of its children are gone too.

    Returns who held it, or None when nobody does. Raises `StackError` when it does not end in time.
    """
    root = StateFolder.at(state_dir).root
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + wait_seconds
    asked: Holder | None = None
    while is_held(root):
        if asked is None and (holder := read_holder(root)) is not None and _ask_to_end(holder):
            asked = holder
        if loop.time() > give_up_at:
            raise StackError(f"The stack in {root} did not end in {wait_seconds:g} s.")
        await asyncio.sleep(_POLL_SECONDS)
    return asked


def _ask_to_end(holder: Holder) -> bool:
    """Send SIGTERM if the process is still the one the lock names; tell whether it was sent."""
    try:
        if not hasattr(os, "pidfd_open"):  # elsewhere than on Linux the number may change owner in between
            if holder.is_alive():
                os.kill(holder.pid, signal.SIGTERM)
                return True
            return False
        descriptor = os.pidfd_open(holder.pid)
        try:
            if not holder.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise StackError(f"The stack is held by process {holder.pid} of another user.") from error
    return True
