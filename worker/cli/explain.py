"""`poimen explain`: which line of an output makes its signature, what of it counts, and what is masked."""

import argparse
from collections.abc import Iterator
from typing import Any

from memory.signatures import Signature, sign
from memory.signatures.kinds import exception_type
from worker.cli.output import one_line, print_json
from worker.cli.texts import given_text, without_secrets

_LONGEST_LINE = 160


def run(arguments: argparse.Namespace) -> int:
    """Explain the signature of a file, or of standard input."""
    signature = sign(without_secrets(given_text(arguments.file)))
    if arguments.json:
        print_json(_as_json(signature))
        return 0
    where = f"line {signature.line_number}: {one_line(signature.sample, _LONGEST_LINE)}"
    print(f"{signature.key}  {signature.kind}  {where if signature.line_number else 'no line says anything'}")
    print(" · ".join(_parts(signature)))
    return 0


def _parts(signature: Signature) -> Iterator[str]:
    kept = _kept(signature)
    yield f"kept {', '.join(kept)}" if kept else "kept the words alone"
    if signature.masked:
        yield "masked " + ", ".join(f"{count} {_many(kind, count)}" for kind, count in signature.masked.items())
    if signature.weak:
        yield "weak: it says that something failed, not what"
    if signature.retry_after_seconds is not None:
        yield f"asks to wait {signature.retry_after_seconds:g} s"


def _kept(signature: Signature) -> list[str]:
    """Return what tells this failure from its relatives: the exception, codes, names, and what other lines add."""
    named = exception_type(signature.template)
    slots = [value if name in {"code", "name"} else f"{name} {value}" for name, value in signature.slots]
    return [one_line(value) for value in dict.fromkeys([*([named] if named else []), *slots])]


def _many(kind: str, count: int) -> str:
    if count == 1:
        return kind
    return f"{kind}es" if kind.endswith(("s", "x")) else f"{kind}s"


def _as_json(signature: Signature) -> dict[str, Any]:
    return {
        "signature": signature.key,
        "family": signature.family,
        "kind": signature.kind,
        "title": signature.title,
        "line_number": signature.line_number,
        "line": signature.sample,
        "template": signature.template,
        "kept": _kept(signature),
        "masked": dict(signature.masked),
        "weak": signature.weak,
        "retry_after_seconds": signature.retry_after_seconds,
    }
