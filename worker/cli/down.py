"""`poimen down`: end the local stack from outside."""

import argparse

from worker.cli.output import print_json
from worker.stack.down import stop_holder


async def run(arguments: argparse.Namespace) -> int:
    """Ask the holder of the state folder to end, and wait until it and all it started are gone."""
    holder = await stop_holder(arguments.state)
    if arguments.json:
        print_json({"stopped": holder is not None, "pid": holder.pid if holder else None})
    else:
        print(f"The stack of process {holder.pid} ended." if holder else "No stack runs here.")
    return 0
