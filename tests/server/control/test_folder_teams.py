"""Agents in folders that lead agents of this server, and are led by some."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from control_support import (
    CLAUDE,
    INSTRUCTION,
    calls,
    members,
    refused,
    says,
    served,
    write_agent,
)

FIRST, SECOND = "FIRST00001", "SECOND0001"


def arn(agent_id: str, alias_id: str = "TSTALIASID") -> str:
    return f"arn:aws:bedrock:us-east-1:000000000000:agent-alias/{agent_id}/{alias_id}"


def leader(agent_id: str, alias_arn: str, **given: Any) -> dict[str, Any]:
    return {
        "agentId": agent_id,
        "agentName": agent_id.lower(),
        "foundationModel": CLAUDE,
        "instruction": f"LEADER {INSTRUCTION}",
        "agentCollaboration": "SUPERVISOR",
        "agentCollaborators": [
            {
                "collaboratorName": "helper",
                "collaborationInstruction": "Ask for facts.",
                "agentDescriptor": {"aliasArn": alias_arn},
            }
        ],
        **given,
    }


def helper(agent_id: str, **given: Any) -> dict[str, Any]:
    return {
        "agentId": agent_id,
        "agentName": agent_id.lower(),
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
        **given,
    }


def answer(request: Any) -> Any:
    if "LEADER" not in request.system:
        return says("new" if "NEW" in request.system else "old")
    last = str(request.messages[-1])
    if "toolResult" in last:
        return says("new" if "new" in last else "old")
    return calls("AgentCommunication__sendMessage", {"recipient": "helper", "content": "Facts?"})


def test_a_folder_leads_another_folder(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", leader(FIRST, arn(SECOND)))
    write_agent(tmp_path / "two", helper(SECOND))
    with served(answer, agents=tmp_path) as server:
        assert server.ask(FIRST) == "old"
        (told,) = server.control.list_agent_collaborators(agentId=FIRST, agentVersion="DRAFT")[
            "agentCollaboratorSummaries"
        ]
        assert told["agentDescriptor"] == {"aliasArn": arn(SECOND)}
        assert told["collaboratorName"] == "helper"


def test_a_folder_leads_what_an_alias_points_to(tmp_path: Path) -> None:
    folder = write_agent(tmp_path / "one", leader(FIRST, arn("NOWHERE123")))
    with served(answer, agents=tmp_path) as server:
        agent = server.control.get_agent(agentId=FIRST)["agent"]
        assert agent["agentStatus"] == "FAILED"
        assert "NOWHERE123" in agent["failureReasons"][0]
        id = server.ready("helper-agent")
        alias = server.alias(id)
        (folder / "agent.json").write_text(json.dumps(leader(FIRST, alias["agentAliasArn"])))
        folders = server.world.agents.folders
        folders._looked = float("-inf")
        assert server.ask(FIRST, sessionId="s-1") == "old"
        edited = members("helper-agent", instruction=f"NEW {INSTRUCTION}")
        server.control.update_agent(agentId=id, **edited)
        server.prepare(id)
        server.control.update_agent_alias(
            agentId=id, agentAliasId=alias["agentAliasId"], agentAliasName="live"
        )
        assert server.ask(FIRST, sessionId="s-2") == "new"
        server.control.delete_agent(agentId=id, skipResourceInUseCheck=True)
        with refused("ResourceNotFoundException", id):
            server.ask(FIRST, sessionId="s-3")
        assert server.control.get_agent(agentId=FIRST)["agent"]["agentStatus"] == "FAILED"


def test_an_agent_of_the_api_leads_a_folders(tmp_path: Path) -> None:
    write_agent(tmp_path / "two", helper(SECOND))
    with served(answer, agents=tmp_path) as server:
        given = members("top", agentCollaboration="SUPERVISOR", instruction=f"LEADER {INSTRUCTION}")
        id = server.control.create_agent(**given)["agent"]["agentId"]
        server.control.associate_agent_collaborator(
            agentId=id,
            agentVersion="DRAFT",
            agentDescriptor={"aliasArn": arn(SECOND)},
            collaboratorName="helper",
            collaborationInstruction="Ask for facts.",
        )
        assert server.prepare(id)["agentStatus"] == "PREPARED"
        assert server.ask(id) == "old"


def test_folders_that_lead_each_other_fail_and_nobody_waits(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", leader(FIRST, arn(SECOND)))
    write_agent(tmp_path / "two", leader(SECOND, arn(FIRST)))
    with served(answer, agents=tmp_path) as server:
        with ThreadPoolExecutor(4) as threads:
            found = list(
                threads.map(
                    lambda id: server.control.get_agent(agentId=id)["agent"],
                    [FIRST, SECOND, FIRST, SECOND],
                    timeout=60,
                )
            )
        for agent in found:
            assert agent["agentStatus"] == "FAILED"
            assert "in a circle" in agent["failureReasons"][0]


def test_an_agent_that_only_a_folder_leads_is_there_and_not_listed(tmp_path: Path) -> None:
    given = leader(FIRST, "")
    given["agentCollaborators"][0]["agentDescriptor"] = {"folder": "agents/facts"}
    folder = write_agent(tmp_path / "one", given)
    inner = write_agent(folder / "agents" / "facts", helper(SECOND))
    with served(answer, agents=tmp_path) as server:
        assert [it["agentId"] for it in server.control.list_agents()["agentSummaries"]] == [FIRST]
        (told,) = server.control.list_agent_collaborators(agentId=FIRST, agentVersion="DRAFT")[
            "agentCollaboratorSummaries"
        ]
        assert told["agentDescriptor"] == {"aliasArn": arn(SECOND)}
        assert server.control.get_agent(agentId=SECOND)["agent"]["agentName"] == SECOND.lower()
        assert server.ask(SECOND) == "old"
        assert server.ask(FIRST, sessionId="s-1") == "old"
        edited = helper(SECOND, instruction=f"NEW {INSTRUCTION}")
        (inner / "agent.json").write_text(json.dumps(edited))
        server.world.agents.folders._looked = float("-inf")
        assert server.ask(SECOND, sessionId="s-2") == "new"
        assert server.ask(FIRST, sessionId="s-2") == "new"
