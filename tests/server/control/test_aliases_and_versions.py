"""Versions never change, and aliases point to them."""

from __future__ import annotations

from typing import Any

from control_support import (
    FUNCTIONS,
    INSTRUCTION,
    Served,
    by_caller,
    calls,
    members,
    refused,
    says,
    served,
)


def which(request: Any) -> str:
    return says("new" if "NEW" in request.system else "old")


def edit(server: Served, id: str) -> None:
    server.control.update_agent(agentId=id, **members(instruction=f"NEW {INSTRUCTION}"))


def test_a_version_stays_what_was_prepared() -> None:
    with served(which) as server:
        id = server.create(description="First.")
        group = server.add(id, **by_caller("hr", description="One."))
        server.prepare(id)
        edit(server, id)  # not prepared: the version does not have it
        alias = server.alias(id, "first")
        server.control.update_agent_action_group(
            agentId=id, agentVersion="DRAFT", actionGroupId=group, **by_caller("renamed")
        )
        server.prepare(id)
        assert server.ask(id) == "new"
        assert server.ask(id, alias["agentAliasId"]) == "old"
        version = server.control.get_agent_version(agentId=id, agentVersion="1")["agentVersion"]
        assert (version["instruction"], version["description"]) == (INSTRUCTION, "First.")
        assert version["version"] == "1"
        (kept,) = server.control.list_agent_action_groups(agentId=id, agentVersion="1")[
            "actionGroupSummaries"
        ]
        assert (kept["actionGroupName"], kept["description"]) == ("hr", "One.")
        whole = server.control.get_agent_action_group(
            agentId=id, agentVersion="1", actionGroupId=group
        )["agentActionGroup"]
        assert whole["agentVersion"] == "1"
        assert whole["functionSchema"] == {"functions": FUNCTIONS}
        server.control.delete_agent_action_group(
            agentId=id, agentVersion="DRAFT", actionGroupId=group, skipResourceInUseCheck=True
        )
        assert server.control.list_agent_action_groups(agentId=id, agentVersion="1")[
            "actionGroupSummaries"
        ]


def test_a_versions_templates_and_actions_stay_too() -> None:
    template = '{"system": "MARK %s", "messages": [{"role": "user", "content": "$question$"}]}'
    with served(lambda request: says(request.system)) as server:
        overrides = {
            "promptConfigurations": [
                {
                    "promptType": "ORCHESTRATION",
                    "promptCreationMode": "OVERRIDDEN",
                    "basePromptTemplate": template % "one",
                    "parserMode": "DEFAULT",
                }
            ]
        }
        id = server.ready(promptOverrideConfiguration=overrides)
        alias = server.alias(id)["agentAliasId"]
        overrides["promptConfigurations"][0]["basePromptTemplate"] = template % "two"
        server.control.update_agent(agentId=id, **members(promptOverrideConfiguration=overrides))
        server.prepare(id)
        assert server.ask(id, alias) == "MARK one"
        assert server.ask(id) == "MARK two"


def test_aliases_are_pointed_elsewhere_and_remember_where_they_pointed() -> None:
    with served(which) as server:
        id = server.ready()
        alias = server.alias(id, "live", description="For all.")
        edit(server, id)
        server.prepare(id)
        where = {"agentId": id, "agentAliasId": alias["agentAliasId"], "agentAliasName": "live"}
        updated = server.control.update_agent_alias(**where)["agentAlias"]
        assert updated["agentAliasStatus"] == "UPDATING"
        assert updated["routingConfiguration"] == [{"agentVersion": "2"}]
        assert server.ask(id, alias["agentAliasId"], sessionId="s-2") == "new"
        back = [{"agentVersion": "1"}]
        server.control.update_agent_alias(**where, routingConfiguration=back)
        assert server.ask(id, alias["agentAliasId"], sessionId="s-3") == "old"
        found = server.control.get_agent_alias(agentId=id, agentAliasId=alias["agentAliasId"])[
            "agentAlias"
        ]
        assert "description" not in found
        events = found["agentAliasHistoryEvents"]
        pointed = [it["routingConfiguration"][0]["agentVersion"] for it in events]
        assert pointed == ["1", "2", "1"]
        assert [("endDate" in it) for it in events] == [True, True, False]
        assert events[0]["endDate"] == events[1]["startDate"]
        versions = server.control.list_agent_versions(agentId=id)["agentVersionSummaries"]
        assert [it["agentVersion"] for it in versions] == ["DRAFT", "1", "2"]
        summary = server.control.list_agents()["agentSummaries"][0]
        assert summary["latestAgentVersion"] == "2"


def test_an_alias_may_be_made_of_a_version_that_is_there(server: Served) -> None:
    id = server.ready()
    server.alias(id, "first")
    second = server.alias(id, "second", routingConfiguration=[{"agentVersion": "1"}])
    assert second["routingConfiguration"] == [{"agentVersion": "1"}]
    with refused("ResourceNotFoundException", "'7'"):
        server.alias(id, "third", routingConfiguration=[{"agentVersion": "7"}])
    with refused("ValidationException", "TSTALIASID"):
        server.alias(id, "third", routingConfiguration=[{"agentVersion": "DRAFT"}])
    with refused("ConflictException", "'second'"):
        server.alias(id, "second")
    assert len(server.control.list_agent_versions(agentId=id)["agentVersionSummaries"]) == 2


def test_every_agent_has_the_test_alias(server: Served) -> None:
    id = server.create()
    (alias,) = server.control.list_agent_aliases(agentId=id)["agentAliasSummaries"]
    assert alias["agentAliasId"] == "TSTALIASID"
    assert alias["routingConfiguration"] == [{"agentVersion": "DRAFT"}]
    found = server.control.get_agent_alias(agentId=id, agentAliasId="TSTALIASID")["agentAlias"]
    assert found["agentAliasArn"].endswith(f"agent-alias/{id}/TSTALIASID")
    with refused("ValidationException", "TSTALIASID"):
        server.control.delete_agent_alias(agentId=id, agentAliasId="TSTALIASID")
    with refused("ValidationException", "TSTALIASID"):
        server.control.update_agent_alias(agentId=id, agentAliasId="TSTALIASID", agentAliasName="x")


def test_a_version_in_use_is_not_deleted(server: Served) -> None:
    id = server.ready()
    alias = server.alias(id)["agentAliasId"]
    with refused("ConflictException", alias):
        server.control.delete_agent_version(agentId=id, agentVersion="1")
    gone = server.control.delete_agent_version(
        agentId=id, agentVersion="1", skipResourceInUseCheck=True
    )
    assert (gone["agentVersion"], gone["agentStatus"]) == ("1", "DELETING")
    with refused("ResourceNotFoundException"):
        server.ask(id, alias)
    with refused("ResourceNotFoundException"):
        server.control.list_agent_action_groups(agentId=id, agentVersion="1")
    server.control.delete_agent_alias(agentId=id, agentAliasId=alias)
    assert server.alias(id, "next")["routingConfiguration"] == [{"agentVersion": "2"}]


def test_an_alias_that_rejects_invocations_rejects_them(server: Served) -> None:
    id = server.ready()
    alias = server.alias(id)["agentAliasId"]
    where = {"agentId": id, "agentAliasId": alias, "agentAliasName": "live"}
    routing = [{"agentVersion": "1"}]
    server.control.update_agent_alias(
        **where, routingConfiguration=routing, aliasInvocationState="REJECT_INVOCATIONS"
    )
    with refused("ValidationException", "takes no invocations"):
        server.ask(id, alias)
    server.control.update_agent_alias(
        **where, routingConfiguration=routing, aliasInvocationState="ACCEPT_INVOCATIONS"
    )
    assert server.ask(id, alias) == "Yes."


def test_versions_and_aliases_are_paged(server: Served) -> None:
    id = server.ready()
    for n in range(4):
        server.alias(id, f"a{n}")
    pages = server.control.get_paginator("list_agent_versions").paginate(
        agentId=id, PaginationConfig={"PageSize": 2}
    )
    found = [[it["agentVersion"] for it in page["agentVersionSummaries"]] for page in pages]
    assert found == [["DRAFT", "1"], ["2", "3"], ["4"]]
    pages = server.control.get_paginator("list_agent_aliases").paginate(
        agentId=id, PaginationConfig={"PageSize": 3}
    )
    names = [it["agentAliasName"] for page in pages for it in page["agentAliasSummaries"]]
    assert names == ["AgentTestAlias", "a0", "a1", "a2", "a3"]


def test_only_the_draft_is_edited(server: Served) -> None:
    id = server.ready()
    group = server.add(id, **by_caller())
    server.alias(id)
    for call, more in (
        (server.control.create_agent_action_group, by_caller("other")),
        (
            server.control.update_agent_action_group,
            {"actionGroupId": group, **by_caller("other")},
        ),
        (server.control.delete_agent_action_group, {"actionGroupId": group}),
    ):
        with refused("ValidationException"):
            call(agentId=id, agentVersion="10001", **more)


def test_an_agents_actions_are_those_of_its_version() -> None:
    script = [calls("hr__get_days", {"employee": "Ann"}), says("no tool")]
    with served(script) as server:
        id = server.create()
        server.add(id, **by_caller())
        server.prepare(id)
        alias = server.alias(id)["agentAliasId"]
        assert "get_days" in server.ask(id, alias)


def test_an_agent_has_ten_aliases_at_most(server: Served) -> None:
    id = server.ready()
    first = server.alias(id, "a0")["routingConfiguration"]
    for n in range(1, 10):
        server.alias(id, f"a{n}", routingConfiguration=first)
    with refused("ServiceQuotaExceededException", "10 aliases"):
        server.alias(id, "more", routingConfiguration=first)
