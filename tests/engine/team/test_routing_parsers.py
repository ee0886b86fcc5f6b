"""A routing parser of one's own: what it lets agents read, and how it asks for another choice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from trace_lines import find_problems
from whole_agents import CLAUDE_3, CLAUDE_35

from orchestrator import Agent, Collaborator, Limits
from orchestrator.testing import ScriptedModel

ROUTED = {"promptState": "ENABLED", "parserMode": "OVERRIDDEN"}
POST = {"promptState": "ENABLED"}
AGAIN = "Name one of the agents."
WAYS = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
MODELS = pytest.mark.parametrize("model_id", [CLAUDE_3, CLAUDE_35, "anthropic.claude-v2:1"])


def parse(event: dict[str, Any]) -> dict[str, Any]:
    """Reads `name: what to send`, and nothing else."""
    name, mark, text = event["invokeModelRawResponse"].strip().partition(": ")
    if event["invokeModelRawResponse"].startswith("{"):
        import json

        name, mark, text = json.loads(event["invokeModelRawResponse"])["content"][0][
            "text"
        ].partition(": ")
    made: dict[str, Any] = {"parsingErrorDetails": {"repromptResponse": AGAIN}}
    if mark:
        chosen = {"agentCollaboratorName": name, "input": {"text": text}}
        made = {"responseDetails": {"type": "AGENT", "agentCollaboratorInvocation": chosen}}
    return {
        "messageVersion": "1.0",
        "promptType": "ROUTING_CLASSIFIER",
        "routingClassifierParsedResponse": made,
    }


def team(model: ScriptedModel, **options: Any) -> tuple[Agent, ScriptedModel]:
    helper = ScriptedModel(["<answer>Helped.</answer>"] * 3, CLAUDE_35)
    prompts = {"ROUTING_CLASSIFIER": ROUTED, **options.pop("prompts", {})}
    boss = Agent(
        "boss",
        "You lead.",
        model,
        collaborators=[Collaborator(Agent("helper", "Help.", helper), "Helps.")],
        collaboration="SUPERVISOR_ROUTER",
        override_lambda=parse,
        prompts=prompts,
        **options,
    )
    return boss, helper


def ask(boss: Agent, way: str) -> Any:
    if way == "ainvoke":
        return asyncio.run(boss.ainvoke("q", "s-1"))
    return boss.invoke("q", "s-1") if way == "invoke" else list(boss.stream("q", "s-1"))[-1].reply


def texts(model: ScriptedModel, request: int = -1) -> str:
    return str([one["content"] for one in model.requests[request].messages])


@WAYS
@MODELS
def test_the_agent_reads_what_the_parser_says(way: str, model_id: str) -> None:
    boss, helper = team(ScriptedModel(["helper: Do it, in short."], model_id))
    reply = ask(boss, way)
    assert (reply.text, find_problems(reply.trace)) == ("Helped.", [])
    assert texts(helper) == "[[{'text': 'Do it, in short.'}]]"


@WAYS
@MODELS
def test_the_model_may_choose_again(way: str, model_id: str) -> None:
    model = ScriptedModel(["Well, the helper?", "helper: Go"], model_id)
    boss, helper = team(model)
    reply = ask(boss, way)
    assert (reply.text, find_problems(reply.trace)) == ("Helped.", [])
    first, second = texts(model, 0), texts(model, 1)
    assert AGAIN not in first
    assert second.index("Well, the helper?") < second.index(AGAIN)
    assert [note for note in reply.notes if "choose again" in note] != []
    assert texts(helper) == "[[{'text': 'Go'}]]"


@MODELS
@pytest.mark.parametrize("most", [0, 2])
def test_in_the_end_the_supervisor_sees_to_it(most: int, model_id: str) -> None:
    model = ScriptedModel([*["Hm."] * (most + 1), "<answer>I did it.</answer>"], model_id)
    boss, helper = team(model, limits=Limits(reprompts=most))
    reply = boss.invoke("q", "s-1")
    assert (reply.text, find_problems(reply.trace)) == ("I did it.", [])
    assert helper.requests == []
    assert len([note for note in reply.notes if "choose again" in note]) == most + 1
    assert find_problems(boss.turns("s-1")[0].trace) == []


def test_the_last_stage_reads_who_answered_and_what() -> None:
    model = ScriptedModel(["helper: Go", "<final_response>Fine.</final_response>"], CLAUDE_35)
    template = (
        '{"messages": [{"role": "user", "content": [{"text": "$responses$ / $latest_response$"}]}]}'
    )
    post = {**POST, "promptCreationMode": "OVERRIDDEN", "basePromptTemplate": template}
    boss, _ = team(model, prompts={"POST_PROCESSING": post})
    assert boss.invoke("q", "s-1").text == "Fine."
    before, _, latest = texts(model).partition(" / ")
    assert "helper" in before and "Helped." in before and "Helped." in latest
