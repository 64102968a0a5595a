"""Code patterns: an artifact that distinct healthy runs share becomes a candidate, which waits for a person."""

from typing import Final

from memory.ids import item_id
from memory.items import NewItem
from memory.journal import EventKind, Origin
from memory.learning.wording import counted
from memory.postgres import Row, Transaction, load_queries
from memory.producers.keep import keep_item, shortened

SQL = load_queries(__package__, "artifacts.sql")
LEAST_RUNS: Final = 2
MOST_ARTIFACTS: Final = 20
MOST_MARKED: Final = 2_000
LONGEST_SAID: Final = 600


async def keep_code_patterns(tx: Transaction, scope: str, run: str) -> None:
    """Make a candidate of each marked artifact that a healthy run shares with another; none is active by itself."""
    for marked in await tx.rows(SQL["marked_artifacts"], scope=scope, run=run, limit=MOST_ARTIFACTS):
        artifact = marked["artifact"]
        runs = await tx.rows(SQL["healthy_runs"], scope=scope, artifact=artifact, limit=MOST_MARKED)
        if len(runs) >= LEAST_RUNS:
            await keep_item(tx, _candidate(scope, artifact, runs), EventKind.PATTERN_FOUND, Origin.MAINTENANCE)


def _candidate(scope: str, artifact: str, runs: list[Row]) -> NewItem:
    latest = max(runs, key=lambda row: row["position"])
    said = latest["payload"]
    words = [said.get("lesson"), said.get("result")]
    whose = f" of {latest['definition']}" if latest["definition"] else ""
    lines = [f"{artifact} was left by {latest['step'] or 'a step'}{whose} in {counted(len(runs), 'healthy run')}."]
    lines += [shortened(" ".join(text.split()), LONGEST_SAID) for text in words if text]
    return NewItem(
        id=item_id("pattern", "artifact", scope, artifact),
        scope=scope,
        kind="pattern",
        title=artifact,
        text="\n".join(lines),
        origin=Origin.MAINTENANCE.value,
        trust="unverified",
        state="quarantined",
        step=latest["step"],
        tags=("code", *said.get("tags", ())),
    )
