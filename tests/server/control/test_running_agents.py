"""What agents that were made through the API do when they run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from control_support import (
    CLAUDE,
    INSTRUCTION,
    LAMBDA,
    ROLE,
    Answering,
    Served,
    by_caller,
    members,
    refused,
    says,
    served,
    write_agent,
)

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models import Model
from orchestrator.server.operations import Caller, Fault, Request
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState


def test_whom_a_caller_can_invoke_is_listed(tmp_path: Path) -> None:
    shared = {
        "agentId": "SHARED0001",
        "agentName": "shared",
        "description": "For all.",
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
    }
    write_agent(tmp_path / "one", shared)
    with served(lambda request: says("Yes."), agents=tmp_path) as server:
        server.create("never-prepared")
        id = server.ready("claims", description="Claims.")
        alias = server.alias(id)["agentAliasId"]
        assert server.world.agents.list_invocable(Caller()) == [
            ("SHARED0001", "TSTALIASID", "shared", "For all."),
            (id, "TSTALIASID", "claims", "Claims."),
            (id, alias, "claims", "Claims."),
        ]
        assert server.world.agents.list_invocable(Caller("other")) == [
            ("SHARED0001", "TSTALIASID", "shared", "For all.")
        ]


def test_an_agent_is_built_once_for_many_threads() -> None:
    with served(lambda request: says("Yes.")) as server:
        id = server.ready()
        alias = server.alias(id)["agentAliasId"]
        start = Barrier(8)

        def running(_: int) -> Any:
            start.wait()
            return server.world.agents.resolve_alias(Caller(), id, alias).plan.stages

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(running, range(8)))
        assert all(it is found[0] for it in found)


def test_what_is_not_there_is_not_found(server: Served) -> None:
    running = server.world.agents.resolve_alias
    with pytest.raises(ResourceNotFound, match="NOWHERE123"):
        running(Caller(), "NOWHERE123", "TSTALIASID")
    id = server.ready()
    with pytest.raises(ResourceNotFound, match="NOWHERE123"):
        running(Caller(), id, "NOWHERE123")
    with pytest.raises(ResourceNotFound):
        running(Caller("other"), id, "TSTALIASID")
    unprepared = server.create("other")
    with pytest.raises(ValidationError, match="never prepared"):
        running(Caller(), unprepared, "TSTALIASID")


def test_sessions_remember_over_versions_of_one_alias(server: Served) -> None:
    id = server.ready()
    alias = server.alias(id)["agentAliasId"]
    server.ask(id, alias, "My name is Ann.", sessionId="s-1")
    server.control.update_agent(agentId=id, **members(description="Edited."))
    server.prepare(id)
    server.control.update_agent_alias(agentId=id, agentAliasId=alias, agentAliasName="live")
    server.ask(id, alias, "Who am I?", sessionId="s-1")
    assert "My name is Ann." in str(server.model.requests[-1].messages)
    server.ask(id, "TSTALIASID", "Who am I?", sessionId="s-1")
    assert "My name is Ann." not in str(server.model.requests[-1].messages)


def test_an_agent_with_a_memory_remembers_over_sessions() -> None:
    def answer(request: Any) -> str:
        if request.stage == "MEMORY_SUMMARIZATION":
            return "<summary><topic name='names'>The user is Ann.</topic></summary>"
        return says("Hello.")

    with served(answer) as server:
        memory = {"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 30}
        id = server.ready(memoryConfiguration=memory)
        alias = server.alias(id)["agentAliasId"]
        server.ask(id, alias, "I am Ann.", sessionId="s-1", memoryId="ann")
        server.ask(id, alias, "Bye.", sessionId="s-1", memoryId="ann", endSession=True)
        found = server.runtime.get_agent_memory(
            agentId=id, agentAliasId=alias, memoryId="ann", memoryType="SESSION_SUMMARY"
        )
        assert "Ann" in str(found["memoryContents"])


def test_custom_orchestration_decides_instead_of_the_loop() -> None:
    def orchestrates(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {
            "version": "1.0",
            "actionEvent": "FINISH",
            "output": {"text": "by the function"},
            "context": {"sessionAttributes": {}, "promptSessionAttributes": {}},
        }

    with served(lambda request: says("no"), lambdas={LAMBDA: orchestrates}) as server:
        id = server.ready(
            orchestrationType="CUSTOM_ORCHESTRATION",
            customOrchestration={"executor": {"lambda": LAMBDA}},
        )
        assert server.ask(id) == "by the function"


def test_state_outlives_the_server(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path / "sessions.sqlite")
    models: dict[str, Model] = {"*": Answering(lambda request: says("Yes."))}

    def call(world: ServerState, operation: str, **params: Any) -> Any:
        handler = world.operations()["bedrock-agent"][operation]
        return handler(Request("bedrock-agent", operation, params, Caller()))

    with ServerState(settings, models=models) as world:
        id = call(world, "CreateAgent", **members())["agent"]["agentId"]
        group = {"agentId": id, "agentVersion": "DRAFT", **by_caller()}
        call(world, "CreateAgentActionGroup", **group)
        call(world, "PrepareAgent", agentId=id)
        alias = call(world, "CreateAgentAlias", agentId=id, agentAliasName="live")["agentAlias"]
    with (
        ServerState(settings, models=models) as first,
        ServerState(settings, models=models) as other,
    ):
        agent = first.agents.resolve_alias(Caller(), id, alias["agentAliasId"])
        assert agent.invoke("Hello?", "s-1").text == "Yes."
        call(first, "UpdateAgent", agentId=id, **members("renamed"))
        call(first, "PrepareAgent", agentId=id)
        assert other.agents.resolve_alias(Caller(), id, "TSTALIASID").name == "renamed"
        assert call(other, "GetAgent", agentId=id)["agent"]["agentName"] == "renamed"


def test_a_model_that_is_not_there_fails_the_agent() -> None:
    with ServerState(Settings()) as world:
        handlers = world.operations()["bedrock-agent"]

        def call(operation: str, **params: Any) -> Any:
            return handlers[operation](Request("bedrock-agent", operation, params, Caller()))

        for name, spec in (("one", "openai:gpt@http://10.0.0.1/v1"), ("two", "replay:/etc/passwd")):
            id = call("CreateAgent", **members(name, foundationModel=spec))["agent"]["agentId"]
            call("PrepareAgent", agentId=id)
            agent = call("GetAgent", agentId=id)["agent"]
            assert agent["agentStatus"] == "FAILED"
            assert "callers cannot choose" in agent["failureReasons"][0]


def test_the_trace_names_the_servers_region_and_account() -> None:
    settings = {"region": "eu-central-1", "account": "123456789012"}
    with served(lambda request: says("Yes."), **settings) as server:
        id = server.ready()
        agent = server.control.get_agent(agentId=id)["agent"]
        assert agent["agentArn"] == f"arn:aws:bedrock:eu-central-1:123456789012:agent/{id}"
        plan = server.world.agents.resolve_alias(Caller(), id, "TSTALIASID").plan
        assert plan.alias_arn.startswith("arn:aws:bedrock:eu-central-1:123456789012:agent-alias/")


def test_what_botocore_would_refuse_is_refused_without_it_too(server: Served) -> None:
    with refused("ValidationException"):
        server.create(instruction="x" * 20_001)
    with refused("ValidationException"):
        server.control.update_agent(
            agentId="short", agentName="a", foundationModel=CLAUDE, agentResourceRoleArn=ROLE
        )
    assert server.control.list_agents()["agentSummaries"] == []


def test_a_tenant_has_two_hundred_agents_at_most() -> None:
    with ServerState(Settings()) as world:
        create = world.operations()["bedrock-agent"]["CreateAgent"]

        def made(n: int, tenant: str = "one") -> Any:
            params = {"agentName": f"a{n}"}
            return create(Request("bedrock-agent", "CreateAgent", params, Caller(tenant)))

        for n in range(200):
            made(n)
        with pytest.raises(Fault, match="ServiceQuotaExceededException: there are 200 agents"):
            made(200)
        made(200, "two")


def test_versions_that_are_made_at_once_are_different_versions(server: Served) -> None:
    id = server.ready()
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda n: server.alias(id, f"a{n}"), range(8)))
    versions = sorted(it["routingConfiguration"][0]["agentVersion"] for it in made)
    assert versions == [str(n) for n in range(1, 9)]


def test_an_edit_while_an_agent_is_prepared_is_to_be_prepared_itself(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = server.create()
    check = server.world.agents.check

    def edited_meanwhile(caller: Caller, snapshot: Any) -> None:
        check(caller, snapshot)
        server.control.update_agent(agentId=id, **members(description="Edited."))

    monkeypatch.setattr(server.world.agents, "check", edited_meanwhile)
    assert server.prepare(id)["agentStatus"] == "NOT_PREPARED"
    monkeypatch.setattr(server.world.agents, "check", check)
    alias = server.alias(id)
    version = server.control.get_agent_version(agentId=id, agentVersion="1")["agentVersion"]
    assert "description" not in version
    assert server.ask(id, alias["agentAliasId"]) == "Yes."
    assert server.prepare(id)["agentStatus"] == "PREPARED"
