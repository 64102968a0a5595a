"""A worker with one empty workflow, for the stack to start."""

import asyncio
import os

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker


@workflow.defn
class Nothing:
    @workflow.run
    async def run(self) -> None:
        return


async def main() -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    await Worker(client, task_queue=os.environ["POIMEN_TASK_QUEUE"], workflows=[Nothing]).run()


if __name__ == "__main__":
    asyncio.run(main())
