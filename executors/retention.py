"""Remove stored outputs that an executor has kept long enough."""

import threading
import time
from pathlib import Path

from executors.blobs import alone_in, stored_outputs
from executors.settings import ExecutorSettings

_BETWEEN_SECONDS = 3_600.0
_DAY_SECONDS = 86_400.0


class Retention:
    """Sweeps one executor's stored outputs at most once an hour, beside its work."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._swept_at: float | None = None

    def sweep_if_due(self) -> threading.Thread | None:
        """Begin a sweep in a thread of its own, or return None when the last one was not long ago."""
        now = time.monotonic()
        if self._swept_at is not None and now - self._swept_at < _BETWEEN_SECONDS:
            return None
        self._swept_at = now
        before = time.time() - self._settings.output_days * _DAY_SECONDS
        # A daemon: half a sweep is no harm, and a worker that ends must not wait for one.
        thread = threading.Thread(target=sweep, args=(stored_outputs(self._settings), before), daemon=True)
        thread.start()
        return thread


def sweep(outputs: Path, before: float) -> int:
    """Remove the outputs last stored before an instant, in seconds since 1970; return how many.

    What cannot be looked at or removed stays until the next time.
    """
    removed = 0
    for folder in outputs.glob("*/*"):
        try:
            with alone_in(folder):
                removed += sum(_removed(path, before) for path in folder.iterdir())
        except OSError:
            continue
    return removed


def _removed(path: Path, before: float) -> bool:
    try:
        if path.stat().st_mtime >= before:
            return False
        path.unlink()
    except OSError:
        return False
    return True
