"""Run one order against a running stack (`make up`): python examples/orchestrated/main.py RATES_FILE"""

import asyncio
import os
import sys
import uuid

from temporalio.client import Client, WorkflowFailureError
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from order_activities import make_plan
from order_workflow import Order

# poimen is passed through the sandbox: it holds no state, and reloading it for each workflow costs time.
RUNNER = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("poimen"))


async def main(rates: str) -> int:
    """Start a worker of our own beside memory's, run one order, print its plan or its failure."""
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    queue = "orders"
    async with Worker(client, task_queue=queue, workflows=[Order], activities=[make_plan], workflow_runner=RUNNER):
        handle = await client.start_workflow(
            Order.run, {"item": "chair", "rates": rates}, id=f"order-{uuid.uuid4().hex[:8]}", task_queue=queue
        )
        print(handle.id)
        try:
            print(await handle.result())
        except WorkflowFailureError as error:
            print(f"failed: {error.cause}")
            return 1
    return 0


if __name__ == "__main__":
    code = asyncio.run(main(sys.argv[1]))
    sys.stdout.flush()
    # An interpreter that finalises while the SDK's threads end may abort; a short script leaves at once.
    os._exit(code)
