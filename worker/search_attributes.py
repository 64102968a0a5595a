"""The search attributes that the workflows set: there, or made on a dev server, or asked for."""

from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from worker.exits import USAGE, ExitError
from worker.stack.temporal import SEARCH_ATTRIBUTES

_TYPES: Final = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
}


async def missing_search_attributes(client: Client) -> list[str] | None:
    """Return the names that the namespace does not know, or None when it does not tell (as a cloud may).

    Raises RPCError when the server or the namespace is not there.
    """
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status in {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED}:
            return None
        raise
    return [name for name in SEARCH_ATTRIBUTES if name not in known.custom_attributes]


async def ensure_search_attributes(client: Client) -> list[str]:
    """Make the missing ones on a dev server and return their names. Elsewhere raises ExitError with the command.

    Without them every workflow task of a harness fails and is tried for ever.
    """
    missing = await missing_search_attributes(client)
    if not missing:
        return []
    if not await _is_dev_server(client):
        lacking = f"The namespace {client.namespace} lacks search attributes"
        raise ExitError(f"{lacking}; run: {create_command(missing)}", USAGE)
    request = AddSearchAttributesRequest(
        namespace=client.namespace,
        search_attributes={name: _TYPES[SEARCH_ATTRIBUTES[name]] for name in missing},
    )
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        # Another worker that started at the same time may have been first.
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise
    return missing


def create_command(names: list[str]) -> str:
    """Return the command line that makes them."""
    parts = [f"--name {name} --type {SEARCH_ATTRIBUTES[name]}" for name in names]
    return f"temporal operator search-attribute create {' '.join(parts)}"


async def _is_dev_server(client: Client) -> bool:
    cluster = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    return cluster.persistence_store == "sqlite"
