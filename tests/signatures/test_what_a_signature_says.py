"""What a person and the advice read from a signature: kind, title, line, weakness and the wait a service asked for."""

import pytest

from memory.signatures import sign

MISSING_YAML = 'Traceback (most recent call last):\n  File "/a/b.py", line 1, in <module>\n    import yaml\n'
MISSING_YAML += "ModuleNotFoundError: No module named 'yaml'\n"


@pytest.mark.parametrize(
    ("text", "kind", "title"),
    [
        ("OSError: [Errno 98] Address already in use", "os_error", "address in use"),
        ("Error: listen EADDRINUSE: address already in use :::3000", "os_error", "address in use"),
        (MISSING_YAML, "module_missing", "no module yaml"),
        ("FileExistsError: [Errno 17] File exists: '/srv/run/deploy.lock'", "os_error", "file exists: deploy.lock"),
        ("HTTP/1.1 429 Too Many Requests\nRetry-After: 3", "http_429", "HTTP 429"),
        ("bash: line 3: jq: command not found", "command_missing", "no command jq"),
        ("cp: error writing 'x': No space left on device", "disk_full", "disk full"),
        ("dial tcp 10.0.0.3:5432: connect: connection refused", "network", "connection refused"),
        ("Error: Process completed with exit code 2.", "exit_code", "exit code 2"),
        ("thread 'main' panicked at src/main.rs:4:9:\nqueue closed", "rust_panic", "panicked: queue closed"),
        ("curl: (60) SSL certificate problem: certificate has expired", "tls", "certificate expired"),
    ],
)
def test_kind_and_title_say_what_happened(text: str, kind: str, title: str) -> None:
    signed = sign(text)
    assert (signed.kind, signed.title) == (kind, title)


def test_rate_limit_quota_and_context_length_are_three_failures() -> None:
    body = "openai.{}: Error code: {} - {{'error': {{'message': '{}', 'type': '{}', 'param': None, 'code': '{}'}}}}"
    limit = body.format(
        "RateLimitError", 429, "Rate limit reached. Please try again in 2s.", "tokens", "rate_limit_exceeded"
    )
    quota = body.format(
        "RateLimitError", 429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"
    )
    length = body.format(
        "BadRequestError",
        400,
        "maximum context length is 8192 tokens",
        "invalid_request_error",
        "context_length_exceeded",
    )
    signed = [sign(text) for text in (limit, quota, length)]
    assert len({one.key for one in signed}) == 3
    assert [one.kind for one in signed] == ["http_429", "quota", "context_length"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("HTTP/1.1 503 Service Unavailable\nRetry-After: 20", 20.0),
        ("Rate limit reached. Please try again in 644ms.", 0.644),
        ("Too many requests, retry after 20 seconds", 20.0),
        ('{"error": "slow down", "retry_after": 3}', 3.0),
        ('{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13s"}', 13.0),
        ("Try again in 7m12.5s", 432.5),
        ("x-retry-after-ms: 500", 0.5),
        ("Please wait 5 minutes before you try again", 300.0),
    ],
)
def test_the_wait_a_service_asks_for_is_read(text: str, seconds: float) -> None:
    assert sign(text).retry_after_seconds == seconds


@pytest.mark.parametrize(
    "text",
    [
        "Retrying in 5 seconds",
        "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT",
        "took 20 seconds",
        "retry after the next release",
    ],
)
def test_no_wait_is_made_up(text: str) -> None:
    assert sign(text).retry_after_seconds is None


@pytest.mark.parametrize(
    "text",
    [
        "Error: Process completed with exit code 1.",
        "npm ERR! code ELIFECYCLE",
        "make: *** [Makefile:3: build] Error 1",
        "error Command failed with exit code 1.",
        "subprocess.CalledProcessError: Command '['false']' returned non-zero exit status 1.",
        "ERROR: script returned exit code 1\nFinished: FAILURE",
        "everything is fine",
        "",
    ],
)
def test_a_text_that_names_no_cause_is_weak(text: str) -> None:
    assert sign(text).weak


def test_a_nested_cause_makes_a_wrapper_strong() -> None:
    text = "curl: (6) Could not resolve host: example.org\nmake: *** [Makefile:3: get] Error 6"
    signed = sign(text)
    assert not signed.weak
    assert signed.line_number == 1


def test_exit_codes_stay_apart() -> None:
    keys = {sign(f"Error: Process completed with exit code {code}.").key for code in (1, 2, 126, 127, 137)}
    assert len(keys) == 5


def test_the_telling_line_is_numbered_in_the_text_as_it_was_given() -> None:
    filler = "progress 1\n" * 200_000
    assert sign(f"{filler}ValueError: no region\n").line_number == 200_001


def test_the_line_and_the_masks_explain_the_key() -> None:
    signed = sign("starting\n2024-05-05T10:00:00Z ERROR could not open /srv/x/data.bin for order 4711 at 10.0.0.3:80\n")
    assert signed.line_number == 2
    assert signed.sample.startswith("ERROR could not open")
    assert signed.masked == {"address": 1, "number": 1, "path": 1}
    assert signed.template == "could not open data.bin for order <number> at <address>"


@pytest.mark.parametrize("words", range(8, 14))
def test_a_title_never_ends_inside_a_mask(words: int) -> None:
    title = sign(f"error: {'lock ' * words}held by 10.0.0.1:80 since 2024-05-05 10:00:00 for order 4711").title
    assert title.endswith("\u2026")
    assert title.count("<") == title.count(">")


def test_identity_is_shown_as_slots() -> None:
    slots = sign("E       fixture 'db_session' not found").slots
    assert ("name", "db_session") in slots


def test_relatives_share_a_family_and_strangers_do_not() -> None:
    first, second = sign("KeyError: 'region'"), sign("KeyError: 'zone'")
    assert first.key != second.key
    assert first.family == second.family
    assert sign("ValueError: 'zone'").family != first.family
    assert sign("Could not find gem 'pg'").family == sign("Could not find gem 'rails'").family
