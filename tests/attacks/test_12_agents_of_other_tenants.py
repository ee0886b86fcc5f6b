"""Attack 12: nothing of one tenant is seen by another: agents, names, tokens, tags, sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_support import (
    CLAUDE,
    INSTRUCTION,
    Served,
    by_caller,
    members,
    refused,
    says,
    served,
    write_agent,
)

SECRET = "s" * 40
TOKEN = "t" * 40


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    keys = tmp_path / "keys.json"
    entry = {"secretAccessKey": SECRET, "allow": ["*"]}
    keys.write_text(
        json.dumps(
            [
                {**entry, "accessKeyId": "AKIDONE", "tenant": "one"},
                {**entry, "accessKeyId": "AKIDTWO", "tenant": "two"},
            ]
        )
    )
    keys.chmod(0o600)
    write_agent(
        tmp_path / "agents" / "shared",
        {
            "agentId": "SHARED0001",
            "agentName": "shared",
            "foundationModel": CLAUDE,
            "instruction": INSTRUCTION,
        },
    )

    def answer(request: Any) -> str:
        return says(f"{len(request.messages)} messages")

    with served(answer, keys=keys, agents=tmp_path / "agents") as running:
        yield running


def both(server: Served) -> tuple[Any, Any]:
    return server.control_as("AKIDONE", SECRET), server.control_as("AKIDTWO", SECRET)


def test_the_same_names_and_tokens_are_two_agents(server: Served) -> None:
    one, two = both(server)
    first = one.create_agent(clientToken=TOKEN, **members())["agent"]
    second = two.create_agent(clientToken=TOKEN, **members(description="Mine."))["agent"]
    assert first["agentId"] != second["agentId"]
    for client, own in ((one, first), (two, second)):
        found = {it["agentId"] for it in client.list_agents()["agentSummaries"]}
        assert found == {"SHARED0001", own["agentId"]}


def test_anothers_agent_is_not_there(server: Served) -> None:
    one, two = both(server)
    id = one.create_agent(tags={"a": "b"}, **members())["agent"]["agentId"]
    group = one.create_agent_action_group(agentId=id, agentVersion="DRAFT", **by_caller())
    group_id = group["agentActionGroup"]["actionGroupId"]
    one.prepare_agent(agentId=id)
    alias = one.create_agent_alias(agentId=id, agentAliasName="live")["agentAlias"]
    arn = one.get_agent(agentId=id)["agent"]["agentArn"]
    draft = {"agentId": id, "agentVersion": "DRAFT"}
    update = members("mine")
    for call, params in (
        (two.get_agent, {"agentId": id}),
        (two.update_agent, {"agentId": id, **update}),
        (two.prepare_agent, {"agentId": id}),
        (two.delete_agent, {"agentId": id, "skipResourceInUseCheck": True}),
        (two.list_agent_action_groups, draft),
        (two.get_agent_action_group, {**draft, "actionGroupId": group_id}),
        (two.delete_agent_action_group, {**draft, "actionGroupId": group_id}),
        (two.create_agent_action_group, {**draft, **by_caller("x")}),
        (two.list_agent_aliases, {"agentId": id}),
        (two.get_agent_alias, {"agentId": id, "agentAliasId": alias["agentAliasId"]}),
        (two.delete_agent_alias, {"agentId": id, "agentAliasId": alias["agentAliasId"]}),
        (two.create_agent_alias, {"agentId": id, "agentAliasName": "x"}),
        (two.list_agent_versions, {"agentId": id}),
        (two.get_agent_version, {"agentId": id, "agentVersion": "1"}),
        (two.delete_agent_version, {"agentId": id, "agentVersion": "1"}),
        (two.list_tags_for_resource, {"resourceArn": arn}),
        (two.tag_resource, {"resourceArn": arn, "tags": {"c": "d"}}),
        (two.untag_resource, {"resourceArn": arn, "tagKeys": ["a"]}),
    ):
        with refused("ResourceNotFoundException"):
            call(**params)
    assert one.list_tags_for_resource(resourceArn=arn)["tags"] == {"a": "b"}
    runtime = server.runtime_as("AKIDTWO", SECRET)
    for alias_id in ("TSTALIASID", alias["agentAliasId"]):
        with refused("ResourceNotFoundException"):
            server.ask(id, alias_id, client=runtime)


def test_anothers_agent_is_not_led(server: Served) -> None:
    one, two = both(server)
    id = one.create_agent(**members())["agent"]["agentId"]
    one.prepare_agent(agentId=id)
    alias = one.create_agent_alias(agentId=id, agentAliasName="live")["agentAlias"]
    leader = two.create_agent(**members("leader", agentCollaboration="SUPERVISOR"))["agent"]
    with refused("ResourceNotFoundException"):
        two.associate_agent_collaborator(
            agentId=leader["agentId"],
            agentVersion="DRAFT",
            agentDescriptor={"aliasArn": alias["agentAliasArn"]},
            collaboratorName="helper",
            collaborationInstruction="x",
        )


def test_a_page_of_one_tenants_list_is_not_anothers(server: Served) -> None:
    one, two = both(server)
    for n in range(3):
        one.create_agent(**members(f"a{n}"))
        two.create_agent(**members(f"a{n}"))
    token = one.list_agents(maxResults=1)["nextToken"]
    with refused("ValidationException", "nextToken"):
        two.list_agents(maxResults=1, nextToken=token)


def test_an_agent_in_a_folder_is_everybodys_and_its_sessions_are_not(server: Served) -> None:
    first, second = (server.runtime_as(key, SECRET) for key in ("AKIDONE", "AKIDTWO"))
    say = {"sessionId": "the-same"}
    assert server.ask("SHARED0001", client=first, **say) == "1 messages"
    assert server.ask("SHARED0001", client=first, **say) == "3 messages"
    assert server.ask("SHARED0001", client=second, **say) == "1 messages"
