import json
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from executors.blobs import tenant_store
from executors.model import run_model
from executors.model_answer import retry_after_seconds
from executors.settings import ModelEndpoint
from poimen.contracts.execution import RenderedContext, RunModel

KEY = "sk-secret-0123456789"


class Endpoint(ThreadingHTTPServer):
    """A chat endpoint that answers every request with what the test put into it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), EndpointRequest)
        self.status, self.headers, self.body, self.asked = 200, {}, b"", []
        self.usage = {"prompt_tokens": 11, "completion_tokens": 7}
        self.release = threading.Event()
        self.release.set()

    def answers(self, text, **fields):
        self.body = json.dumps({"choices": [{"message": {"content": text}, **fields}], "usage": self.usage}).encode()


class EndpointRequest(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), json.loads(body)))
        self.server.release.wait(20)
        try:
            self.send_response(self.server.status)
            for name, value in self.server.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(self.server.body)))
            self.end_headers()
            self.wfile.write(self.server.body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        """Keep the test's output quiet."""


@pytest.fixture
def endpoint():
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def models(settings, endpoint):
    url = f"http://127.0.0.1:{endpoint.server_port}/v1/"
    return replace(settings, models={"small": ModelEndpoint(base_url=url, model="tiny-1", api_key=KEY)})


def ask(**fields):
    return RunModel(**({"model": "small", "prompt": "Plan it.", "run": "run-1", "step": "plan"} | fields))


async def test_a_model_answers_and_its_tokens_are_counted(endpoint, models):
    endpoint.answers("the plan")
    result = await run_model(ask(system="Be short.", max_tokens=50), models)
    assert (result.end, result.text, result.prompt_tokens, result.completion_tokens) == ("answered", "the plan", 11, 7)
    path, headers, body = endpoint.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "tiny-1",
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Plan it."}],
        "max_tokens": 50,
        "stream": False,
    }
    assert result.warnings == ()


async def test_the_smaller_token_limit_counts(endpoint, models):
    endpoint.answers("x")
    limited = replace(models, models={"small": replace(models.models["small"], max_tokens=20)})
    await run_model(ask(max_tokens=50), limited)
    await run_model(ask(), limited)
    assert [body["max_tokens"] for _, _, body in endpoint.asked] == [20, 20]


async def test_the_prompt_is_filled_with_the_context(endpoint, models):
    endpoint.answers("x")
    await run_model(ask(prompt="Plan.\n{{context}}", context=RenderedContext(text="KNOWN")), models)
    assert endpoint.asked[0][2]["messages"][0]["content"] == "Plan.\nKNOWN"


async def test_without_usage_the_tokens_are_estimated_and_said_to_be(endpoint, models):
    endpoint.body = json.dumps({"choices": [{"message": {"content": "four words of text"}}]}).encode()
    result = await run_model(ask(), models)
    assert result.prompt_tokens > 0
    assert result.completion_tokens > 0
    assert "estimated" in result.warnings[0]


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": -1, "completion_tokens": True}, {"prompt_tokens": "9"}])
async def test_odd_usage_counts_as_none(endpoint, models, usage):
    endpoint.usage = usage
    endpoint.answers("x")
    result = await run_model(ask(), models)
    assert result.end == "answered"
    assert "estimated" in result.warnings[0]


async def test_a_long_answer_is_cut_and_stored_whole(endpoint, models):
    text = "".join(f"line {number}\n" for number in range(50_000))
    endpoint.answers(text)
    result = await run_model(ask(), models)
    assert len(json.dumps(result.text)) < 6_400
    assert result.text.startswith("line 0\n")
    assert result.text.endswith("line 49999\n")
    path = tenant_store(models, None).find(result.output)
    assert path.read_text() == text


async def test_a_store_that_cannot_be_written_costs_only_the_whole_answer(endpoint, models):
    models.state_dir.write_text("a file where the folder should be")
    endpoint.answers("the plan")
    result = await run_model(ask(), models)
    assert (result.end, result.text, result.output) == ("answered", "the plan", None)
    assert "not in the store" in result.warnings[0]


async def test_an_answer_in_parts_is_joined(endpoint, models):
    endpoint.answers([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}])
    assert (await run_model(ask(), models)).text == "ab"


async def test_an_answer_that_ran_into_its_limit_says_so(endpoint, models):
    endpoint.answers("half", finish_reason="length")
    assert "token limit" in (await run_model(ask(), models)).warnings[0]


@pytest.mark.parametrize("status", [429, 503])
async def test_the_wait_a_service_asks_for_is_reported(endpoint, models, status):
    endpoint.status, endpoint.headers = status, {"Retry-After": "6"}
    result = await run_model(ask(), models)
    assert (result.end, result.status, result.retry_after_seconds) == ("unavailable", status, 6.0)


def test_a_date_to_wait_for_is_measured_by_the_services_own_clock():
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    headers = {"retry-after": format_datetime(now + timedelta(seconds=90), usegmt=True)}
    assert retry_after_seconds(headers, now) == 90.0
    skewed = headers | {"date": format_datetime(now + timedelta(seconds=60), usegmt=True)}
    assert retry_after_seconds(skewed, now) == 30.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "999999999"}, 86_400.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "6", "retry-after-ms": "250"}, 0.25),
    ],
)
def test_odd_waits_are_bounded_or_ignored(headers, seconds):
    assert retry_after_seconds(headers) == seconds


@pytest.mark.parametrize(
    ("status", "error", "end", "words"),
    [
        (401, {"message": "bad key"}, "refused", "refused the key"),
        (402, {"message": "pay"}, "refused", "quota"),
        (429, {"code": "insufficient_quota", "message": "plan"}, "refused", "quota"),
        (429, {"message": "slow down"}, "unavailable", "fewer requests"),
        (400, {"code": "context_length_exceeded", "message": "x"}, "refused", "longer than the model takes"),
        (400, {"message": "This model's maximum context is 8 tokens"}, "refused", "longer than the model takes"),
        (400, {"message": "bad field"}, "refused", "refused the request"),
        (404, {"message": "no model"}, "refused", "does not know"),
        (500, {"message": "boom"}, "unavailable", "not available"),
        (529, "overloaded", "unavailable", "overloaded"),
    ],
)
async def test_failures_are_told_apart(endpoint, models, status, error, end, words):
    endpoint.status, endpoint.body = status, json.dumps({"error": error}).encode()
    result = await run_model(ask(), models)
    assert (result.end, result.status) == (end, status)
    assert words in result.detail
    assert f"HTTP {status}" in result.detail


async def test_an_error_that_repeats_the_key_does_not_show_it(endpoint, models, caplog):
    caplog.set_level("DEBUG")
    endpoint.status = 401
    endpoint.body = json.dumps({"error": {"message": f"Incorrect key: {KEY}."}}).encode()
    result = await run_model(ask(), models)
    assert KEY not in result.model_dump_json() + repr(models)
    assert KEY not in caplog.text


async def test_a_huge_error_is_cut(endpoint, models):
    endpoint.status, endpoint.body = 500, json.dumps({"error": "é" * 1_000_000}).encode()
    assert len(json.dumps((await run_model(ask(), models)).detail)) < 700


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{",
        b"[" * 100_000,
        b"\xff",
        b'{"choices": []}',
        b'{"choices": 3}',
        b'{"choices": [{"message": {"content": null}}]}',
    ],
)
async def test_an_answer_that_makes_no_sense_is_not_an_answer(endpoint, models, body):
    endpoint.body = body
    result = await run_model(ask(), models)
    assert (result.end, result.text) == ("unavailable", "")
    assert result.detail


@pytest.mark.parametrize(
    "choice", [{"message": {"content": None, "refusal": "no"}}, {"message": {}, "finish_reason": "content_filter"}]
)
async def test_a_model_that_declines_is_told_apart(endpoint, models, choice):
    endpoint.body = json.dumps({"choices": [choice], "usage": endpoint.usage}).encode()
    result = await run_model(ask(), models)
    assert (result.end, result.prompt_tokens) == ("refused", 11)


async def test_a_body_beyond_the_bound_is_not_read(endpoint, models, monkeypatch):
    monkeypatch.setattr("executors.model.MOST_BODY_BYTES", 10_000)
    endpoint.answers("x" * 20_000)
    result = await run_model(ask(), models)
    assert (result.end, result.detail) == ("refused", "the answer is larger than 10,000 bytes")


async def test_a_slow_model_times_out(endpoint, models):
    endpoint.release.clear()
    result = await run_model(ask(timeout_seconds=0.2), models)
    assert (result.end, result.detail) == ("timed_out", "no complete answer within 0.2 s")


async def test_an_endpoint_that_is_not_there_is_unavailable(models):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        result = await run_model(ask(), replace(models, models={"small": ModelEndpoint(url, "tiny-1")}))
    assert (result.end, result.detail) == ("unavailable", "the model's endpoint could not be reached")


@pytest.mark.parametrize("url", ["", "no url", "ftp://127.0.0.1", "http://[", "http://user:pass@"])
async def test_a_base_url_that_is_none_is_a_result(models, url):
    result = await run_model(ask(), replace(models, models={"small": ModelEndpoint(url, "tiny-1")}))
    assert result.end == "unavailable"
    assert "pass" not in result.detail


async def test_a_key_that_no_header_can_hold_is_a_result(models):
    odd = replace(models.models["small"], api_key="schlüssel\n")
    result = await run_model(ask(), replace(models, models={"small": odd}))
    assert (result.end, result.text) == ("refused", "")
    assert "characters" in result.detail


async def test_a_model_that_is_not_configured_names_those_that_are(models):
    result = await run_model(ask(model="large"), models)
    assert (result.end, result.detail) == (
        "not_configured",
        'the model "large" is not configured on the executor; configured: "small"',
    )


@pytest.mark.parametrize(
    "proxy", ["ftp://user:hunter2@proxy:1", "proxy", "http://user:hunter2@proxy:none", "socks9://user:hunter2@proxy:1"]
)
async def test_a_proxy_that_cannot_be_used_is_a_result(models, proxy):
    limits = replace(models, models={"small": replace(models.models["small"], proxy=proxy)})
    result = await run_model(ask(), limits)
    assert result.end == "not_configured"
    assert result.detail == "the model's proxy is not one the executor can speak to"
