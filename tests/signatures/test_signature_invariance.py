"""What carries an output, and where it ran, is no part of a failure."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.masking import Masker
from memory.signatures import Signature, error_signature, log_signature, sign

DATA = Path(__file__).parent / "data"
TEXTS = list(
    {
        row["class"]: row["text"]
        for name in ("ran_outputs.jsonl", "written_outputs.jsonl", "further_outputs.jsonl")
        for row in map(json.loads, (DATA / name).read_text(encoding="utf-8").splitlines())
    }.values()
)
a_text = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=400)
PIECES = [
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in f',
    "KeyError: 'x'",
    "\tat a.b(C.java:1)",
    "E   assert 1",
    "error: ",
    "exit code 1",
    '{"message": "',
    "panic: ",
    "goroutine 1 [running]:",
    "npm ERR! code E404",
    "\x1b[31m",
    "\x00",
    "\ud800",
    "Caused by: ",
    "--> a.rs:1:2",
    "\u25cf a",
    "FAIL a > b",
    "1) a",
    "* What went wrong:",
    "\r\n",
    "\n",
    " ",
    "'",
    '"',
    "`",
    "C:\\x",
    "/a/b",
]
a_shaped_text = st.lists(st.sampled_from(PIECES), max_size=25).map("\n".join)


def each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


CARRIERS: dict[str, Callable[[str], str]] = {
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "colour": each_line(lambda line: f"\x1b[31m{line}\x1b[0m"),
    "coloured words": lambda text: re.sub(r"(?i)\b(error|failed)\b", "\x1b[1;31m\\1\x1b[0m", text),
    "time stamps": each_line(lambda line: f"2024-05-01T10:11:12.345Z {line}"),
    "bracketed time stamps": each_line(lambda line: f"[2024-05-01 10:11:12] {line}"),
    "container names": each_line(lambda line: f"web-1  | {line}"),
    "build steps": each_line(lambda line: f"#12 3.456 {line}"),
    "an indent": each_line(lambda line: f"    {line}"),
    "blank lines around": lambda text: f"\n\n{text}\n\n",
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_carries_an_output_changes_no_signature(carrier: str) -> None:
    changed = [text[:80] for text in TEXTS if error_signature(CARRIERS[carrier](text)) != error_signature(text)]
    assert changed == []


def test_another_folder_changes_no_signature() -> None:
    text = 'Traceback (most recent call last):\n  File "{0}/app.py", line {1}, in <module>\n    open("{0}/conf")\n'
    text += "FileNotFoundError: [Errno 2] No such file or directory: '{0}/conf/settings.yaml'"
    assert error_signature(text.format("/srv/a", 3)) == error_signature(text.format("C:\\work\\b", 411))


@pytest.mark.parametrize(
    "text",
    [
        "remote: invalid token {}",
        "fatal: could not connect to postgres://app:{}@db.example.com:5432/app",
        "Error: Incorrect API key provided: {}.",
        'requests.exceptions.HTTPError: 401 for header "Authorization: Bearer {}"',
    ],
)
@pytest.mark.parametrize("sign_by", [error_signature, log_signature])
def test_a_masked_secret_of_another_value_changes_no_signature(text: str, sign_by: Callable[[str], str]) -> None:
    secrets = ("ghp_" + "a1B2" * 9, "ghp_" + "3cD4" * 9)
    masked = {Masker(b"a key").mask(text.format(secret)).text for secret in secrets}
    assert len(masked) == 2
    assert len({sign_by(one) for one in masked}) == 1


def test_a_wrapper_around_an_output_does_not_hide_its_cause() -> None:
    cause = "src/cart.ts(14,7): error TS2304: Cannot find name 'total'."
    wrapped = (
        f"> tsc -p .\n{cause}\nnpm ERR! code ELIFECYCLE\nnpm ERR! errno 2\nmake: *** [Makefile:3: build] Error 2\n"
    )
    wrapped += "Error: Process completed with exit code 2."
    assert error_signature(wrapped) == error_signature(cause)


def test_an_excerpt_with_the_telling_line_signs_like_the_whole() -> None:
    frames = "".join(f'  File "/srv/app/m{n}.py", line {n}, in call\n    go()\n' for n in range(400))
    whole = f"Traceback (most recent call last):\n{frames}ValueError: no region for 'eu-west'\n"
    excerpt = f"{whole[:2048]}\n[13000 bytes left out]\n{whole[-4096:]}"
    assert error_signature(excerpt) == error_signature(whole)


@given(a_text | a_shaped_text)
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_signed(text: str) -> None:
    signed = sign(text)
    assert re.fullmatch(r"s2:[0-9a-f]{32}", signed.key)
    assert re.fullmatch(r"f1:[0-9a-f]{32}", signed.family)
    assert signed.key == error_signature(text)
    assert len(signed.title) <= 60
    assert signed.line_number is None or 1 <= signed.line_number <= len(re.split("\r\n?|[\n\x85\u2028\u2029]", text))
    assert sign(text, profile="log").key == log_signature(text)


@given(st.sampled_from(TEXTS), st.integers(1, 9), st.integers(0, 59), st.sampled_from(["\x1b[2m", "\x1b[38;5;9m", ""]))
@settings(max_examples=150, deadline=None)
def test_carriers_of_any_kind_can_be_stacked(text: str, container: int, second: int, colour: str) -> None:
    carried = "\r\n".join(
        f"{colour}api-{container} | 2024-05-01T10:11:{second:02d}Z {line}\x1b[0m" for line in text.split("\n")
    )
    assert error_signature(carried) == error_signature(text)


@given(st.sampled_from(TEXTS))
@settings(max_examples=50, deadline=None)
def test_signing_is_a_function_of_the_text_alone(text: str) -> None:
    first: Signature = sign(text)
    assert sign(text) == first
