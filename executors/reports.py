"""Read what a command left for the harness: its report and its checkpoint. Nothing in them can fail an attempt."""

import json
from pathlib import Path
from typing import Any

from executors.attempt_folder import read_file
from executors.excerpts import cut_head, encoded_size
from executors.secret_values import Mask
from poimen.contracts.execution import StepReport
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput

MOST_REPORT_BYTES = 256 * 1024
MOST_CHECKPOINT_BYTES = 8 * 1024
# What a workflow's history takes of one report, as encoded JSON; the file itself may be larger.
_TEXT_BYTES = {"output": 4 * 1024, "lesson": 2 * 1024, "decision": 2 * 1024}
_LIST_BYTES = {"artifacts": 2 * 1024, "changed_files": 4 * 1024}


def read_report(path: Path, mask: Mask, warnings: list[str]) -> StepReport | None:
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
        decoded = decode(StepReport, mask.text(data.decode("utf-8", "replace")), "The report")
    except InvalidInput as error:
        warnings.append(f"the report was ignored: {error}")
        return None
    warnings.extend(f"the report: {warning}" for warning in decoded.warnings)
    return _cut(decoded.message, warnings)


def read_checkpoint(path: Path, before: str | None, mask: Mask, warnings: list[str]) -> str | None:
    """Return the checkpoint after the attempt; one that cannot be used leaves the one before it in force."""
    try:
        data = read_file(path, MOST_CHECKPOINT_BYTES)
        text = None if data is None else data.decode()
    except (OSError, UnicodeDecodeError):
        warnings.append("the checkpoint is not a UTF-8 text file; the one before it stays")
        return before
    if data is None or text is None:
        return before
    if max(len(data), encoded_size(text)) > MOST_CHECKPOINT_BYTES:
        # Half a checkpoint would be worse than an old one.
        warnings.append(f"the checkpoint is larger than {MOST_CHECKPOINT_BYTES:,} bytes; the one before it stays")
        return before
    return mask.text(text.replace("\0", "\u2400"))


def _cut(report: StepReport, warnings: list[str]) -> StepReport:
    changes: dict[str, Any] = {}
    for name, limit in _TEXT_BYTES.items():
        text = getattr(report, name)
        if text is not None and encoded_size(text) > limit:
            changes[name] = cut_head(text, limit)
    for name, limit in _LIST_BYTES.items():
        items = getattr(report, name)
        kept = _fitting(items, limit)
        if len(kept) < len(items):
            changes[name] = kept
    warnings.extend(f"the report: {name} was cut to {_limit(name):,} bytes" for name in changes)
    return report.model_copy(update=changes)


def _limit(name: str) -> int:
    return {**_TEXT_BYTES, **_LIST_BYTES}[name]


def _fitting(items: tuple[str, ...], limit: int) -> tuple[str, ...]:
    used = 0
    for number, item in enumerate(items):
        used += len(json.dumps(item)) + 1
        if used > limit:
            return items[:number]
    return items
