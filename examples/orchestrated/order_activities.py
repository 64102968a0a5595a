"""An ordinary activity of somebody's order system. It knows nothing of memory."""

import json
from pathlib import Path

from temporalio import activity


@activity.defn
async def make_plan(order: dict[str, str]) -> str:
    """Plan a delivery; the carrier's rates must have been downloaded before."""
    rates = json.loads(Path(order["rates"]).read_text())  # noqa: ASYNC240  because the file is tiny
    return f"ship {order['item']} for {rates['base']}"
