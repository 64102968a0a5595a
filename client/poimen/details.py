"""The live page of a step and of a run, as markdown for the Temporal UI. Pure; shows no output and no prompt."""

from collections import Counter

from poimen.contracts.memory_calls import Analysis, AttemptRecord, BudgetLeft, ContextPackage
from poimen.contracts.run_io import StepSummary
from poimen.render import budget_words, plain
from poimen.step_state import Progress

GAP = "\u00a0\u00a0"
_MOST_ROWS = 20
_MOST_WARNINGS = 3
_LONGEST_CELL = 200
# What would begin a link, an image, a tag, a code span or a table cell.
_ESCAPED = str.maketrans({mark: f"\\{mark}" for mark in "\\`[<|"})


def step_details(progress: Progress) -> str:
    """Return the step's page: where it is, what each attempt came to, and what memory said."""
    parts = [_headline(progress), "", *_attempt_table(progress), ""]
    told = (*_warnings(progress), _prevented(progress), _delivered(progress), _memory(progress))
    parts += [line for line in told if line]
    parts.append(f"**Left** {budget(progress.left)}")
    return "\n".join(parts)


def run_details(
    title: str, activity: str, steps: tuple[StepSummary, ...], left: BudgetLeft, warnings: tuple[str, ...] = ()
) -> str:
    """Return the run's page: one row a step execution."""
    rows = [_row("step", "visit", "ended", "attempts", "seconds", "why"), "| --- | --- | --- | --- | --- | --- |"]
    for step in steps[-_MOST_ROWS:]:
        told = (_cell(step.step), str(step.visit), step.end, str(step.attempts), f"{step.seconds:.1f}")
        rows.append(_row(*told, _cell(step.reason)))
    noted = [f"**Warning** {_cell(warning)}  " for warning in warnings[:_MOST_WARNINGS]]
    return "\n".join([f"**{_cell(title)}** {_cell(activity)}", "", *rows, "", *noted, f"**Left** {budget(left)}"])


def budget(left: BudgetLeft) -> str:
    """Say what is left: attempts, tokens, time."""
    return budget_words(left) or "no limit"


def _headline(progress: Progress) -> str:
    name = f"**{_cell(progress.spec.step)}**"
    if progress.end is not None:
        return f"{name} {progress.end}: {_cell(progress.reason, 2 * _LONGEST_CELL)}"
    number = len(progress.attempts) + 1
    left = progress.left.attempts
    of = "" if left is None else f" of {max(len(progress.attempts) + left, number)}"
    return f"{name} attempt {number}{of}, {_cell(progress.activity)}"


def _attempt_table(progress: Progress) -> list[str]:
    rows = [_row("attempt", "outcome", "seconds", "signature", "memory said"), "| --- | --- | --- | --- | --- |"]
    rows += [_attempt_row(record, progress.analysis) for record in progress.attempts[-_MOST_ROWS:]]
    if progress.end is None:
        rows.append(_row(str(len(progress.attempts) + 1), _cell(progress.activity), "", "", ""))
    return rows


def _attempt_row(record: AttemptRecord, analysis: Analysis | None) -> str:
    outcome: str = record.outcome
    if record.outcome == "failed":
        outcome += f", exit {record.exit_code}" if record.exit_code is not None else f", {record.source}"
    told = (str(record.attempt), outcome, f"{record.seconds:.1f}")
    return _row(*told, _signature(record, analysis), _said(record))


def _row(*cells: str) -> str:
    # The UI draws tables without space between columns.
    return "|" + "".join(f" {cell}{GAP} |" if cell else " |" for cell in cells)


def _signature(record: AttemptRecord, analysis: Analysis | None) -> str:
    if not record.signature:
        return ""
    text = f"{_code(record.signature[:7] + '…')} {_cell(record.title or '')}"
    if analysis is not None and analysis.signature == record.signature and analysis.seen_before:
        runs = analysis.seen_before.runs
        text += f", seen in {runs} run{'' if runs == 1 else 's'}" if runs else ", first time"
    return text


def _said(record: AttemptRecord) -> str:
    if record.advice is None:
        return "" if record.outcome == "succeeded" else f"nothing; {_cell(record.next_move)}"
    repair = f" {_code(record.advice.repair)}" if record.advice.repair else ""
    said = f"{record.advice.verdict}{repair}: {_cell(record.advice.because)}"
    return said if record.next_move.startswith("advice:") else f"{said} (not followed; {_cell(record.next_move)})"


def _warnings(progress: Progress) -> list[str]:
    known = [(record.attempt, warning) for record in progress.attempts for warning in record.warnings]
    return [f"**Warning** attempt {number}: {_cell(warning)}  " for number, warning in known[-_MOST_WARNINGS:]]


def _prevented(progress: Progress) -> str:
    known = progress.prevention
    return f"**Prevented** {_code(known.repair)} ran first: {_cell(known.because)}  " if known else ""


def _delivered(progress: Progress) -> str:
    package = progress.package
    if package is None:
        return ""
    kinds = Counter(item.kind for item in package.items)
    counts = [_count(number, kind) for kind, number in kinds.items()]
    counts += [_count(len(package.skills), "skill")] if package.skills else []
    return (
        f"**Delivered** {', '.join(counts) or 'nothing'} ({_code(package.package_id[:12] + '…')}) · {_tiers(package)}  "
    )


def _tiers(package: ContextPackage) -> str:
    said = (f"{t.tier} {t.elapsed_ms} ms" if t.status == "answered" else f"{t.tier} {t.status}" for t in package.tiers)
    return ", ".join(said)


def _memory(progress: Progress) -> str:
    if progress.spec.memory == "off":
        return "**Memory** off  "
    kept = f", {_count(progress.pending, 'record')} kept for later" if progress.pending else ""
    if progress.silent:
        return f"**Memory** lost, next try within 30 s{kept}  "
    if progress.spec.memory == "observe":
        return f"**Memory** observing: records, delivers nothing{kept}  "
    if kept:
        return f"**Memory** answered again{kept}  "
    return f"**Memory** refused {_cell(progress.refusal)}  " if progress.refusal else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _cell(text: str, most: int = _LONGEST_CELL) -> str:
    return plain(text[: 10 * most])[:most].translate(_ESCAPED)


def _code(text: str) -> str:
    # Inside a code span a backslash escapes nothing but the cell's end.
    return f"`{plain(text)[:_LONGEST_CELL].replace('`', chr(39)).replace('|', '¦')}`"
