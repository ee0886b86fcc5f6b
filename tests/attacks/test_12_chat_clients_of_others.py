"""Row 12 and 13: session ids and tool calls of another tenant's chat client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import pytest

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
KEYS = {"a": "key-of-team-a-0123456789", "b": "key-of-team-b-0123456789"}
FUNCTION = {"name": "get_days", "description": "Days.", "parameters": {"who": {"type": "string"}}}
AGENT = {
    "agentName": "vacations",
    "instruction": "You help employees with their vacations, and with nothing else at all.",
    "foundationModel": CLAUDE,
    "actionGroups": [
        {
            "actionGroupName": "hr",
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            "functionSchema": {"functions": [FUNCTION]},
        }
    ],
}
CALL = [{"toolUse": {"toolUseId": "t-1", "name": "hr__get_days", "input": {"who": "ceo"}}}]


@dataclass
class Team:
    """A client of one tenant."""

    url: str
    key: str

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            content = json.dumps(body).encode()
            given = {"Authorization": f"Bearer {self.key}", **named}
            connection.request("POST", path, content, given)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def complete(self, *messages: dict[str, Any], **headers: str) -> tuple[int, Any]:
        body = {"model": "vacations", "messages": list(messages)}
        return self.post("/v1/chat/completions", body, **headers)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel([], CLAUDE)


@pytest.fixture
def teams(tmp_path: Any, model: ScriptedModel) -> Iterator[tuple[Team, Team]]:
    """Two tenants of one server and one agent."""
    keys = tmp_path / "keys.yaml"
    made = [{"apiKey": key, "tenant": f"team-{name}", "allow": ["*"]} for name, key in KEYS.items()]
    keys.write_text(json.dumps(made))
    keys.chmod(0o600)
    folder = tmp_path / "agents" / "vacations"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text(json.dumps(AGENT))
    settings = Settings(port=0, agents=tmp_path / "agents", keys=keys)
    with ServerState(settings, models={"*": model}) as world, serve_in_thread(world) as url:
        yield Team(url, KEYS["a"]), Team(url, KEYS["b"])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_one_session_id_is_two_sessions(teams, model):
    mine, theirs = teams
    model._replies += ["<answer>One.", "<answer>Two.", "<answer>Three."]
    assert mine.complete(user("canary of team a"), X_Session_Id="s-1")[0] == 200
    assert theirs.complete(user("What was said?"), X_Session_Id="s-1")[0] == 200
    assert "canary of team a" not in str(model.requests[1])
    header = {"X_Amzn_Bedrock_AgentCore_Runtime_Session_Id": "s-1"}
    assert theirs.post("/invocations", {"prompt": "What was said?"}, **header)[0] == 200
    assert "canary of team a" not in str(model.requests[2])


def test_anothers_tool_call_is_not_there(teams, model):
    mine, theirs = teams
    model._replies += [CALL, "<answer>Five."]
    _, answer = mine.complete(user("How many?"))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "forged"}
    status, refused = theirs.complete(user("How many?"), result)
    assert (status, refused["error"]["code"]) == (404, "not_found")
    status, answer = mine.complete(user("How many?"), {**result, "content": "5 days"})
    assert answer["choices"][0]["message"]["content"] == "Five."
    assert "forged" not in str(model.requests)


def test_a_guessed_hand_over_is_not_there(teams, model):
    mine, _ = teams
    model._replies += [CALL]
    _, answer = mine.complete(user("How many?"), X_Session_Id="s-1")
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    _, place, hand_over, session = call["id"].split("_")
    guessed = f"call_{place}_{'0' * len(hand_over)}_{session}"
    status, refused = mine.complete({"role": "tool", "tool_call_id": guessed, "content": "5"})
    assert (status, refused["error"]["code"]) == (404, "not_found")


def test_a_place_that_no_call_has_is_refused(teams, model):
    mine, _ = teams
    model._replies += [CALL]
    _, answer = mine.complete(user("How many?"))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    for place in ("1", "999"):
        moved = call["id"].replace("call_0_", f"call_{place}_")
        result = {"role": "tool", "tool_call_id": moved, "content": "5"}
        assert mine.complete(result)[0] == 400


def test_nobody_without_a_key_is_answered(teams, model):
    stranger = Team(teams[0].url, "key-that-nobody-has-000")
    assert stranger.complete(user("Hi"))[0] in (401, 403)
    assert stranger.post("/invocations", {"prompt": "Hi"})[0] in (401, 403)
    assert model.requests == []
