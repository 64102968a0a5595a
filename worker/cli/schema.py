"""`poimen schema`: the JSON Schema of a definition."""

import argparse
import json

from poimen.schema import definition_schema


def run(arguments: argparse.Namespace) -> int:
    """Print it, indented unless one line is asked for."""
    print(json.dumps(definition_schema(), ensure_ascii=False, indent=None if arguments.json else 2))
    return 0
