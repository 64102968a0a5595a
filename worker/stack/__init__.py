"""The local stack: a Temporal dev server, PostgreSQL and a worker as child processes of one program."""
