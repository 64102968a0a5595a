"""`poimen worker`: one worker process."""

import argparse

from worker.options import PREFIX
from worker.process import run_worker
from worker.settings import Settings, environment


async def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM; settings come from the environment and the file it names, nothing else."""
    role = {PREFIX + "ROLE": arguments.role} if arguments.role else {}
    return await run_worker(Settings.load({**environment(), **role}))
