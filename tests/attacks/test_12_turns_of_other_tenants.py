"""Row 12 and 13: sessions, memories, hand-overs and answers of another tenant, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from runtime_servers import (
    AGENT_ID,
    ALIAS_ID,
    BY_CALLER,
    BY_LAMBDA,
    CLAUDE,
    Runtime,
    calls,
    definition,
    running,
    says,
    write_agent,
)

from orchestrator.testing import ScriptedModel

SUMMARY = "<summary><topic name='t'>The canary sings.</topic></summary>"
KEYS = {"team-a": "a-secret-of-team-a", "team-b": "a-secret-of-team-b"}
BASE = {"knowledgeBaseId": "HANDBOOK01", "folder": "handbook", "embedder": None}
Team = dict[str, Runtime]


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[Any]:
    """Two tenants of one server, whose model answers from one script."""
    keys = [
        {"accessKeyId": f"AKID{name[-1].upper()}", "secretAccessKey": secret, "tenant": name}
        for name, secret in KEYS.items()
    ]
    file = tmp_path / "keys.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(keys))
    with ExitStack() as stack:

        def started(script: list[Any], **members: Any) -> Team:
            folder = write_agent(tmp_path / "agents" / "own", definition(**members))
            (folder / "handbook").mkdir()
            (folder / "handbook" / "a.md").write_text("Vacations are long.")
            model = ScriptedModel(script, CLAUDE)
            server = stack.enter_context(running(model, folder.parent, keys=file))
            return {
                name: stack.enter_context(server.as_caller(f"AKID{name[-1].upper()}", secret))
                for name, secret in KEYS.items()
            }

        yield started


def refused(call: Any, *args: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(*args, **params)
    return str(caught.value.response["Error"]["Code"])


def test_the_same_session_id_is_another_session(teams: Any) -> None:
    both = teams([says("One."), says("Two."), says("Three.")])
    state = {"sessionAttributes": {"who": "canary"}}
    both["team-a"].invoke("The canary", "shared", sessionState=state)
    both["team-b"].invoke("Hello", "shared")
    model = both["team-a"].model
    assert "canary" not in str(model.requests[1].messages)
    both["team-a"].invoke("Again", "shared")
    assert "canary" in str(model.requests[2].messages)


def test_the_same_session_id_of_inline_agents(teams: Any) -> None:
    both = teams([says("One."), says("Two.")])
    both["team-a"].inline("The canary", "shared")
    both["team-b"].inline("Hello", "shared")
    assert "canary" not in str(both["team-a"].model.requests[1].messages)


def test_calls_that_wait_for_another_tenant(teams: Any) -> None:
    both = teams([calls("hr__get_days", {"employee": "e7"}), says("12.")], actionGroups=[BY_CALLER])
    control = both["team-a"].invoke("How many?", "shared")["events"][0]["returnControl"]
    body = {"TEXT": {"body": "12 days"}}
    result = {"actionGroup": "hr", "function": "get_days", "responseBody": body}
    state = {
        "invocationId": control["invocationId"],
        "returnControlInvocationResults": [{"functionResult": result}],
    }
    code = refused(both["team-b"].invoke, "", "shared", sessionState=state)
    assert code == "ValidationException"
    assert refused(both["team-a"].invoke, "", "other", sessionState=state) == code
    assert both["team-a"].invoke("", "shared", sessionState=state)["text"] == "12."
    again = both["team-a"].invoke("", "shared", sessionState=state)
    assert again["text"] == "12."  # the same results: the same reply, and no model is asked
    assert len(both["team-a"].model.requests) == 2
    result["responseBody"] = {"TEXT": {"body": "99 days"}}
    assert refused(both["team-a"].invoke, "", "shared", sessionState=state) == "ConflictException"


def test_the_memory_of_another_tenant(teams: Any) -> None:
    remembers = {"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 30}
    both = teams([says("I see."), SUMMARY, says("Hm.")], memoryConfiguration=remembers)
    both["team-a"].invoke("The canary", memoryId="m-1", endSession=True)
    ids = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "memoryId": "m-1"}

    def told(team: str) -> list[Any]:
        client = both[team].client
        found = client.get_agent_memory(**ids, memoryType="SESSION_SUMMARY")
        return list(found["memoryContents"])

    assert told("team-b") == []
    both["team-b"].client.delete_agent_memory(**ids)
    assert len(told("team-a")) == 1
    both["team-b"].invoke("Hello", memoryId="m-1")
    assert "canary" not in str(both["team-b"].model.requests[2])


def test_the_answers_of_another_tenant(teams: Any) -> None:
    both = teams(["<answer>One.</answer>"], knowledgeBases=[BASE])
    own = {"knowledgeBaseId": "HANDBOOK01", "modelArn": CLAUDE}
    given = {
        "input": {"text": "Vacations?"},
        "retrieveAndGenerateConfiguration": {
            "type": "KNOWLEDGE_BASE",
            "knowledgeBaseConfiguration": own,
        },
    }
    id = both["team-a"].client.retrieve_and_generate(**given)["sessionId"]
    generate = both["team-b"].client.retrieve_and_generate
    assert refused(generate, **given, sessionId=id) == "ValidationException"
    assert len(both["team-a"].model.requests) == 1


def test_what_a_key_is_not_allowed(teams: Any) -> None:
    both = teams([])
    source = {"sourceType": "S3", "s3Location": {"uri": "s3://secrets/canary.txt"}}
    file = {"name": "a.txt", "source": source, "useCase": "CHAT"}
    code = refused(both["team-a"].invoke, "Read", sessionState={"files": [file]})
    assert code == "AccessDeniedException"
    assert refused(both["team-a"].inline, "Hi", actionGroups=[BY_LAMBDA]) == code
