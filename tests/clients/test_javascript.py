"""What npm has: AWS's SDK for JavaScript, LangChain.js, the AI SDK and Strands.

Each script of `node/` talks to a server, and prints what it got as one line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

import boto3
import pytest

from tests.clients.conftest import (
    DOCUMENT,
    GROUP,
    INSTRUCTION,
    MODEL,
    NODE,
    ROLE,
    ROOT,
    Serve,
    call,
    find_node_trouble,
)

pytestmark = pytest.mark.skipif(bool(find_node_trouble()), reason=find_node_trouble())

PAGE = ROOT / "docs" / "javascript.md"
CALL = call("get_days", employee="7")
AGENT_CALL = call("vacations__get_days", employee="7")
ANSWER = "You have 12 days left."
both = pytest.mark.parametrize("http", ["2", "1"])


def run(script: str, **environment: Any) -> Any:
    """What a script prints."""
    return json.loads(execute(script, **environment))


def execute(script: str = "", code: str = "", **environment: Any) -> str:
    options = ["--input-type=module", "-"] if code else [script]
    given = {"GROUP": json.dumps(GROUP), "INSTRUCTION": INSTRUCTION, "MODEL": MODEL, **environment}
    done = subprocess.run(
        ["node", "--no-warnings", *options],
        cwd=NODE,
        env={**os.environ, **given},
        input=code,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@both
def test_an_agent_is_made_and_calls_a_function(serve: Serve, http: str) -> None:
    serve([AGENT_CALL, f"<answer>{ANSWER}</answer>"])
    told = run("agent.mjs", HTTP=http)
    turn = {"text": ANSWER, "traces": ["orchestrationTrace"]}
    assert told == {"status": "PREPARED", "turns": [turn]}


@both
def test_an_agent_returns_control(serve: Serve, http: str) -> None:
    serve([AGENT_CALL, f"<answer>{ANSWER}</answer>"])
    group = {**GROUP, "actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}
    asked, answered = run("agent.mjs", HTTP=http, GROUP=json.dumps(group))["turns"]
    assert asked["text"] == ""
    ((wanted,),) = [one.values() for one in asked["control"]["invocationInputs"]]
    assert len(wanted.pop("agentId")) == 10
    assert wanted == {
        "actionGroup": "vacations",
        "actionInvocationType": "RESULT",
        "function": "get_days",
        "parameters": [{"name": "employee", "type": "string", "value": "7"}],
    }
    assert answered == {"text": ANSWER, "traces": []}


@both
def test_an_inline_agent_talks(serve: Serve, http: str) -> None:
    serve([AGENT_CALL, f"<answer>{ANSWER}</answer>", "<answer>Twelve.</answer>"])
    assert run("inline_agent.mjs", HTTP=http) == [
        {"text": ANSWER, "traces": []},
        {"text": "Twelve.", "traces": []},
    ]


@both
def test_a_knowledge_base_is_made_and_answers(serve: Serve, http: str) -> None:
    serve(["<answer><answer_part><text>Thirty.</text></answer_part></answer>"])
    told = run("knowledge.mjs", HTTP=http)
    assert len(told.pop("knowledgeBaseId")) == 10
    assert told == {
        "status": "COMPLETE",
        "found": [{"text": DOCUMENT, "useful": True}],
        "text": "Thirty.",
    }


@both
def test_sessions_are_kept(serve: Serve, http: str) -> None:
    serve([])
    assert run("sessions.mjs", HTTP=http) == {
        "made": "ACTIVE",
        "text": "Hello",
        "image": [137, 80, 78, 71],
        "time": 0,
        "steps": 1,
        "invocations": 1,
        "ended": ["ENDED", "ENDED", "vacations"],
        "listed": 1,
        "gone": "ResourceNotFoundException",
    }


@both
def test_models_answer(serve: Serve, http: str) -> None:
    serve(["Ask me with a tool.", CALL, ANSWER, "Twelve."])
    told = run("models.mjs", HTTP=http)
    assert told.pop("kinds")[0] == "message_start"
    assert told == {
        "whole": [{"text": "Ask me with a tool."}],
        "call": ["get_days", {"employee": "7"}],
        "stopReason": "tool_use",
        "answer": ANSWER,
        "own": "Twelve.",
    }


def test_langchain_talks(serve: Serve) -> None:
    serve(["", CALL, ANSWER])
    base = run("knowledge.mjs")["knowledgeBaseId"]
    assert run("langchain.mjs", KNOWLEDGE_BASE=base) == {
        "call": ["get_days", {"employee": "7"}],
        "text": ANSWER,
        "documents": [DOCUMENT],
    }


def test_the_ai_sdk_talks(serve: Serve) -> None:
    serve([CALL, ANSWER, CALL, ANSWER])
    assert run("ai_sdk.mjs") == {
        "calls": [[{"employee": "7"}, "12"]],
        "whole": ANSWER,
        "text": ANSWER,
    }


def test_strands_talks(serve: Serve) -> None:
    serve([CALL, ANSWER])
    assert run("strands.mjs") == {"calls": ["7"], "stopReason": "endTurn", "text": ANSWER}


SNIPPETS = re.findall(r"^```js\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)


@pytest.mark.parametrize("code", SNIPPETS, ids=lambda code: re.findall(r'from "(.*?)"', code)[0])
def test_the_documentation_runs(serve: Serve, code: str) -> None:
    serve([f"<answer>{ANSWER}</answer>" if "InvokeAgent" in code else ANSWER])
    environment = {"AGENT_ID": make_agent()} if "InvokeAgent" in code else {}
    assert execute(code=code, **environment).strip() == ANSWER


def make_agent() -> str:
    control = boto3.client("bedrock-agent")
    agent: str = control.create_agent(
        agentName="vacations",
        foundationModel=MODEL,
        instruction=INSTRUCTION,
        agentResourceRoleArn=ROLE,
    )["agent"]["agentId"]
    control.prepare_agent(agentId=agent)
    return agent
