"""Read what a command left for the harness: its report and its checkpoint. Nothing in them can fail an attempt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from executors.attempt_folder import read_file
from executors.secret_values import Mask
from poimen.contracts.execution import Purpose, StepReport
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput
from poimen.excerpts import cut_head, encoded_size

MOST_REPORT_BYTES = 256 * 1024
MOST_CHECKPOINT_BYTES = 64 * 1024
_MOST_WARNINGS = 3
_FIELDS = ("output", "lesson", "decision", "artifacts", "indexed", "changed_files")
# What a workflow's history takes of one report, as encoded JSON; the file itself may be larger.
_STEP_BYTES = {"output": 1024, "lesson": 1024, "decision": 512, "artifacts": 192, "indexed": 128, "changed_files": 160}
# Only a step's own report teaches, and of all others a judge's output alone is read.
_BYTES = {"step": _STEP_BYTES, "judge": {"output": 512}}


def read_report(path: Path, purpose: Purpose, mask: Mask, warnings: list[str]) -> StepReport | None:
    """Return the report, masked and cut to what a history takes; add a sentence for all that is wrong with it."""
    try:
        data = read_file(path, MOST_REPORT_BYTES)
    except OSError:
        warnings.append("the report is not a regular file and was ignored")
        return None
    if not data:
        return None
    if len(data) > MOST_REPORT_BYTES:
        warnings.append(f"the report is larger than {MOST_REPORT_BYTES:,} bytes and was ignored")
        return None
    try:
        decoded = decode(StepReport, data.decode("utf-8", "replace"), "The report")
    except InvalidInput as error:
        warnings.append(f"the report was ignored: {mask.text(str(error))}")
        return None
    warnings.extend(f"the report: {mask.text(warning)}" for warning in decoded.warnings[:_MOST_WARNINGS])
    return _cut(_masked(decoded.message, mask), _BYTES.get(purpose, {}), warnings)


def read_checkpoint(path: Path, mask: Mask, warnings: list[str]) -> bytes | None:
    """Return what is in the checkpoint, masked; None when there is nothing that could be used."""
    try:
        data = read_file(path, MOST_CHECKPOINT_BYTES)
        text = None if data is None else data.decode()
    except (OSError, UnicodeDecodeError):
        warnings.append("the checkpoint is not a UTF-8 text file; the one before it stays")
        return None
    # A command that is killed as it writes leaves an empty file.
    if not data or text is None:
        return None
    if len(data) > MOST_CHECKPOINT_BYTES:
        # Half a checkpoint would be worse than an old one.
        warnings.append(f"the checkpoint is larger than {MOST_CHECKPOINT_BYTES:,} bytes; the one before it stays")
        return None
    return mask.text(text).encode()


def _masked(report: StepReport, mask: Mask) -> StepReport:
    # Text by text, once it is read: JSON may write a character of a value in several ways.
    changes: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(report, name)
        if value is not None:
            changes[name] = mask.text(value) if isinstance(value, str) else tuple(mask.text(item) for item in value)
    return report.model_copy(update=changes)


def _cut(report: StepReport, limits: Mapping[str, int], warnings: list[str]) -> StepReport:
    changes: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(report, name)
        kept = _kept(value, limits.get(name, 0))
        if kept != value:
            changes[name] = kept
    if changes:
        warnings.append(f"the report was cut: {', '.join(changes)}")
    return report.model_copy(update=changes)


def _kept(value: str | tuple[str, ...] | None, limit: int) -> str | tuple[str, ...] | None:
    if value is None or not limit:
        return () if isinstance(value, tuple) else None
    if isinstance(value, tuple):
        return _fitting(value, limit)
    return cut_head(value, limit)


def _fitting(items: tuple[str, ...], limit: int) -> tuple[str, ...]:
    used = 0
    for number, item in enumerate(items):
        used += encoded_size(item) + 1
        if used > limit:
            return items[:number]
    return items
