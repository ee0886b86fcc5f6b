"""Every failure of Bedrock is one error of the tree, names the model, and tells no secrets."""

from __future__ import annotations

import json
import socket
import traceback

import pytest
from model_requests import CLAUDE, TOOLS, ask, user
from model_servers import Answer, aws_error, json_answer

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.models import BedrockModel

REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
}


def failure_of(model, request=None) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        model.complete(request or ask())
    return caught.value


@pytest.mark.parametrize(
    ("code", "status", "error", "hint"),
    [
        ("ThrottlingException", 429, ThrottlingError, "after retries"),
        ("ServiceQuotaExceededException", 400, ThrottlingError, "after retries"),
        ("AccessDeniedException", 403, AccessDenied, "bedrock:InvokeModel"),
        ("UnrecognizedClientException", 403, AccessDenied, "sign in again"),
        ("ExpiredTokenException", 403, AccessDenied, "sign in again"),
        ("InvalidSignatureException", 403, AccessDenied, "sign in again"),
        ("ResourceNotFoundException", 404, ResourceNotFound, "list-foundation-models"),
        ("ModelNotReadyException", 429, ModelNotReady, "try again in a minute"),
        ("ValidationException", 400, ValidationError, "refused the request"),
        ("ModelTimeoutException", 408, DependencyFailed, "failed"),
        ("ModelErrorException", 424, DependencyFailed, "failed"),
        ("InternalServerException", 500, DependencyFailed, "failed"),
        ("ServiceUnavailableException", 503, DependencyFailed, "failed"),
    ],
)
def test_each_exception_of_the_service_has_its_error(
    aws, serve, no_waiting, code, status, error, hint
):
    server = serve(aws_error(code, "as AWS says it", status))
    failure = failure_of(BedrockModel(CLAUDE, endpoint_url=server.url))
    assert type(failure) is error
    assert CLAUDE in failure.message
    assert code in failure.message
    assert "request req-1" in failure.message or error is ResourceNotFound
    assert hint in failure.message


def test_a_model_id_that_bedrock_does_not_know_is_not_found(aws, serve):
    server = serve(aws_error("ValidationException", "The provided model identifier is invalid."))
    failure = failure_of(BedrockModel("anthropic.claude-99-v1:0", endpoint_url=server.url))
    assert type(failure) is ResourceNotFound
    assert "'anthropic.claude-99-v1:0'" in failure.message


def test_three_throttled_tries_and_then_an_answer_are_an_answer(aws, serve, no_waiting):
    throttled = aws_error("ThrottlingException", "slow down", 429)
    server = serve(throttled, throttled, throttled, json_answer(REPLY))
    assert BedrockModel(CLAUDE, endpoint_url=server.url).complete(ask()).text == "ok"
    assert len(server.asked) == 4
    assert len(no_waiting) == 3
    assert len({asked.body for asked in server.asked}) == 1


def test_tries_end_at_the_number_of_attempts(aws, serve, no_waiting):
    server = serve(aws_error("ThrottlingException", "slow down", 429))
    failure_of(BedrockModel(CLAUDE, endpoint_url=server.url, max_attempts=2))
    assert len(server.asked) == 2


def test_no_try_begins_after_the_deadline(aws, serve, no_waiting):
    server = serve(aws_error("ThrottlingException", "slow down", 429))
    failure = failure_of(BedrockModel(CLAUDE, endpoint_url=server.url, deadline=0.0))
    assert type(failure) is ThrottlingError
    assert len(server.asked) == 1


def test_a_slow_answer_is_given_up(aws, serve, no_waiting):
    def slowly():
        yield b"{"
        hold.acquire(timeout=60)

    from threading import Lock

    hold = Lock()
    hold.acquire()
    server = serve(Answer(slowly()))
    model = BedrockModel(CLAUDE, endpoint_url=server.url, read_timeout=0.05, max_attempts=1)
    failure = failure_of(model)
    hold.release()
    assert type(failure) is DependencyFailed
    assert "Timeout" in failure.message


def test_nobody_listening_is_a_failed_dependency(aws, no_waiting):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"  # nobody else gets it meanwhile
        failure = failure_of(BedrockModel(CLAUDE, endpoint_url=url))
    assert type(failure) is DependencyFailed
    assert failure.resource == CLAUDE


def test_without_credentials_nothing_is_sent_and_the_way_out_is_reported(aws, serve, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    server = serve(json_answer(REPLY))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    failure = failure_of(model)
    assert type(failure) is AccessDenied
    assert "AWS_PROFILE" in failure.message
    assert "the model 'local'" in failure.message
    assert not server.asked

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert model.complete(ask()).text == "ok"


def test_without_a_region_the_way_out_is_reported(aws, monkeypatch):
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    failure = failure_of(BedrockModel(CLAUDE))
    assert type(failure) is AccessDenied
    assert "AWS_REGION" in failure.message


def test_an_unknown_profile_is_named_as_a_matter_of_credentials(aws):
    failure = failure_of(BedrockModel(CLAUDE, profile="nobody"))
    assert type(failure) is AccessDenied
    assert "ProfileNotFound" in failure.message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("SignatureDoesNotMatch", "should have been 'x-amz-security-token:canary-session-token'"),
        ("ValidationException", "Value '[{content=canary-prompt}]' at 'messages' failed"),
    ],
)
def test_no_error_repeats_payloads_or_credentials(aws, serve, code, message):
    server = serve(aws_error(code, message, 403 if code.startswith("Sig") else 400))
    request = ask(user("canary-prompt"), system="canary-system", tools=TOOLS)
    failure = failure_of(BedrockModel(CLAUDE, endpoint_url=server.url), request)
    printed = "".join(traceback.format_exception(failure))
    seen: BaseException | None = failure
    while seen is not None:
        printed += str(seen) + repr(seen)
        seen = seen.__context__
    assert "canary" not in printed


def test_a_long_message_is_cut(aws, serve):
    server = serve(aws_error("ValidationException", "x" * 100_000))
    assert len(failure_of(BedrockModel(CLAUDE, endpoint_url=server.url)).message) < 1000


@pytest.mark.parametrize(
    ("refusal", "left"),
    [
        (
            "`temperature` and `top_p` cannot both be specified for this model.",
            {"temperature": 0.2},
        ),
        (
            "The model returned the following errors: `temperature` is deprecated for this model.",
            {},
        ),
    ],
)
def test_parameters_that_a_model_refuses_are_left_out_from_then_on(aws, serve, refusal, left):
    server = serve(aws_error("ValidationException", refusal), json_answer(REPLY))
    model = BedrockModel(CLAUDE, endpoint_url=server.url)
    inference = {"temperature": 0.2, "topP": 0.9, "topK": 9, "maximumLength": 50}
    for _ in range(2):
        assert model.complete(ask(inference=inference)).text == "ok"
    assert len(server.asked) == 3
    for asked in server.asked[1:]:
        assert asked.json["inferenceConfig"] == {"maxTokens": 50, **left}
    assert ("additionalModelRequestFields" in server.asked[2].json) is bool(left)


def test_a_refusal_that_stays_is_an_error(aws, serve):
    server = serve(aws_error("ValidationException", "`top_p` is deprecated for this model."))
    failure = failure_of(BedrockModel(CLAUDE, endpoint_url=server.url))
    assert type(failure) is ValidationError
    assert len(server.asked) == 2


def test_the_reply_of_a_gateway_that_knows_nothing_of_bedrock(aws, serve, no_waiting):
    server = serve(Answer(json.dumps({"detail": "nope"}).encode(), 404))
    assert type(failure_of(BedrockModel(CLAUDE, endpoint_url=server.url))) is ResourceNotFound
