"""Knowledge bases and collaborators of agents that were made through the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from control_support import BASE, INSTRUCTION, Served, calls, members, refused, says, served
from server_requests import ID, SECRET, write_keys

from orchestrator.server.operations import Caller, Request


def base(server: Served, name: str = "handbook") -> str:
    made = server.control.create_knowledge_base(**{**BASE, "name": name})
    id: str = made["knowledgeBase"]["knowledgeBaseId"]
    return id


def associate(server: Served, agent: str, base: str, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = server.control.associate_agent_knowledge_base(
        agentId=agent,
        agentVersion="DRAFT",
        knowledgeBaseId=base,
        description="The handbook.",
        **given,
    )["agentKnowledgeBase"]
    return found


def lead(server: Served, leader: str, alias_arn: str, name: str = "helper", **given: Any) -> str:
    made = server.control.associate_agent_collaborator(
        agentId=leader,
        agentVersion="DRAFT",
        agentDescriptor={"aliasArn": alias_arn},
        collaboratorName=name,
        collaborationInstruction="Ask for facts.",
        **given,
    )
    id: str = made["agentCollaborator"]["collaboratorId"]
    return id


def test_knowledge_bases_are_associated_changed_and_taken_away(server: Served) -> None:
    agent, id = server.ready(), base(server)
    made = associate(server, agent, id)
    assert (made["knowledgeBaseId"], made["knowledgeBaseState"]) == (id, "ENABLED")
    assert server.control.get_agent(agentId=agent)["agent"]["agentStatus"] == "NOT_PREPARED"
    with refused("ConflictException", id):
        associate(server, agent, id)
    where = {"agentId": agent, "agentVersion": "DRAFT", "knowledgeBaseId": id}
    server.control.update_agent_knowledge_base(**where, knowledgeBaseState="DISABLED")
    found = server.control.get_agent_knowledge_base(**where)["agentKnowledgeBase"]
    assert found["knowledgeBaseState"] == "DISABLED"
    assert found["description"] == "The handbook."
    (summary,) = server.control.list_agent_knowledge_bases(agentId=agent, agentVersion="DRAFT")[
        "agentKnowledgeBaseSummaries"
    ]
    assert summary["knowledgeBaseId"] == id
    server.control.disassociate_agent_knowledge_base(**where)
    with refused("ResourceNotFoundException"):
        server.control.disassociate_agent_knowledge_base(**where)


def test_an_agent_has_two_knowledge_bases_at_most(server: Served) -> None:
    agent = server.create()
    for n in range(2):
        associate(server, agent, base(server, f"base-{n}"))
    with refused("ServiceQuotaExceededException", "2 knowledge bases"):
        associate(server, agent, base(server, "base-2"))


def test_a_knowledge_base_that_the_key_cannot_have_is_not_there(server: Served) -> None:
    agent = server.create()
    handler = server.world.operations()["bedrock-agent"]["AssociateAgentKnowledgeBase"]
    params = {
        "agentId": agent,
        "agentVersion": "DRAFT",
        "knowledgeBaseId": "NOWHERE123",
        "description": "x",
    }
    request = Request("bedrock-agent", "AssociateAgentKnowledgeBase", params, Caller(allow=()))
    try:
        handler(request)
    except Exception as error:
        assert getattr(error, "bedrock_name", "") == "ResourceNotFoundException"
    else:
        raise AssertionError("it was associated")


def test_an_agent_searches_its_knowledge_base() -> None:
    found: list[Any] = []

    def answer(request: Any) -> Any:
        found.append(request)
        names = [tool["toolSpec"]["name"] for tool in request.tools]
        return says(",".join(names))

    with served(answer) as server:
        agent, id = server.create(), base(server)
        associate(server, agent, id)
        assert server.prepare(agent)["agentStatus"] == "PREPARED"
        assert id in server.ask(agent)


def test_a_supervisor_leads_agents_of_this_server() -> None:
    script = [
        calls("AgentCommunication__sendMessage", {"recipient": "helper", "content": "Facts?"}),
        says("a fact"),
        says("It is a fact."),
    ]
    with served(script) as server:
        helper = server.ready("helper-agent")
        alias = server.alias(helper)
        leader = server.create("leader", agentCollaboration="SUPERVISOR")
        with refused("ValidationException", "no collaborators"):
            server.control.prepare_agent(agentId=leader)
        id = lead(server, leader, alias["agentAliasArn"])
        agent = server.prepare(leader)
        assert agent["agentStatus"] == "PREPARED", agent
        assert server.ask(leader) == "It is a fact."
        where = {"agentId": leader, "agentVersion": "DRAFT", "collaboratorId": id}
        found = server.control.get_agent_collaborator(**where)["agentCollaborator"]
        assert found["agentDescriptor"] == {"aliasArn": alias["agentAliasArn"]}
        assert found["relayConversationHistory"] == "DISABLED"
        (summary,) = server.control.list_agent_collaborators(agentId=leader, agentVersion="DRAFT")[
            "agentCollaboratorSummaries"
        ]
        assert summary["collaboratorName"] == "helper"
        updated = server.control.update_agent_collaborator(
            **where,
            agentDescriptor={"aliasArn": alias["agentAliasArn"]},
            collaboratorName="other",
            collaborationInstruction="Ask.",
            relayConversationHistory="TO_COLLABORATOR",
        )["agentCollaborator"]
        assert updated["collaboratorName"] == "other"
        server.control.disassociate_agent_collaborator(**where)
        with refused("ResourceNotFoundException"):
            server.control.get_agent_collaborator(**where)


def test_whom_an_alias_points_to_is_whom_a_supervisor_leads() -> None:
    def answer(request: Any) -> Any:
        if "LEADER" in request.system:
            last = str(request.messages[-1])
            if "Facts?" not in last and ("old" in last or "new" in last):
                return says("new" if "new" in last else "old")
            return calls(
                "AgentCommunication__sendMessage", {"recipient": "helper", "content": "Facts?"}
            )
        return says("new" if "NEW" in request.system else "old")

    with served(answer) as server:
        helper = server.ready("helper-agent")
        alias = server.alias(helper)
        leader = server.create(
            "leader",
            agentCollaboration="SUPERVISOR",
            instruction=f"LEADER {INSTRUCTION}",
        )
        lead(server, leader, alias["agentAliasArn"])
        server.prepare(leader)
        assert server.ask(leader, sessionId="s-1") == "old"
        server.control.update_agent(
            agentId=helper, **members("helper-agent", instruction=f"NEW {INSTRUCTION}")
        )
        server.prepare(helper)
        assert server.ask(leader, sessionId="s-2") == "old"
        server.control.update_agent_alias(
            agentId=helper, agentAliasId=alias["agentAliasId"], agentAliasName="live"
        )
        assert server.ask(leader, sessionId="s-3") == "new"


def test_agents_do_not_lead_each_other_in_a_circle(server: Served) -> None:
    first = server.create("first", agentCollaboration="SUPERVISOR")
    second = server.create("second", agentCollaboration="SUPERVISOR")
    arns = {id: server.world.agents.store.arns.alias(id, "TSTALIASID") for id in (first, second)}
    helper = server.ready("helper-agent")
    with refused("ValidationException", "itself"):
        lead(server, first, arns[first])
    lead(server, first, server.alias(helper)["agentAliasArn"])
    assert server.prepare(first)["agentStatus"] == "PREPARED"
    lead(server, second, arns[first])
    assert server.prepare(second)["agentStatus"] == "PREPARED"
    lead(server, first, arns[second], "other")
    agent = server.prepare(first)
    assert agent["agentStatus"] == "FAILED"
    assert "in a circle" in agent["failureReasons"][0]


def test_there_are_three_levels_of_agents_at_most(server: Served) -> None:
    below = server.alias(server.ready("level-0"))["agentAliasArn"]
    for level in (1, 2):
        id = server.create(f"level-{level}", agentCollaboration="SUPERVISOR")
        lead(server, id, below)
        assert server.prepare(id)["agentStatus"] == "PREPARED"
        below = server.alias(id)["agentAliasArn"]
    top = server.create("top", agentCollaboration="SUPERVISOR")
    lead(server, top, below)
    agent = server.prepare(top)
    assert agent["agentStatus"] == "FAILED"
    assert "levels" in agent["failureReasons"][0]


def test_only_aliases_that_are_there_are_led(server: Served) -> None:
    leader = server.create("leader", agentCollaboration="SUPERVISOR")
    helper = server.ready("helper-agent")
    arns = server.world.agents.store.arns
    for arn in (arns.alias("NOWHERE123", "TSTALIASID"), arns.alias(helper, "NOWHERE123")):
        with refused("ResourceNotFoundException", "NOWHERE123"):
            lead(server, leader, arn)
    alias = server.alias(helper)["agentAliasArn"]
    lead(server, leader, alias)
    with refused("ConflictException", "'helper'"):
        lead(server, leader, alias)
    for n in range(9):
        lead(server, leader, alias, f"helper-{n}")
    with refused("ServiceQuotaExceededException", "10 collaborators"):
        lead(server, leader, alias, "more")
    pages = server.control.get_paginator("list_agent_collaborators").paginate(
        agentId=leader, agentVersion="DRAFT", PaginationConfig={"PageSize": 4}
    )
    assert [len(it["agentCollaboratorSummaries"]) for it in pages] == [4, 4, 2]


def test_an_agent_whose_knowledge_base_is_gone_fails_to_prepare(tmp_path: Path) -> None:
    with served([], keys=write_keys(tmp_path)) as server:
        server.control = server.control_as(ID, SECRET)
        agent, id = server.create(), base(server)
        associate(server, agent, id)
        assert server.prepare(agent)["agentStatus"] == "PREPARED"
        server.control.delete_knowledge_base(knowledgeBaseId=id)
        told = server.prepare(agent)
        assert told["agentStatus"] == "FAILED"
        assert id in told["failureReasons"][0]
        server.control.update_agent_knowledge_base(
            agentId=agent, agentVersion="DRAFT", knowledgeBaseId=id, knowledgeBaseState="DISABLED"
        )
        assert server.prepare(agent)["agentStatus"] == "PREPARED"
