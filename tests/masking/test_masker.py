import base64
import secrets
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.masking import Masker
from memory.masking.rules import RULES
from memory.masking.shapes import MARK
from tests.masking.secret_corpus import Corpus

MASKER = Masker(b"a key")

_FRAGMENTS = [
    *(planted.text for planted in Corpus(3).planted()),
    *(
        "password",
        "token",
        "=",
        ": ",
        '"',
        "'",
        "\\",
        " ",
        "\n",
        "://",
        "@",
        "[",
        "]",
        "[REDACTED:",
        "[REDACTED:token:0f3a]",
    ),
    *("Bearer ", "Cookie: ", "a", "1", "-u ", "eyJ", ".", ",", "<", ">", "\x00", "\ud800", "é"),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=12).map("".join))
def test_masking_masked_text_changes_nothing(text: str) -> None:
    once = MASKER.mask(text).text
    assert MASKER.mask(once).text == once


def test_equal_secrets_get_equal_marks_and_other_secrets_other_ones() -> None:
    one, other = Corpus(1).word(30), Corpus(2).word(30)
    marks = MARK.findall(MASKER.mask(f"token={one} token={other} token={one}").text)
    assert marks[0] == marks[2] != marks[1]


def test_another_key_gives_another_mark() -> None:
    text = f"token={Corpus(1).word(30)}"
    assert MASKER.mask(text).text != Masker(b"another key").mask(text).text


def test_a_finding_says_where_the_secret_stood() -> None:
    secret = Corpus(1).word(30)
    (finding,) = MASKER.mask(f"token={secret} rest").findings
    assert (finding.kind, finding.start, finding.end) == ("token", 6, 36)


@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda secret: quote(secret, safe=""),
        lambda secret: base64.b64encode(secret.encode()).decode(),
        lambda secret: base64.b64encode(f"user:{secret}".encode()).decode(),
        lambda secret: base64.urlsafe_b64encode(f"me:{secret}".encode()).decode(),
        lambda secret: secret.replace('"', '\\"'),
    ],
    ids=["plain", "url", "base64", "base64 with a user", "base64 at the third alignment", "json"],
)
def test_a_registered_secret_is_masked_however_it_is_written(write: Callable[[str], str]) -> None:
    secret = f'plain words/"and" {secrets.token_hex(6)}'
    written = write(secret)
    masked = Masker(b"k", [secret]).mask(f"before {written} after").text
    left = [written[at : at + 10] for at in range(4, len(written) - 14) if written[at : at + 10] in masked]
    assert left == []
    assert masked.startswith("before ")


def test_the_longer_of_two_registered_secrets_is_masked_whole() -> None:
    short = secrets.token_hex(8)
    long = short + secrets.token_hex(8)
    assert MARK.sub("", Masker(b"k", [short, long]).mask(f"<{long}>").text) == "<>"


def test_a_short_registered_value_masks_nothing() -> None:
    assert Masker(b"k", ["cat"]).mask("concatenate").text == "concatenate"


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "clientSecret",
        "api-key",
        "X-Api-Key",
        "Authorization",
        "token",
        "aws_secret_access_key",
        "PGPASSWORD_2",
    ],
)
def test_what_a_telling_name_holds_is_masked_whole(name: str) -> None:
    masked, findings = MASKER.mask_json({name: "just words"})
    assert MARK.fullmatch(masked[name])
    assert [finding.kind for finding in findings] == ["field"]


@pytest.mark.parametrize(
    "name", ["token_count", "idempotency_key", "key", "monkey", "tokens", "password_policy", "signature", "step"]
)
def test_what_another_name_holds_stays(name: str) -> None:
    assert MASKER.mask_json({name: "just words"}) == ({name: "just words"}, ())


def test_json_keeps_its_shape() -> None:
    value = {"attempt": 2, "ok": True, "none": None, "tokens": 1500, "list": [1.5, {"a": "b"}], "": ""}
    assert MASKER.mask_json(value) == (value, ())


def test_secrets_are_found_at_any_depth_and_in_names() -> None:
    secret = Corpus(1).word(30)
    masked, findings = MASKER.mask_json({"a": [{"b": f"token={secret}"}], f"token={secret}": 1})
    assert secret not in str(masked)
    assert len(findings) == 2


def test_the_argument_after_a_telling_flag_is_masked() -> None:
    masked, _ = MASKER.mask_json(["login", "--password", "words", "--user", "app"])
    assert masked[:2] == ["login", "--password"]
    assert MARK.fullmatch(masked[2])
    assert masked[3:] == ["--user", "app"]


@pytest.mark.parametrize("pattern", ["{}example{}", "$p{}7{}", "test{}", "{}secret", "my-{}9"])
def test_a_word_of_a_placeholder_inside_a_secret_does_not_save_it(pattern: str) -> None:
    secret = pattern.format(*(Corpus(6).word(6) for _ in range(2)))
    assert secret not in MASKER.mask(f"password={secret}").text


@pytest.mark.parametrize("name", ["pem RSA ", "pem cut off"])
def test_a_key_is_masked_to_its_end_and_no_further(name: str) -> None:
    (planted,) = (each for each in Corpus(4).planted() if each.name == name)
    masked = MASKER.mask(f"{planted.text}\nand the words behind it stay").text
    assert masked.endswith("\nand the words behind it stay")
    assert planted.secret not in masked


_HOSTILE = {
    "unclosed keys": "-----BEGIN RSA PRIVATE KEY-----\n",
    "long names": "password",
    "names and signs": "password=",
    "quotes": 'password="',
    "backslashes": 'token\\\\"',
    "token starts": "eyJ-",
    "dotted tokens": "eyJhbGciOiJIUzI1.",
    "addresses": "a://",
    "addresses with users": "://u:p",
    "flags": "--pass-",
    "spaces": "password        ",
    "vendor letters": "sk-npm_dapi",
    "bearers": "bearer basic ",
    "cookies": "cookie: ",
    "one letter": "a",
    "digits": "1234567890:AA",
    "marks": "[REDACTED:token:0f3a]",
    "words": "secret_secret-",
    "placeholders": "password=your-key-",
    "one long placeholder": "password=" + "testtoken" * 50 + "1 ",
}


def seconds(text: str) -> float:
    begun = time.process_time()
    MASKER.mask(text)
    return time.process_time() - begun


@pytest.mark.parametrize("piece", _HOSTILE.values(), ids=_HOSTILE)
def test_four_times_the_hostile_text_takes_about_four_times_as_long(piece: str) -> None:
    def best(size: int) -> float:
        return min(seconds((piece * size)[:size]) for _ in range(3))

    # 16 would be quadratic; 5 ms keep the noise of short runs from counting.
    assert best(80_000) <= 8 * best(20_000) + 0.005


def test_every_rule_is_reached_through_one_of_its_needles() -> None:
    texts = [planted.text for planted in Corpus(5).planted()]
    for rule in RULES:
        for text in texts:
            if rule.pattern.search(text):
                assert any(needle in text.lower() for needle in rule.needles), (rule.kind, text)
