"""`poimen demo`: the demonstration, which is a package of its own."""

import argparse
import importlib


def run(arguments: argparse.Namespace) -> object:
    """Hand over to the demonstration."""
    return importlib.import_module("worker.demo.main").run(arguments)
