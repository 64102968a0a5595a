"""Real servers for the tests: one PostgreSQL and one Temporal dev server a session, started on demand."""

pytest_plugins = ("tests.fixtures_postgres", "tests.fixtures_temporal")
