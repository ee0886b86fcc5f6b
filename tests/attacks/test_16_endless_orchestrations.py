"""Row 16, for orchestrations of one's own: none goes on for ever, and each budget holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator import ActionGroup, Agent, Limits
from orchestrator.errors import LimitExceeded
from orchestrator.flows.custom import LambdaOrchestration
from orchestrator.guardrails import Verdict
from orchestrator.testing import ScriptedModel

ASK = {"messages": [{"role": "user", "content": [{"text": "again"}]}]}
USE = {"toolUse": {"toolUseId": "u", "name": "a__act", "input": {}}}
WRONG = {"toolUse": {"toolUseId": "u", "name": "nothing", "input": {}}}
CHECK = {"source": "INPUT", "content": [{"text": {"text": "x"}}]}


class Lenient:
    id = "lenient"

    def check(self, text: str, source: str) -> Verdict:
        return Verdict()


def endless_lambda(event: str, payload: Any) -> LambdaOrchestration:
    reply = {"actionEvent": event, "output": {"text": json.dumps(payload)}}
    return LambdaOrchestration(lambda given: reply)


def endless_loop(event: str, payload: Any) -> Any:
    def loop(turn: Any) -> Any:
        while True:
            if event == "INVOKE_MODEL":
                yield turn.model("again")
            elif event == "INVOKE_TOOL":
                yield turn.tools([payload["toolUse"]])
            else:
                yield turn.guard("x")

    return loop


@pytest.mark.parametrize("kind", [endless_lambda, endless_loop])
@pytest.mark.parametrize(
    ("event", "payload", "limit"),
    [
        ("INVOKE_MODEL", ASK, "iterations"),
        ("INVOKE_TOOL", USE, "actions"),
        ("INVOKE_TOOL", WRONG, "actions"),
        ("APPLY_GUARDRAIL", CHECK, "actions"),
    ],
    ids=["models", "tools", "wrong tools", "checks"],
)
def test_every_loop_ends(kind: Any, event: str, payload: Any, limit: str) -> None:
    acted: list[int] = []

    def act() -> str:
        """Acts."""
        acted.append(1)
        return "done"

    model = ScriptedModel(["x"] * 99)
    agent = Agent(
        "a",
        "You help.",
        model,
        action_groups=[ActionGroup("a", [act])],
        guardrail=Lenient(),
        limits=Limits(iterations=3, actions=4),
        orchestration=kind(event, payload),
    )
    with pytest.raises(LimitExceeded) as reached:
        agent.invoke("Hi", session_id="s-1")
    assert reached.value.limit == limit
    assert (len(model.requests), len(acted)) == (
        3 if event == "INVOKE_MODEL" else 0,
        4 if payload is USE else 0,
    )
    assert reached.value.reply is not None
    assert "failureTrace" in reached.value.reply.trace[-1]["trace"]
