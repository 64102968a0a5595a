"""A program that holds a local stack until SIGTERM: what `poimen up` is, without the command line.

Arguments: state folder, then optionally the script of a worker. Prints one JSON line when ready.
"""

import asyncio
import signal
import sys
from pathlib import Path

from worker.stack.state import StackError
from worker.stack.up import local_stack


def shipped_vault(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "starter.md").write_text("# Starter\n")
    return folder


def report(name: str, detail: str, seconds: float) -> None:
    print(f"{name}: {detail}, {seconds:.1f} s", file=sys.stderr)


async def main() -> int:
    vault = shipped_vault(Path(sys.argv[1] + "-shipped-vault"))
    worker_argv = [sys.executable, *sys.argv[2:]]
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    try:
        async with local_stack(
            Path(sys.argv[1]),
            vault_source=vault,
            start_worker=len(sys.argv) > 2,
            worker_argv=worker_argv,
            progress=report,
            warn=lambda sentence: print(sentence, file=sys.stderr),
        ) as addresses:
            print(addresses.to_json(), flush=True)
            await done.wait()
    except StackError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


sys.exit(asyncio.run(main()))
