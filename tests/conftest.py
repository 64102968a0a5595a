"""Real servers for the tests: one PostgreSQL, one Temporal dev server, one OpenSearch a session, started on demand."""

import pytest

pytest_plugins = ("tests.fixtures_postgres", "tests.fixtures_temporal", "tests.fixtures_opensearch")

# Servers that are costly to start: what uses one runs in one process.
COSTLY = ("opensearch_server",)
# The first test with one waits until it is fetched, put together and started.
COSTLY_SECONDS = 400


# First, for xdist reads the groups in this hook too.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, which shares its servers among them, when they run side by side."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        called = getattr(item, "callspec", None)
        # What a fixture asks for by name is not among them; then the parameter "opensearch" stands for its server.
        stores = [value for value in called.params.values() if isinstance(value, str)] if called else []
        costly = [name for name in COSTLY if name in names or name.removesuffix("_server") in stores]
        item.add_marker(pytest.mark.xdist_group(costly[0] if costly else str(item.path)))
        if costly:
            item.add_marker(pytest.mark.timeout(COSTLY_SECONDS))
