"""Failures of OpenAI-compatible servers: what is tried again, and what is told."""

from __future__ import annotations

import asyncio
import socket
import time
from email.utils import formatdate

import pytest
from model_requests import ask, user
from model_servers import Answer, json_answer

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.models import OpenAIModel
from orchestrator.models import openai as module

OK = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}


@pytest.fixture
def waits(monkeypatch):
    """The waits between tries, which are noted instead of waited."""
    noted: list[float] = []

    async def asleep(seconds):
        noted.append(seconds)

    monkeypatch.setattr(module, "_sleep", noted.append)
    monkeypatch.setattr(module, "_asleep", asleep)
    return noted


def both(model):
    """The reply to a synchronous and an asynchronous caller."""
    return model.complete(ask()), asyncio.run(model.acomplete(ask()))


def refusal(status, message="as it says", headers=None, **members):
    return json_answer({"error": {"message": message, **members}}, status, **(headers or {}))


def failure_of(model, request=None) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        model.complete(request or ask())
    return caught.value


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_three_refusals_and_then_an_answer_are_an_answer(serve, waits, status):
    busy, ok = refusal(status), json_answer(OK)
    server = serve(busy, busy, busy, ok, busy, busy, busy, ok)
    sync, asynchronous = both(OpenAIModel("m", server.url))
    assert sync.text == asynchronous.text == "ok"
    assert len(server.asked) == 8
    assert len(waits) == 6
    assert all(0 < wait <= 2 for wait in waits)
    assert waits[0] < waits[2]


def test_the_wait_is_what_the_server_asks_for(serve, waits):
    in_a_minute = formatdate(time.time() + 40, usegmt=True)
    server = serve(
        refusal(429, headers={"Retry-After": "17"}),
        refusal(429, headers={"Retry-After": in_a_minute}),
        refusal(429, headers={"Retry-After": "soon"}),
        json_answer(OK),
    )
    OpenAIModel("m", server.url).complete(ask())
    assert waits[0] == 17
    assert 10 < waits[1] <= 40  # less by what the machine took; the usual wait is 2 at most
    assert waits[2] <= 2


@pytest.mark.parametrize(
    ("options", "retry_after", "tries"),
    [({"max_attempts": 2}, "1", 2), ({"deadline": 10}, "11", 1), ({}, "3600", 1)],
)
def test_tries_end(serve, waits, options, retry_after, tries):
    server = serve(refusal(429, "slow down", {"Retry-After": retry_after}))
    failure = failure_of(OpenAIModel("m", server.url, **options))
    assert type(failure) is ThrottlingError
    assert "slow down" in failure.message
    assert len(server.asked) == tries


@pytest.mark.parametrize(
    ("status", "error", "hint"),
    [
        (400, ValidationError, "as it says"),
        (401, AccessDenied, "OPENAI_API_KEY"),
        (403, AccessDenied, "OPENAI_API_KEY"),
        (404, ResourceNotFound, "no model 'm'"),
        (422, ValidationError, "as it says"),
        (501, DependencyFailed, "as it says"),
        (302, DependencyFailed, "HTTP 302"),
    ],
)
def test_each_status_has_its_error_and_is_asked_once(serve, waits, status, error, hint):
    server = serve(refusal(status))
    failure = failure_of(OpenAIModel("m", server.url))
    assert type(failure) is error
    assert hint in failure.message
    assert len(server.asked) == 1


def test_a_model_that_is_still_loading_is_not_ready(serve, waits):
    failure = failure_of(OpenAIModel("m", serve(refusal(503, "Loading model")).url))
    assert type(failure) is ModelNotReady


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": "as text"}', b'{"detail": 3}'])
def test_an_error_in_any_shape_is_reported(serve, waits, body):
    failure = failure_of(OpenAIModel("m", serve(Answer(body, 418)).url))
    assert type(failure) is ValidationError


@pytest.mark.parametrize(
    "body", [b"<h1>Bad Gateway</h1>", b"", b"{}", b'{"error": {"message": ""}}']
)
@pytest.mark.parametrize(
    ("status", "words"), [(502, "failed (HTTP 502)"), (429, "refused more requests for now")]
)
def test_an_error_that_says_nothing_names_the_server(serve, waits, body, status, words):
    url = serve(*[Answer(body, status)] * 9).url
    message = str(failure_of(OpenAIModel("m", base_url=url)))
    named = f"the server of the model 'openai:m' at {url}/chat/completions {words}"
    assert message.startswith(named) and message.endswith(": no reason given")


def test_a_server_that_is_not_there_is_reported_at_once(waits):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # nobody else gets it meanwhile
        model = OpenAIModel("m", f"http://user:canary@127.0.0.1:{port}/v1")
        failure = failure_of(model)
    assert type(failure) is DependencyFailed
    assert f"127.0.0.1:{port}" in failure.message
    assert "canary" not in failure.message
    assert not waits


def test_an_answer_that_breaks_off_is_asked_for_again(serve, waits):
    server = serve(Answer([b'{"choices'], cut=True), json_answer(OK))
    assert OpenAIModel("m", server.url).complete(ask()).text == "ok"
    assert len(server.asked) == 2


def test_a_slow_answer_is_given_up(serve, waits):
    from threading import Event

    done = Event()

    def slowly():
        yield b"{"
        done.wait(60)

    model = OpenAIModel("m", serve(Answer(slowly())).url, read_timeout=0.05)
    failure = failure_of(model)
    done.set()
    assert type(failure) is DependencyFailed
    assert "did not answer in time" in failure.message


def test_no_error_repeats_the_key_or_the_prompt(serve, waits, monkeypatch):
    server = serve(refusal(401, "Incorrect API key provided: canary-key"))
    model = OpenAIModel("m", server.url, api_key="canary-key")
    failure = failure_of(model, ask(user("canary-prompt")))
    assert server.asked[0].headers["authorization"] == "Bearer canary-key"
    assert "canary" not in repr(failure) + repr(failure.__context__) + repr(model)


def test_a_parameter_that_a_model_refuses_is_left_out_from_then_on(serve, waits):
    server = serve(
        refusal(400, code="unsupported_value", param="temperature"),
        refusal(400, code="unsupported_parameter", param="stop"),
        json_answer(OK),
    )
    model = OpenAIModel("m", server.url)
    request = ask(inference={"temperature": 0, "topP": 1, "stopSequences": ["x"]})
    assert model.complete(request).text == "ok"
    assert asyncio.run(model.acomplete(request)).text == "ok"
    assert len(server.asked) == 4
    for asked in server.asked[2:]:
        assert asked.json.keys() == {"model", "top_p", "messages"}


def test_a_refusal_of_a_parameter_that_stays_is_an_error(serve, waits):
    server = serve(refusal(400, code="unsupported_value", param="messages[0].role"))
    assert type(failure_of(OpenAIModel("m", server.url))) is ValidationError
    assert len(server.asked) == 1
