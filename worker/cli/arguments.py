"""What each command takes. Imports nothing that is slow: `poimen --help` must answer at once."""

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn


@dataclass(frozen=True)
class Command:
    """One command: its module below `worker.cli`, its line of help, and its own arguments."""

    module: str
    about: str
    add: Callable[[argparse.ArgumentParser], None] = lambda _parser: None


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong, and where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")


def _state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", type=Path, default=Path(".poimen"), metavar="DIR", help="where its state is kept")


def _opensearch(parser: argparse.ArgumentParser) -> None:
    about = "run OpenSearch too, and look knowledge up there (needs a JDK of 21 or newer, and Maven the first time)"
    parser.add_argument("--opensearch", action="store_true", help=about)


def _up(parser: argparse.ArgumentParser) -> None:
    _state(parser)
    _opensearch(parser)
    parser.add_argument(
        "--workspace",
        type=Path,
        action="append",
        metavar="DIR",
        help="a folder below which commands may run; may be repeated (default: this folder)",
    )


def _worker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--role",
        choices=("memory", "executor", "all"),
        help="memory: workflows and memory; executor: commands and models; all: both (default: POIMEN_ROLE, or all)",
    )


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the definition: .yaml, .yml or .json")
    parser.add_argument("--id", help="the workflow id (default: the definition's name and a random ending)")
    parser.add_argument("--memory", choices=("on", "observe", "off"), default="on", help="observe records only")
    parser.add_argument("--workspace", metavar="DIR", help="where commands run, below an allowed root")
    parser.add_argument("--tenant", help="who owns what is learned (default: the worker's)")
    parser.add_argument("--no-wait", action="store_true", help="start it and return")


def _tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help="whose memory (default: POIMEN_DEFAULT_TENANT)")


def _migrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be applied, and apply nothing")


def _why(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN[/STEP]", help="a workflow id or a run id, and optionally one of its steps")
    _tenant(parser)


def _retire(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("item", metavar="ITEM", help="an item's id, as in les-7f3c21d0")
    parser.add_argument("--reason", default="", help="kept with the record")
    _tenant(parser)


def _accept(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("item", metavar="ITEM", help="a candidate's id, as in pat-7f3c21d0")
    parser.add_argument("--reason", default="", help="kept with the record")
    _tenant(parser)


def _signature(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", choices=("error", "log"), default="error", help="error: an output; log: one line")
    parser.add_argument("--jsonl", action="store_true", help='sign each line, {"id", "text"}, by itself')


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="an error output (default: standard input)")


def _alias(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("signature", nargs="?", metavar="SIG", help="a signature on record, or its beginning")
    parser.add_argument("stands_for", nargs="?", metavar="STANDS_FOR", help="the signature it is to stand for")
    parser.add_argument("--list", action="store_true", help="show what stands for what")
    parser.add_argument("--undo", metavar="SIG", help="let a signature stand for itself again")
    parser.add_argument("--scope", help="where (default: the one scope that has the signature)")
    parser.add_argument("--reason", default="", help="kept with the record")
    _tenant(parser)


def _search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="words, an error's text or a signature")
    parser.add_argument("--scope", help="the scope to search (default: all of the tenant's, one after the other)")
    parser.add_argument("--limit", type=_limit, default=10, metavar="N", help="at most N items (1 to 100)")
    _tenant(parser)


def _diagnose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="an error's text, or a signature (default: standard input)"
    )
    parser.add_argument("--scope", help="the scope to look in (default: all of the tenant's)")
    parser.add_argument("--step", help="the step it happened in, whose own evidence then comes first")
    parser.add_argument("--limit", type=_limit, default=5, metavar="N", help="at most N causes (1 to 100)")
    _tenant(parser)


def _repair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", metavar="RUN/STEP", help="a workflow id or a run id, and one of its steps that failed")
    parser.add_argument("--dry-run", action="store_true", help="needed: repairs are run by the harness alone")
    _tenant(parser)


def _rebuild(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", action="store_true", required=True, help="the index of knowledge (tier 2)")
    parser.add_argument("--tenant", help="whose (default: all of POIMEN_TENANTS)")


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help="whose (default: all of POIMEN_TENANTS)")


def _eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("retrieval", "cutoff"), help="the ranking, or what it answers with nothing")
    about = "a set (corpus.jsonl and queries.jsonl), or a folder of sets"
    parser.add_argument("folder", type=Path, metavar="DIR", help=about)
    about = "cutoff: sets whose questions have no answer in those of DIR"
    parser.add_argument("--against", type=Path, nargs="+", default=[], metavar="DIR", help=about)
    about = "the store to measure, with a tenant of its own that is taken away at the end (default: the one in use)"
    parser.add_argument("--index", choices=("pgvector", "opensearch"), help=about)
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="only these sets of DIR")
    about = "ask at most N questions of a set, the same ones each time (default: all; cutoff: 1000)"
    parser.add_argument("--most", type=_count, metavar="N", help=about)
    about = "keep vectors in this folder, and use those that are there"
    parser.add_argument("--vectors", type=Path, metavar="DIR", help=about)


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 1_000_000_000:
        raise argparse.ArgumentTypeError("a whole number from 1 on is needed")
    return number


def _limit(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("a whole number from 1 to 100 is needed")
    return number


def _runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_limit, default=10, metavar="N", help="the latest N runs (1 to 100)")


def _demo(parser: argparse.ArgumentParser) -> None:
    _state(parser)
    _opensearch(parser)


COMMANDS = {
    "up": Command("up", "run Temporal, PostgreSQL and a worker here until Ctrl-C", _up),
    "down": Command("down", "end the local stack that runs here", _state),
    "demo": Command("demo", "see it: a small release runs several times, and memory changes what happens", _demo),
    "run": Command("run", "run a definition and show what its steps came to", _run),
    "runs": Command("runs", "the latest runs and how they ended", _runs),
    "why": Command("why", "tell what memory knew, advised and why", _why),
    "search": Command("search", "look knowledge up", _search),
    "diagnose": Command("diagnose", "say what is behind an error that is pasted, and what ended it before", _diagnose),
    "repair": Command("repair", "show what memory would do if a step failed so again; runs nothing", _repair),
    "accept": Command("accept", "deliver a candidate from now on: you have read it, and it is right", _accept),
    "retire": Command("retire", "take a wrong item out of what is delivered", _retire),
    "signature": Command("signature", "the signature of an error output or of log lines", _signature),
    "explain": Command("explain", "which line of an output makes its signature, and what is masked", _explain),
    "alias": Command("alias", "let a signature stand for another, or undo it", _alias),
    "doctor": Command("doctor", "check everything that this depends on"),
    "verify": Command("verify", "compare journal, items, index and vault, and name every difference", _verify),
    "rebuild": Command("rebuild", "build the index anew beside the live one, compare it and swap", _rebuild),
    "eval": Command("evaluate", "measure how well a store's search finds what answers known questions", _eval),
    "worker": Command("serve", "run a worker", _worker),
    "migrate": Command("migrate", "bring the database to this version's schema", _migrate),
    "schema": Command("schema", "print the JSON Schema of a definition, for editors"),
}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line, with the command's module in `module`. Exits with 2 when it makes no sense."""
    parser = _Parser(prog="poimen", description="A memory for the steps of Temporal workflows.", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        added = commands.add_parser(name, help=command.about, description=command.about, allow_abbrev=False)
        added.add_argument("--json", action="store_true", help="print one JSON value, for programs")
        command.add(added)
        added.set_defaults(module=command.module)
    _check_name(parser, arguments)
    parsed = parser.parse_args(arguments)
    if parsed.command is None and not parsed.version:
        parser.print_help()
    return parsed


def _check_name(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name is None or name in COMMANDS:
        return
    close = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    shown = f'command "{name}"' if name.isprintable() and len(name) <= 64 else "command of that name"
    parser.error(f"no {shown}" + (f'; did you mean "{close[0]}"?' if close else "."))
