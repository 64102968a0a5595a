"""Run one order against a running stack (`make up`): python examples/orchestrated/main.py RATES_FILE"""

import asyncio
import logging
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
    try:
        client = await Client.connect(**ClientConfig.load_client_connect_config())
    except RuntimeError:  # what the SDK raises when nobody listens at the address
        sys.exit("Temporal does not answer; set TEMPORAL_ADDRESS to what `make up` printed.")
    queue = "orders"
    async with Worker(client, task_queue=queue, workflows=[Order], activities=[make_plan], workflow_runner=RUNNER):
        handle = await client.start_workflow(
            Order.run, {"item": "chair", "rates": rates}, id=f"order-{uuid.uuid4().hex[:8]}", task_queue=queue
        )
        print(handle.id)
        try:
            print(await handle.result())
        except WorkflowFailureError as error:
            print(f"failed: {root_cause(error)}")
            return 1
    return 0


def root_cause(error: BaseException) -> str:
    """Return what went wrong in the activity, under the layers that Temporal wraps around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)  # of an activity's error, its type is part


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # The SDK logs each failed attempt with its stack; the history of the workflow has them all.
    logging.getLogger("temporalio").setLevel(logging.ERROR)
    code = asyncio.run(main(sys.argv[1]))
    sys.stdout.flush()
    # An interpreter that finalises while the SDK's threads end may abort; a short script leaves at once.
    os._exit(code)
