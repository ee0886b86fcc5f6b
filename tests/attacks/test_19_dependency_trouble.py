"""Attack 19: what actions depend on throttles, breaks off, is slow, or answers nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from loopback import Sent, Site
from whole_agents import NATIVE, agent, answer, members

from orchestrator import (
    ActionGroup,
    DependencyFailed,
    Limits,
    OrchestratorError,
    SQLiteStore,
)
from orchestrator.actions import HttpExecutor, LambdaArn
from orchestrator.errors import ActionOutcomeUnknown, ThrottlingError

ARN = "arn:aws:lambda:eu-central-1:123456789012:function:claims"
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "paths": {
        "/claims": {
            "get": {"operationId": "list", "description": "Lists.", "responses": {}},
            "post": {"operationId": "open", "description": "Opens.", "responses": {}},
        }
    },
}
THROTTLED = Sent(b"{}", 429, {"x-amzn-ErrorType": "TooManyRequestsException", "Retry-After": "0"})
BROKEN = Sent(b"{}", 500, {"x-amzn-ErrorType": "ServiceException"})
RAISED = Sent(b'{"errorType": "KeyError", "errorMessage": "canary-1"}', 200,
              {"X-Amz-Function-Error": "Unhandled"})  # fmt: skip
DONE = Sent(
    json.dumps(
        {"response": {"httpStatusCode": 200, "responseBody": {"application/json": {"body": "3"}}}}
    ).encode()
)
READS, CHANGES = ("GET::claims::list", {}), ("POST::claims::open", {})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    monkeypatch.setattr("orchestrator.actions.http_executor._sleep", lambda _: None)


@pytest.fixture(params=["lambda", "http"])
def site(request: pytest.FixtureRequest, canaries: Any, monkeypatch: Any) -> Iterator[Any]:
    """A dependency, and the group that uses it: a Lambda function, or an API."""
    with Site().running() as site:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", site.url("127.0.0.1"))
        executor: Any = LambdaArn(ARN)
        if request.param == "http":
            executor = HttpExecutor(site.url(), allow_private=["localhost"])
        site.kind = request.param
        site.groups = [ActionGroup("claims", api_schema=DOCUMENT, executor=executor)]
        yield site


def turn(site: Any, call: Any, **options: Any) -> Any:
    """The reply of a turn with one call, or its error."""
    model = NATIVE.model([NATIVE.calls(call), answer("Done.")])
    try:
        return agent(model, site.groups, **options).invoke("Do it.", "s-1")
    except OrchestratorError as error:
        return error


@pytest.mark.parametrize("call", [READS, CHANGES])
def test_a_throttled_lambda_is_asked_again(site: Any, call: Any) -> None:
    site.answers = [THROTTLED, THROTTLED, DONE]
    again = site.kind == "lambda" or call is READS
    assert turn(site, call).__class__.__name__ == ("Reply" if again else "ThrottlingError")
    assert len(site.got) == (3 if again else 1)


@pytest.mark.parametrize("call", [READS, CHANGES])
def test_throttling_that_does_not_end_is_an_error(site: Any, call: Any) -> None:
    site.answers = [THROTTLED]
    error = turn(site, call)
    assert type(error) is ThrottlingError
    assert members(error.reply.trace)[-1] == "failureTrace"
    assert len(site.got) <= 4


@pytest.mark.parametrize("trouble", [Sent(cut=True), BROKEN])
def test_what_changes_something_is_never_sent_twice(site: Any, trouble: Sent) -> None:
    site.answers = [trouble, DONE]
    error = turn(site, CHANGES)
    assert len(site.got) == 1
    # An API that answers with 500 has answered; Lambda's own 500 says nothing of the function.
    told = trouble is BROKEN and site.kind == "http"
    assert type(error) is (DependencyFailed if told else ActionOutcomeUnknown)


def test_an_answer_that_breaks_off_is_of_an_action_that_was_done(site: Any) -> None:
    site.answers = [Sent(b'{"resp', length=100), DONE]
    model = NATIVE.model([NATIVE.calls(CHANGES), answer("Done.")])
    assert agent(model, site.groups).invoke("Do it.", "s-1").text == "Done."
    read = str(model.requests[1].messages[-1])
    assert "do not repeat it" in read and "broke off" in read
    assert len(site.got) == 1


@pytest.mark.parametrize("trouble", [Sent(cut=True), Sent(status=503)])
def test_what_only_reads_is_sent_again(site: Any, trouble: Sent) -> None:
    site.answers = [trouble, trouble, DONE]
    assert turn(site, READS).text == "Done."
    assert len(site.got) == 3


@pytest.mark.parametrize("call", [READS, CHANGES])
def test_a_slow_dependency_ends_with_the_time(site: Any, call: Any) -> None:
    done = threading.Event()
    site.answers = [Sent(wait=done.wait)]
    try:
        error = turn(site, call, limits=Limits(action_seconds=0.3))
    finally:
        done.set()
    assert isinstance(error, DependencyFailed)
    assert call is READS or type(error) is ActionOutcomeUnknown


def test_a_failure_is_in_the_trace_and_the_journal_without_its_message(
    site: Any, tmp_path: Any
) -> None:
    site.answers = [RAISED if site.kind == "lambda" else Sent(b"canary-1", 500)]
    store = SQLiteStore(tmp_path / "sessions.db")
    error = turn(site, READS, sessions=store)
    assert type(error) is DependencyFailed and error.resource == "GET::claims::/claims"
    (info,) = store.list()
    told = f"{error} {error.reply.trace} {store.load(info.key)}"
    store.close()
    assert "canary-1" not in told
    assert members(error.reply.trace)[-1] == "failureTrace"


def test_nonsense_is_a_result_that_the_model_reads(site: Any) -> None:
    site.answers = [Sent(b"<html>Welcome</html>", headers={"Content-Type": "text/html"})]
    model = NATIVE.model([NATIVE.calls(READS), answer("No idea.")])
    agent(model, site.groups).invoke("List.", "s-1")
    assert "Welcome" in str(model.requests[1].messages[-1])


def test_an_over_size_reply_is_not_shown(site: Any) -> None:
    site.answers = [Sent(b'"' + b"x" * 300_000 + b'"')]
    model = NATIVE.model([NATIVE.calls(READS), answer("Too much.")])
    agent(model, site.groups).invoke("List.", "s-1")
    shown = str(model.requests[1].messages[-1])
    assert "is not shown" in shown and len(shown) < 1000


def test_no_credentials_are_told(site: Any, canaries: Any) -> None:
    site.answers = [Sent(b"{}", 403, {"x-amzn-ErrorType": "UnrecognizedClientException"})]
    ended = turn(site, READS)
    assert isinstance(ended, OrchestratorError) == (site.kind == "lambda")
    trace = ended.reply.trace if isinstance(ended, OrchestratorError) else ended.trace
    for one in (ended, trace, ended and getattr(ended, "__context__", None)):
        canaries.nowhere_in("error", one, repr(one))
