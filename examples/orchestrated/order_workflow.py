"""A workflow that existed before; the two lines marked `added` give its step a memory."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from order_activities import make_plan
    from poimen import Memory  # added

LIMIT = timedelta(seconds=10)
RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)


@workflow.defn
class Order:
    """Plans one order."""

    @workflow.run
    async def run(self, order: dict[str, str]) -> str:
        """Return the plan."""
        async with Memory(scope="acme/orders").step("plan") as step:  # added
            return await step.execute_activity(make_plan, order, start_to_close_timeout=LIMIT, retry_policy=RETRY)
