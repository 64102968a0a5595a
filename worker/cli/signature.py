"""`poimen signature`: the key of a failure or a log line, of one text or of many."""

import argparse
import json
import sys
from typing import Any

from memory.signatures import Signature, sign
from memory.signatures.signature import Profile
from worker.cli.output import print_json
from worker.cli.texts import given_text, without_secrets


class _BrokenLine(Exception):
    """A line that holds no text to sign; the message says why."""


def run(arguments: argparse.Namespace) -> int:
    """Sign standard input: as one text, or as JSON lines of which a broken one is told and passed over."""
    if arguments.jsonl:
        return _sign_lines(arguments.profile)
    signature = sign(without_secrets(given_text(None)), profile=arguments.profile)
    if arguments.json:
        print_json(_told(signature))
    else:
        print(signature.key)
    return 0


def _sign_lines(profile: Profile) -> int:
    code = 0
    for number, raw in enumerate(sys.stdin.buffer, 1):
        if not raw.strip():
            continue
        try:
            identity, text = _read(raw)
        except _BrokenLine as broken:
            print(f"line {number}: {broken}", file=sys.stderr)
            code = 1
            continue
        print_json({"id": identity, **_told(sign(without_secrets(text), profile=profile))})
    return code


def _read(raw: bytes) -> tuple[str | int | None, str]:
    """Return a line's id and text."""
    try:
        value: Any = json.loads(raw)
    except (ValueError, RecursionError):
        raise _BrokenLine("not valid JSON.") from None
    if not isinstance(value, dict):
        raise _BrokenLine('one JSON object with "id" and "text" is needed.')
    identity, text = value.get("id"), value.get("text")
    if not isinstance(text, str):
        raise _BrokenLine('"text" is missing.' if text is None else '"text" is not text.')
    if isinstance(identity, bool) or not isinstance(identity, str | int | None):
        raise _BrokenLine('"id" is neither text nor a whole number.')
    return _writable(identity) if isinstance(identity, str) else identity, _writable(text)


def _writable(text: str) -> str:
    """Return text that UTF-8 can hold: JSON may escape one half of a surrogate pair."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _told(signature: Signature) -> dict[str, str]:
    return {
        "signature": signature.key,
        "family": signature.family,
        "kind": signature.kind,
        "template": signature.template,
    }
