"""Bedrock's guardrails through boto3: what is sent, what is made of the answer, what goes wrong."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from botocore_shapes import problems
from loopback import serve_handler

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.guardrails import BedrockGuardrail, Guardrail, guardrail_trace
from orchestrator.guardrails.bedrock import PIECE_CHARS, pieces_of, trace_assessment

USAGE = {
    name: 1
    for name in (
        "topicPolicyUnits",
        "contentPolicyUnits",
        "wordPolicyUnits",
        "sensitiveInformationPolicyUnits",
        "sensitiveInformationPolicyFreeUnits",
        "contextualGroundingPolicyUnits",
    )
}
EVERYTHING = {
    "topicPolicy": {
        "topics": [{"name": "Stocks", "type": "DENY", "action": "BLOCKED", "detected": True}]
    },
    "contentPolicy": {
        "filters": [
            {"type": "INSULTS", "confidence": "HIGH", "filterStrength": "LOW", "action": "BLOCKED",
             "detected": True},
            {"type": "HATE", "confidence": "LOW", "action": "NONE", "detected": True},
        ]
    },
    "wordPolicy": {
        "customWords": [{"match": "darn", "action": "BLOCKED", "detected": True}],
        "managedWordLists": [{"match": "drat", "type": "PROFANITY", "action": "BLOCKED"}],
    },
    "sensitiveInformationPolicy": {
        "piiEntities": [{"match": "Ann", "type": "NAME", "action": "ANONYMIZED"}],
        "regexes": [{"name": "b", "match": "BK-1", "regex": "BK-.", "action": "BLOCKED"}],
    },
    "contextualGroundingPolicy": {
        "filters": [
            {"type": "GROUNDING", "threshold": 0.5, "score": 0.1, "action": "BLOCKED"}
        ]
    },
    "invocationMetrics": {"guardrailProcessingLatency": 12, "usage": USAGE},
}  # fmt: skip


def answer(action="NONE", outputs=(), *assessments, **more):
    return {
        "usage": USAGE,
        "action": action,
        "outputs": [{"text": it} for it in outputs],
        "assessments": list(assessments),
        **more,
    }


def pii(*items):
    entities = [{"match": m, "type": t, "action": a} for m, t, a in items]
    return {"sensitiveInformationPolicy": {"piiEntities": entities, "regexes": []}}


def asked(text, source="INPUT", id="gr1", version="DRAFT"):
    content = [{"text": {"text": text}}]
    return {
        "guardrailIdentifier": id,
        "guardrailVersion": version,
        "source": source,
        "content": content,
    }


@pytest.fixture
def stub() -> Iterator[Stubber]:
    client = boto3.client(
        "bedrock-runtime", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def check(stub, text="Hello", source="INPUT"):
    return BedrockGuardrail("gr1", client=stub.client).check(text, source)


def test_what_passes_passes_as_it_is(stub):
    stub.add_response("apply_guardrail", answer(), asked("Hello", "OUTPUT", version="3"))
    guardrail = BedrockGuardrail("gr1", "3", client=stub.client)
    verdict = guardrail.check("Hello", "OUTPUT")
    assert (verdict.action, verdict.text, verdict.blocked) == ("NONE", "Hello", False)
    assert list(verdict.assessments) == []
    assert isinstance(guardrail, Guardrail)


def test_what_is_blocked_becomes_the_message(stub):
    said = answer("GUARDRAIL_INTERVENED", ["Not here."], EVERYTHING, actionReason="Blocked.")
    stub.add_response("apply_guardrail", said, asked("Hello"))
    verdict = check(stub)
    assert (verdict.action, verdict.text, verdict.blocked) == ("INTERVENED", "Not here.", True)
    assert problems(guardrail_trace(verdict, "INPUT", "r-guardrail-pre-0"), "GuardrailTrace") == []


def test_what_is_masked_goes_on(stub):
    masked = pii(("Ann", "NAME", "ANONYMIZED"))
    stub.add_response(
        "apply_guardrail",
        answer("GUARDRAIL_INTERVENED", ["I am {NAME}"], masked),
        asked("I am Ann"),
    )
    verdict = check(stub, "I am Ann")
    assert (verdict.action, verdict.text, verdict.blocked) == ("INTERVENED", "I am {NAME}", False)
    assert verdict.assessments == [
        {
            "sensitiveInformationPolicy": {
                "piiEntities": [{"type": "NAME", "match": "Ann", "action": "ANONYMIZED"}]
            }
        }
    ]


def test_an_intervention_that_nothing_explains_blocks(stub):
    stub.add_response("apply_guardrail", answer("GUARDRAIL_INTERVENED", ["No."], {}))
    verdict = check(stub)
    assert verdict.blocked and verdict.text == "No."


def test_what_only_grounding_blocks_is_blocked(stub):
    grounding = {"contextualGroundingPolicy": EVERYTHING["contextualGroundingPolicy"]}
    said = answer("GUARDRAIL_INTERVENED", ["No."], grounding)
    stub.add_response("apply_guardrail", said)
    verdict = check(stub, source="OUTPUT")
    assert verdict.blocked and list(verdict.assessments) == []


def test_an_assessment_is_reported_with_the_members_of_a_trace():
    traced = trace_assessment(EVERYTHING)
    assert problems({"inputAssessments": [traced]}, "GuardrailTrace") == []
    assert traced["contentPolicy"] == {
        "filters": [{"type": "INSULTS", "confidence": "HIGH", "action": "BLOCKED"}]
    }
    assert "contextualGroundingPolicy" not in traced and "invocationMetrics" not in traced
    assert trace_assessment({"topicPolicy": {"topics": []}}) == {}


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_not_asked_about(stub, text):
    assert check(stub, text).text == text


def test_a_long_text_is_asked_about_in_pieces_and_seams(stub):
    sentence = "This is one sentence of a long text. "
    text = sentence * 1500
    first, second, third = pieces_of(text)
    assert first + second + third == text and max(map(len, (first, second))) <= PIECE_CHARS
    assert first.endswith(". ") and second.endswith(". ")
    for part in (first, second, first[-500:] + second[:500], third, second[-500:] + third[:500]):
        stub.add_response("apply_guardrail", answer(), asked(part))
    verdict = check(stub, text)
    assert (verdict.action, verdict.text) == ("NONE", text)


def test_what_hides_at_a_seam_is_blocked(stub):
    text = "word " * 5000
    blocked = answer("GUARDRAIL_INTERVENED", ["No."], {"topicPolicy": EVERYTHING["topicPolicy"]})
    for said in (answer(), answer(), blocked):
        stub.add_response("apply_guardrail", said)
    verdict = check(stub, text)
    assert verdict.blocked and verdict.text == "No."


def test_what_lies_over_a_seam_is_masked(stub):
    text = "word " * 4799 + "1234 " + "5678 " + "word " * 100
    first, second = pieces_of(text)
    assert first.endswith("1234 ") and second.startswith("5678 ")
    seam = first[-500:] + second[:500]
    found = pii(("1234 5678", "PHONE", "ANONYMIZED"))
    masked = answer("GUARDRAIL_INTERVENED", [seam.replace("1234 5678", "{PHONE}")], found)
    for said in (answer(), answer(), masked):
        stub.add_response("apply_guardrail", said)
    verdict = check(stub, text)
    assert verdict.text == text.replace("1234 5678", "{PHONE}")
    assert verdict.action == "INTERVENED" and not verdict.blocked
    assert problems({"inputAssessments": verdict.assessments}, "GuardrailTrace") == []


def test_a_text_without_spaces_is_cut_all_the_same():
    assert [len(it) for it in pieces_of("x" * 50_000)] == [24_000, 24_000, 2_000]
    assert list(pieces_of("")) == [""]


# Over the wire


@contextmanager
def serving(status: int, body: Any, code: str = "") -> Iterator[tuple[str, list[Any]]]:
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, json.loads(sent)))
            payload = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.send_header("x-amzn-RequestId", "req-1")
            if code:
                self.send_header("x-amzn-ErrorType", code)
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *args: Any) -> None:
            pass

    with serve_handler(Handler) as url:
        yield url, seen


def test_the_request_and_the_answer_over_http(canaries):
    said = answer("GUARDRAIL_INTERVENED", ["{EMAIL}"], pii(("a@b.com", "EMAIL", "ANONYMIZED")))
    with serving(200, said) as (url, seen):
        verdict = BedrockGuardrail("gr1", "2", endpoint_url=url).check("a@b.com\ud800", "OUTPUT")
    assert verdict.text == "{EMAIL}" and not verdict.blocked
    sent = {"source": "OUTPUT", "content": [{"text": {"text": "a@b.com\ufffd"}}]}
    assert seen == [("/guardrail/gr1/version/2/apply", sent)]


@pytest.mark.parametrize(
    ("status", "code", "kind", "advice"),
    [
        (403, "AccessDeniedException", AccessDenied, "bedrock:ApplyGuardrail"),
        (403, "ExpiredTokenException", AccessDenied, "sign in again"),
        (404, "ResourceNotFoundException", ResourceNotFound, "list-guardrails"),
        (400, "ValidationException", ValidationError, "as AWS says it"),
        (400, "ServiceQuotaExceededException", ThrottlingError, "after retries"),
        (400, "SomethingElse", DependencyFailed, "failed"),
    ],
)
def test_a_failure_is_an_error_about_the_guardrail(canaries, status, code, kind, advice):
    guardrail_text = "the user's own words"
    with serving(status, {"message": "as AWS says it"}, code) as (url, _):
        guardrail = BedrockGuardrail("gr1", region="eu-central-1", endpoint_url=url)
        with pytest.raises(OrchestratorError) as caught:
            guardrail.check(guardrail_text, "INPUT")
    error = caught.value
    assert type(error) is kind
    assert "the guardrail 'gr1'" in str(error)
    assert code in str(error) and "req-1" in str(error) and advice in str(error)
    assert "model" not in str(error)
    traced = "".join(traceback.format_exception(error))
    assert guardrail_text not in traced
    canaries.nowhere_in("error", traced)


def test_a_service_that_is_not_there_lets_nothing_through(canaries, no_waiting):
    with serving(200, {}) as (url, _):
        pass
    with pytest.raises(DependencyFailed, match="could not be reached"):
        BedrockGuardrail("gr1", endpoint_url=url).check("Hi", "INPUT")


def test_without_credentials_the_error_says_what_to_set(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AccessDenied, match="for the guardrail 'gr1': set AWS_PROFILE"):
        BedrockGuardrail("gr1", region="eu-west-1").check("Hi", "INPUT")


def test_an_arn_names_the_region(stub):
    arn = "arn:aws:bedrock:us-west-2:123456789012:guardrail/gr1"
    assert BedrockGuardrail(arn)._settings.region == "us-west-2"
    stub.add_response("apply_guardrail", answer(), asked("Hi", id=arn))
    assert BedrockGuardrail(arn, client=stub.client).check("Hi", "INPUT").action == "NONE"
