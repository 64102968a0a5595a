"""Real servers for the tests: one PostgreSQL, one Temporal dev server, one OpenSearch a session, started on demand."""

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ("tests.fixtures_postgres", "tests.fixtures_temporal", "tests.fixtures_opensearch")

# What a file says that uses a server which is costly to start.
COSTLY = re.compile(r"opensearch_server|opensearch_store|\bstore: Store\b|\"opensearch\"\)")
# The first test with one waits until it is fetched, put together and started.
COSTLY_SECONDS = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of a costly server the time that its start takes."""
    costly = {path for path in {item.path for item in items} if COSTLY.search(path.read_text())}
    for item in items:
        if item.path in costly:
            item.add_marker(pytest.mark.timeout(COSTLY_SECONDS))


class SideBySide(LoadScopeScheduling):
    """Keeps the tests of a file in one process, which shares its servers among them, and a costly server in one too."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "costly" if COSTLY.search((self.config.rootpath / file).read_text()) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SideBySide:
    """Share tests out as `SideBySide` does, when they run in more processes than one."""
    return SideBySide(config, log)
