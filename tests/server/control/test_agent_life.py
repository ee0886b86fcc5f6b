"""The whole life of an agent, with boto3's own clients over a real server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from control_support import (
    CLAUDE,
    FUNCTIONS,
    INSTRUCTION,
    LAMBDA,
    ROLE,
    Served,
    by_caller,
    by_lambda,
    calls,
    members,
    refused,
    says,
    served,
)

from orchestrator.server.agents import store
from orchestrator.server.control import agents
from orchestrator.server.ids import now


def vacations(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": {"responseBody": {"TEXT": {"body": "12 days"}}},
        },
    }


def test_the_full_life_of_an_agent() -> None:
    script = [calls("hr__get_days", {"employee": "Ann"}), says("12 days are left.")]
    with served(script, lambdas={LAMBDA: vacations}) as server:
        control = server.control
        agent = control.create_agent(**members("vacations", description="Vacations."))["agent"]
        id = agent["agentId"]
        assert agent["agentStatus"] == "CREATING"
        assert agent["agentArn"] == f"arn:aws:bedrock:us-east-1:000000000000:agent/{id}"
        assert control.get_agent(agentId=id)["agent"]["agentStatus"] == "NOT_PREPARED"

        group = server.add(id, **by_lambda())
        prepared = server.prepare(id)
        assert prepared["agentStatus"] == "PREPARED"
        assert prepared["preparedAt"] >= prepared["createdAt"]

        alias = server.alias(id)
        assert alias["agentAliasStatus"] == "CREATING"
        assert alias["routingConfiguration"] == [{"agentVersion": "1"}]
        found = control.get_agent_alias(agentId=id, agentAliasId=alias["agentAliasId"])
        assert found["agentAlias"]["agentAliasStatus"] == "PREPARED"

        answer = server.runtime.invoke_agent(
            agentId=id,
            agentAliasId=alias["agentAliasId"],
            sessionId="s-1",
            inputText="How many days has Ann left?",
            enableTrace=True,
        )
        events = list(answer["completion"])
        assert b"12 days are left." in b"".join(
            it["chunk"]["bytes"] for it in events if "chunk" in it
        )
        part = next(it["trace"] for it in events if "trace" in it)
        assert (part["agentId"], part["agentAliasId"]) == (id, alias["agentAliasId"])
        assert part["agentVersion"] == "1"
        assert part["callerChain"] == [{"agentAliasArn": alias["agentAliasArn"]}]

        with refused("ConflictException", "is ENABLED"):
            control.delete_agent_action_group(agentId=id, agentVersion="DRAFT", actionGroupId=group)
        with refused("ConflictException", "aliases"):
            control.delete_agent(agentId=id)
        gone = control.delete_agent_alias(agentId=id, agentAliasId=alias["agentAliasId"])
        assert gone["agentAliasStatus"] == "DELETING"
        assert control.delete_agent(agentId=id)["agentStatus"] == "DELETING"
        for call in (control.get_agent, control.list_agent_aliases, control.prepare_agent):
            with refused("ResourceNotFoundException", id):
                call(agentId=id)
        with refused("ResourceNotFoundException", id):
            server.ask(id)


def test_deleting_an_agent_takes_all_of_it_along(server: Served) -> None:
    id = server.ready()
    server.add(id, **by_caller())
    alias = server.alias(id)["agentAliasId"]
    server.control.delete_agent(agentId=id, skipResourceInUseCheck=True)
    with refused("ResourceNotFoundException"):
        server.ask(id, alias)
    kept = server.world.documents._rows._file.rows("SELECT kind, id FROM document")
    assert kept == []


def test_what_get_agent_tells_is_what_was_given_and_aws_defaults(server: Served) -> None:
    given = members(
        "claims",
        description="About claims.",
        idleSessionTTLInSeconds=900,
        memoryConfiguration={"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 7},
        guardrailConfiguration={"guardrailIdentifier": "abc123", "guardrailVersion": "1"},
        agentCollaboration="DISABLED",
        tags={"team": "claims"},
    )
    id = server.control.create_agent(**given)["agent"]["agentId"]
    agent = server.control.get_agent(agentId=id)["agent"]
    for name, value in given.items():
        assert name == "tags" or agent[name] == value
    assert agent["orchestrationType"] == "DEFAULT"
    tags = server.control.list_tags_for_resource(resourceArn=agent["agentArn"])["tags"]
    assert tags == {"team": "claims"}
    bare = server.control.create_agent(agentName="bare")["agent"]
    assert bare["idleSessionTTLInSeconds"] == 600
    assert bare["agentResourceRoleArn"].startswith("arn:aws:iam::000000000000:role/")
    assert bare["agentVersion"] == "DRAFT"
    assert "promptOverrideConfiguration" not in bare  # without a model there is no default


def test_update_agent_says_what_the_agent_is_from_now_on(server: Served) -> None:
    id = server.ready(description="Old.", idleSessionTTLInSeconds=900)
    before = server.control.get_agent(agentId=id)["agent"]
    updated = server.control.update_agent(
        agentId=id, agentName="other", foundationModel=CLAUDE, agentResourceRoleArn=ROLE
    )["agent"]
    assert updated["agentStatus"] == "UPDATING"
    agent = server.control.get_agent(agentId=id)["agent"]
    assert (agent["agentName"], agent["agentStatus"]) == ("other", "NOT_PREPARED")
    assert "description" not in agent
    assert "instruction" not in agent
    assert agent["idleSessionTTLInSeconds"] == 600
    assert agent["createdAt"] == before["createdAt"]
    assert agent["updatedAt"] > before["updatedAt"]


def test_an_agents_name_is_its_own(server: Served) -> None:
    first = server.create("claims")
    second = server.create("other")
    with refused("ConflictException", "'claims'"):
        server.create("claims")
    with refused("ConflictException", "'claims'"):
        server.control.update_agent(agentId=second, **members("claims"))
    server.control.update_agent(agentId=first, **members("claims"))
    server.control.delete_agent(agentId=first)
    assert server.create("claims") != first


def test_an_edit_is_not_seen_before_it_is_prepared() -> None:
    def answer(request: Any) -> str:
        return says("new" if "NEW" in request.system else "old")

    with served(answer) as server:
        id = server.create()
        with refused("ValidationException", "never prepared"):
            server.ask(id)
        server.prepare(id)
        assert server.ask(id) == "old"
        edited = members(instruction=f"NEW {INSTRUCTION}")
        server.control.update_agent(agentId=id, **edited)
        assert server.ask(id, sessionId="s-2") == "old"
        server.prepare(id)
        assert server.ask(id, sessionId="s-3") == "new"


def test_every_edit_of_a_part_is_to_be_prepared(server: Served) -> None:
    id = server.ready()

    def status() -> str:
        found: str = server.control.get_agent(agentId=id)["agent"]["agentStatus"]
        return found

    group = server.add(id, **by_caller())
    assert status() == "NOT_PREPARED"
    where = {"agentId": id, "agentVersion": "DRAFT"}
    edits: list[Callable[[], Any]] = [
        lambda: server.control.update_agent_action_group(
            **where, actionGroupId=group, **by_caller("renamed")
        ),
        lambda: server.control.delete_agent_action_group(
            **where, actionGroupId=group, skipResourceInUseCheck=True
        ),
    ]
    for edit in edits:
        assert server.prepare(id)["agentStatus"] == "PREPARED"
        edit()
        assert status() == "NOT_PREPARED"


def test_an_agent_that_cannot_run_fails_and_says_why(server: Served) -> None:
    id = server.create()
    server.add(id, **by_caller("one", functionSchema={"functions": FUNCTIONS}))
    server.add(id, actionGroupName="shell", parentActionGroupSignature="ANTHROPIC.Bash")
    agent = server.prepare(id)
    assert agent["agentStatus"] == "FAILED"
    (reason,) = agent["failureReasons"]
    assert "ANTHROPIC.Bash" in reason
    assert "preparedAt" not in agent
    with refused(
        "ValidationException", "could not be prepared: the built-in action group 'ANTHROPIC.Bash'"
    ):
        server.ask(id)
    with refused("ValidationException", "never prepared"):
        server.alias(id)


def test_a_failed_edit_leaves_what_was_prepared_running(server: Served) -> None:
    id = server.ready()
    server.add(id, actionGroupName="shell", parentActionGroupSignature="ANTHROPIC.Bash")
    assert server.prepare(id)["agentStatus"] == "FAILED"
    assert server.ask(id) == "Yes."


@pytest.mark.parametrize(
    ("without", "text"), [("instruction", "instruction"), ("foundationModel", "foundation model")]
)
def test_what_cannot_be_prepared_is_refused_at_once(
    server: Served, without: str, text: str
) -> None:
    given = members()
    del given[without]
    id = server.control.create_agent(**given)["agent"]["agentId"]
    with refused("ValidationException", text):
        server.control.prepare_agent(agentId=id)
    assert server.control.get_agent(agentId=id)["agent"]["agentStatus"] == "NOT_PREPARED"


def test_preparing_twice_gives_the_same_agent(server: Served) -> None:
    id = server.ready()
    caller = server.world.agents.resolve_alias
    from orchestrator.server.operations import Caller

    first = caller(Caller(), id, "TSTALIASID").plan
    server.prepare(id)
    assert caller(Caller(), id, "TSTALIASID").plan.stages is first.stages


def test_boto3s_paginators_give_every_agent_once(server: Served) -> None:
    ids = [server.create(f"agent-{n}") for n in range(7)]
    pages = server.control.get_paginator("list_agents").paginate(PaginationConfig={"PageSize": 3})
    found = [[it["agentId"] for it in page["agentSummaries"]] for page in pages]
    assert found == [ids[:3], ids[3:6], ids[6:]]
    summary = server.control.list_agents(maxResults=1)["agentSummaries"][0]
    assert summary["agentName"] == "agent-0"
    assert summary["latestAgentVersion"] == "DRAFT"
    with refused("ValidationException", "nextToken"):
        server.control.list_agents(nextToken="bm9wZQ")


def test_a_request_that_is_sent_twice_makes_one_agent(server: Served) -> None:
    token = "t" * 40
    first = server.control.create_agent(clientToken=token, **members())["agent"]
    again = server.control.create_agent(clientToken=token, **members())["agent"]
    assert again == first
    with refused("ConflictException", "clientToken"):
        server.control.create_agent(clientToken=token, **members("other"))
    where = {"agentId": first["agentId"], "agentVersion": "DRAFT", "clientToken": token}
    groups = [
        server.control.create_agent_action_group(**where, **by_caller())["agentActionGroup"]
        for _ in range(2)
    ]
    assert groups[0] == groups[1]
    server.prepare(first["agentId"])
    aliases = [server.alias(first["agentId"], clientToken=token) for _ in range(2)]
    assert aliases[0] == aliases[1]
    assert (
        server.control.get_agent_version(agentId=first["agentId"], agentVersion="1")[
            "agentVersion"
        ]["agentStatus"]
        == "PREPARED"
    )
    with refused("ResourceNotFoundException"):
        server.control.get_agent_version(agentId=first["agentId"], agentVersion="2")


def test_an_agent_shows_as_preparing_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is looked at, and by however many."""
    monkeypatch.setattr(store, "PREPARING_SECONDS", 1000.0)
    with served() as server:
        id = server.create()

        def look() -> str:
            return str(server.control.get_agent(agentId=id)["agent"]["agentStatus"])

        server.control.prepare_agent(agentId=id)
        assert [look() for _ in range(3)] == 3 * ["PREPARING"]
        later = now() + timedelta(seconds=1001)
        monkeypatch.setattr(agents, "now", lambda: later)
        assert look() == "PREPARED"
        server.control.prepare_agent(agentId=id)
        assert look() == "PREPARING"
        server.add(id, **by_lambda())
        assert look() == "NOT_PREPARED"  # an edit counts at once
