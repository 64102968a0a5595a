"""The live page of a step and of a run, as markdown for the Temporal UI. Pure; shows no error text and no prompt."""

from poimen.contracts.memory_calls import Analysis, AttemptRecord, BudgetLeft, ContextPackage
from poimen.contracts.run_io import StepSummary
from poimen.render import duration, plain
from poimen.step_state import Progress

_MOST_ROWS = 20


def step_details(progress: Progress) -> str:
    """Return the step's page: where it is, what each attempt came to, and what memory said."""
    parts = [_headline(progress), "", *_attempt_table(progress), ""]
    parts += [line for line in (_prevented(progress), _delivered(progress), _memory(progress)) if line]
    parts.append(f"**Left** {budget(progress.left)}")
    return "\n".join(parts)


def run_details(title: str, activity: str, steps: tuple[StepSummary, ...], left: BudgetLeft) -> str:
    """Return the run's page: one row a step execution."""
    rows = ["| step | visit | ended | attempts | seconds | why |", "| --- | --- | --- | --- | --- | --- |"]
    for step in steps[-_MOST_ROWS:]:
        why = _cell(step.reason)
        rows.append(
            f"| {_cell(step.step)} | {step.visit} | {step.end} | {step.attempts} | {step.seconds:.1f} | {why} |"
        )
    return "\n".join([f"**{plain(title)}** {plain(activity)}", "", *rows, "", f"**Left** {budget(left)}"])


def budget(left: BudgetLeft) -> str:
    """Say what is left, largest first: attempts, tokens, time."""
    parts = [] if left.attempts is None else [f"{left.attempts} attempt{'' if left.attempts == 1 else 's'}"]
    parts += [] if left.tokens is None else [f"{left.tokens} tokens"]
    parts += [] if left.time_seconds is None else [duration(left.time_seconds)]
    return ", ".join(parts) or "no limit"


def _headline(progress: Progress) -> str:
    name = f"**{plain(progress.spec.step)}**"
    if progress.end is not None:
        return f"{name} {progress.end}: {plain(progress.reason or '')}"
    number = len(progress.attempts) + 1
    of = len(progress.attempts) + (progress.left.attempts or 0)
    return f"{name} attempt {number} of {max(of, number)}, {plain(progress.activity)}"


def _attempt_table(progress: Progress) -> list[str]:
    rows = ["| attempt | outcome | seconds | signature | memory said |", "| --- | --- | --- | --- | --- |"]
    rows += [_attempt_row(record, progress.analysis) for record in progress.attempts[-_MOST_ROWS:]]
    if progress.end is None:
        rows.append(f"| {len(progress.attempts) + 1} | {plain(progress.activity)} | | | |")
    return rows


def _attempt_row(record: AttemptRecord, analysis: Analysis | None) -> str:
    outcome: str = record.outcome
    if record.outcome == "failed":
        outcome += f", exit {record.exit_code}" if record.exit_code is not None else f", {record.source}"
    cells = [
        str(record.attempt),
        outcome,
        f"{record.seconds:.1f}",
        _signature(record, analysis),
        _said(record),
    ]
    return f"| {' | '.join(cells)} |"


def _signature(record: AttemptRecord, analysis: Analysis | None) -> str:
    if not record.signature:
        return ""
    text = f"`{record.signature[:7]}…` {_cell(record.title or '')}"
    if analysis is not None and analysis.signature == record.signature and analysis.seen_before:
        runs = analysis.seen_before.runs
        text += f", seen in {runs} run{'' if runs == 1 else 's'}" if runs else ", first time"
    return text


def _said(record: AttemptRecord) -> str:
    if record.advice is None:
        return "" if record.outcome == "succeeded" else f"nothing; {_cell(record.next_move)}"
    repair = f" `{_cell(record.advice.repair)}`" if record.advice.repair else ""
    said = f"{record.advice.verdict}{repair}: {_cell(record.advice.because)}"
    return said if record.next_move.startswith("advice:") else f"{said} (not followed; {_cell(record.next_move)})"


def _prevented(progress: Progress) -> str:
    known = progress.prevention
    return f"**Prevented** `{plain(known.repair)}` ran first: {plain(known.because)}  " if known else ""


def _delivered(progress: Progress) -> str:
    package = progress.package
    if package is None:
        return ""
    counts = f"{_count(len(package.items), 'item')}, {_count(len(package.skills), 'skill')}"
    return f"**Delivered** {counts} (`{package.package_id[:12]}…`) · {_tiers(package)}  "


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
    return f"**Memory** answered again{kept}  " if kept else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _cell(text: str) -> str:
    return plain(text).replace("|", "\\|")[:200]
