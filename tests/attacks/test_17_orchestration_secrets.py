"""Row 17, for orchestrations of one's own: secrets reach the handler, and nothing else."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from orchestrator import Agent
from orchestrator.errors import DependencyFailed
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.testing import ScriptedModel

ASK = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}


def raising(event: dict[str, Any]) -> Any:
    raise RuntimeError(event["context"]["sessionAttributes"]["token"])


def wrong(event: dict[str, Any]) -> Any:
    token = event["context"]["sessionAttributes"]["token"]
    return {"actionEvent": token, "output": {"text": token}}


def no_object(event: dict[str, Any]) -> Any:
    return event["context"]["sessionAttributes"]["token"]


def bad_request(event: dict[str, Any]) -> Any:
    token = event["context"]["sessionAttributes"]["token"]
    request = {"messages": [{"role": token, "content": token}]}
    return {"actionEvent": "INVOKE_MODEL", "output": {"text": json.dumps(request)}}


@pytest.mark.parametrize("handler", [raising, wrong, no_object, bad_request])
def test_session_attributes_are_in_no_error_trace_or_log(
    handler: Any, canaries: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    agent = Agent("a", "You help.", ScriptedModel([]), orchestration=LambdaOrchestration(handler))
    secret = canaries["session attribute"]
    with pytest.raises(DependencyFailed) as failed:
        agent.invoke("Hi", session_id="s-1", session_attributes={"token": secret})
    assert failed.value.reply is not None
    trace = json.dumps(failed.value.reply.trace)
    canaries.nowhere_in("error", failed.value, failed.value.resource)
    canaries.nowhere_in("trace", trace)
    canaries.nowhere_in("log", caplog.text)


def test_they_reach_no_prompt_by_themselves(canaries: Any) -> None:
    replies = [("INVOKE_MODEL", json.dumps(ASK)), ("FINISH", "Done.")]
    told: list[str] = []

    def handler(event: dict[str, Any]) -> Any:
        told.append(event["context"]["sessionAttributes"]["token"])
        kind, text = replies.pop(0)
        return {"actionEvent": kind, "output": {"text": text}}

    model = ScriptedModel(["x"])
    agent = Agent("a", "You help.", model, orchestration=LambdaOrchestration(handler))
    secret = canaries["session attribute"]
    reply = agent.invoke("Hi", session_id="s-1", session_attributes={"token": secret})
    assert told == [secret, secret]
    canaries.nowhere_in("prompt", model.requests)
    canaries.nowhere_in("trace", json.dumps(reply.trace))
