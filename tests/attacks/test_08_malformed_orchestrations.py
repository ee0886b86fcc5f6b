"""Row 8, for orchestrations of one's own: whatever a handler returns, the turn ends cleanly."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from orchestrator import Agent, OrchestratorError
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.testing import ScriptedModel

WORDS = some.sampled_from(
    [
        *("version", "1.0", "actionEvent", "output", "text", "trace", "event", "context"),
        *("INVOKE_MODEL", "INVOKE_TOOL", "APPLY_GUARDRAIL", "FINISH", "messages", "role", "user"),
        *("content", "toolUse", "toolUseId", "name", "input", "system", "toolConfig", "tools"),
    ]
)
TEXTS = WORDS | some.text(max_size=8)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | TEXTS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
EVENTS = some.sampled_from(["INVOKE_MODEL", "INVOKE_TOOL", "APPLY_GUARDRAIL", "FINISH"])
PAYLOADS = VALUES | VALUES.map(json.dumps)
REQUESTS = some.fixed_dictionaries({"messages": VALUES}, optional={"system": VALUES})
REPLIES = VALUES | some.fixed_dictionaries(
    {
        "actionEvent": EVENTS,
        "output": some.fixed_dictionaries(
            {"text": PAYLOADS | REQUESTS.map(json.dumps)}, optional={"trace": VALUES}
        ),
    },
    optional={"context": VALUES},
)


@given(some.lists(REPLIES | REPLIES.map(json.dumps), min_size=1, max_size=3))
def test_any_reply_is_an_answer_or_a_typed_error(replies: list[Any]) -> None:
    left = [*replies, *[{"actionEvent": "FINISH", "output": {"text": "Done."}}] * 4]
    orchestration = LambdaOrchestration(lambda event: left.pop(0))
    agent = Agent("a", "You help.", ScriptedModel(["x"] * 9), orchestration=orchestration)
    try:
        reply = agent.invoke("Hi", session_id="s-1")
        assert isinstance(reply.text, str) and reply.trace
    except OrchestratorError as error:
        assert error.reply is not None and error.reply.trace
    left[:] = [{"actionEvent": "FINISH", "output": {"text": "Again."}}]
    assert agent.invoke("Hi", session_id="s-1").text == "Again."
