"""Row 12: nobody reads another tenant's agents, sessions or memory; ids are guessed in vain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from server_requests import (
    ID,
    OTHER_ID,
    OTHER_SECRET,
    SECRET,
    client,
    send_signed,
    signed,
    write_keys,
)

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

OURS, THEIRS = (ID, SECRET), (OTHER_ID, OTHER_SECRET)
AGENT = {
    "agentId": "EVERYBODYS",
    "agentName": "everybodys",
    "foundationModel": "local",
    "instruction": "You answer the questions of all kinds of people, as well as you can.",
}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel([f"<answer>Answer {count}.</answer>" for count in range(9)])


@pytest.fixture
def url(tmp_path: Path, model: ScriptedModel) -> Iterator[str]:
    folder = tmp_path / "agents" / "own"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text(json.dumps(AGENT))
    settings = Settings(port=0, agents=folder.parent, keys=write_keys(tmp_path))
    with ServerState(settings, models={"*": model}) as world, serve_in_thread(world) as url:
        yield url


def invoke(url: str, who: tuple[str, str], text: str, agent: str = AGENT["agentId"]) -> None:
    runtime = client(url, "bedrock-agent-runtime", who)
    answer = runtime.invoke_agent(
        agentId=agent, agentAliasId="TSTALIASID", sessionId="the-same", inputText=text
    )
    with closing(answer["completion"]) as events:
        list(events)


def asked(model: ScriptedModel) -> str:
    return json.dumps(list(model.requests[-1].messages))


def test_one_session_id_is_another_session_for_each_tenant(url: str, model: Any) -> None:
    invoke(url, OURS, "Our secret is canary-of-ours.")
    invoke(url, THEIRS, "What was the secret?")
    assert "canary-of-ours" not in asked(model)
    invoke(url, OURS, "And ours?")
    assert "canary-of-ours" in asked(model)


def test_another_tenants_agent_is_not_there(url: str) -> None:
    ours, theirs = client(url, who=OURS), client(url, who=THEIRS)
    made = ours.create_agent(
        agentName="ours",
        foundationModel="anthropic.claude-3-haiku-20240307-v1:0",
        instruction="You answer our own questions, and nobody else's at all, ever.",
        agentResourceRoleArn="arn:aws:iam::000000000000:role/any",
    )["agent"]
    agent_id = made["agentId"]
    assert ours.get_agent(agentId=agent_id)["agent"]["agentName"] == "ours"
    for call in (theirs.get_agent, theirs.prepare_agent, theirs.delete_agent):
        with pytest.raises(theirs.exceptions.ResourceNotFoundException):
            call(agentId=agent_id)
    assert agent_id not in str(theirs.list_agents())
    with pytest.raises(ClientError) as error:
        invoke(url, THEIRS, "Hello", agent_id)
    assert error.value.response["Error"]["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize("name", ["tenant", "X-Tenant", "x-amzn-tenant", "X-Forwarded-User"])
def test_the_tenant_is_never_what_the_request_says(url: str, model: Any, name: str) -> None:
    invoke(url, OURS, "Our secret is canary-of-ours.")
    path = f"/agents/{AGENT['agentId']}/agentAliases/TSTALIASID/sessions/the-same/text"
    body = json.dumps({"inputText": "What was it?", name: "team-a"}).encode()
    request = signed(
        url=f"{url}{path}?{name}=team-a", body=body, headers={name: "team-a"}, who=THEIRS
    )
    assert send_signed(request).status == 200
    assert "canary-of-ours" not in asked(model)
