"""The `poimen` command line."""

from worker.cli.entry import main

__all__ = ["main"]
