"""A program that holds an OpenSearch until it is killed. Arguments: folder, HTTP port, port between nodes."""

import asyncio
import sys
from pathlib import Path

from tests.fixtures_opensearch import CACHE
from worker.stack.opensearch import OpenSearchPorts, opensearch_server


async def main() -> None:
    folder, http, transport = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    ports = OpenSearchPorts(http, transport)
    async with opensearch_server(
        folder / "server", ports=ports, log=folder / "log", cache=CACHE, short_lived=True
    ) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
