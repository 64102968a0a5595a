"""`poimen migrate`: the database's schema."""

import argparse

from memory.postgres import migrate, pending
from worker.cli.output import print_json
from worker.found_stack import load_settings
from worker.options import PREFIX, SettingsError


async def run(arguments: argparse.Namespace) -> int:
    """Apply what is missing, as the owner of the schema, and name it."""
    dsn = load_settings().values["postgres_owner_dsn"]
    if not dsn:
        name = PREFIX + "POSTGRES_OWNER_DSN"
        raise SettingsError(f"{name} is not set; migrating needs the owner of the schema ({name}_FILE names a file).")
    names = await (pending(dsn) if arguments.dry_run else migrate(dsn))
    if arguments.json:
        print_json({"dry_run": arguments.dry_run, "migrations": names})
        return 0
    verb = "would be applied" if arguments.dry_run else "applied"
    print("\n".join(f"{name} {verb}" for name in names) or "The schema is up to date.")
    return 0
