"""Agents in folders: shown as DRAFT, read again when their files change, never changed."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from control_support import (
    CLAUDE,
    FUNCTIONS,
    ID,
    INSTRUCTION,
    LAMBDA,
    ROLE,
    Answering,
    Served,
    by_caller,
    calls,
    definition,
    refused,
    says,
    served,
    write_agent,
)

from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.server.agents.folders import Folders
from orchestrator.server.operations import Caller
from orchestrator.server.runtime import invoke
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.support.threads import in_thread


def which(request: Any) -> str:
    return says("new" if "NEW" in request.system else "old")


class Clock:
    """A time that only tests move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def watched(agents: Path, clock: Clock, script: Any = which) -> Iterator[Served]:
    with served(script, agents=agents) as server:
        agents = server.world.agents
        folders = Folders(agents.resources, agents.fingerprint_folder, clock)
        agents.folders = agents.store.folders = folders
        yield server


def edit(folder: Path, **given: Any) -> None:
    file = folder / "agent.json"
    before = file.stat()
    file.write_text(json.dumps(definition(**given)))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


def test_an_agent_in_a_folder_is_shown_as_draft(tmp_path: Path) -> None:
    template = '{"system": "MINE", "messages": [{"role": "user", "content": "$question$"}]}'
    folder = write_agent(
        tmp_path / "one",
        definition(
            description="Vacations.",
            tags={"team": "hr"},
            actionGroups=[
                by_caller("hr"),
                {"actionGroupName": "ask", "parentActionGroupSignature": "AMAZON.UserInput"},
            ],
            promptOverrideConfiguration={
                "promptConfigurations": [
                    {"promptType": "ORCHESTRATION", "basePromptTemplateFile": "mine.json"}
                ]
            },
        ),
    )
    (folder / "mine.json").write_text(template)
    with served(which, agents=tmp_path) as server:
        agent = server.control.get_agent(agentId=ID)["agent"]
        assert (agent["agentName"], agent["agentStatus"]) == ("vacations", "PREPARED")
        assert (agent["agentVersion"], agent["description"]) == ("DRAFT", "Vacations.")
        assert agent["instruction"] == INSTRUCTION
        prompts = {
            it["promptType"]: it
            for it in agent["promptOverrideConfiguration"]["promptConfigurations"]
        }
        assert prompts["ORCHESTRATION"]["basePromptTemplate"] == template
        assert prompts["ORCHESTRATION"]["promptCreationMode"] == "OVERRIDDEN"
        assert prompts["POST_PROCESSING"]["promptCreationMode"] == "DEFAULT"
        (summary,) = server.control.list_agents()["agentSummaries"]
        assert summary["agentId"] == ID
        groups = server.control.list_agent_action_groups(agentId=ID, agentVersion="DRAFT")[
            "actionGroupSummaries"
        ]
        assert [it["actionGroupName"] for it in groups] == ["hr", "ask"]
        whole = server.control.get_agent_action_group(
            agentId=ID, agentVersion="DRAFT", actionGroupId=groups[0]["actionGroupId"]
        )["agentActionGroup"]
        assert whole["functionSchema"] == {"functions": FUNCTIONS}
        assert whole["actionGroupExecutor"] == {"customControl": "RETURN_CONTROL"}
        (alias,) = server.control.list_agent_aliases(agentId=ID)["agentAliasSummaries"]
        assert alias["agentAliasId"] == "TSTALIASID"
        (version,) = server.control.list_agent_versions(agentId=ID)["agentVersionSummaries"]
        assert version["agentVersion"] == "DRAFT"
        tags = server.control.list_tags_for_resource(resourceArn=agent["agentArn"])["tags"]
        assert tags == {"team": "hr"}
        assert server.ask(ID) == "old"
        assert server.model.requests[-1].system == "MINE"
        for alias_id in ("NOWHERE123", "0000000000"):
            with refused("ResourceNotFoundException"):
                server.ask(ID, alias_id)


def test_the_aliases_that_a_folder_names_are_the_agent_as_it_is(tmp_path: Path) -> None:
    aliases = [
        {"agentAliasName": "live", "agentAliasId": "LIVEALIAS1"},
        {"agentAliasName": "test", "agentAliasId": "TESTALIAS1"},
    ]
    write_agent(tmp_path, definition(aliases=aliases))
    with served(which, agents=tmp_path) as server:
        for id in ("TSTALIASID", "LIVEALIAS1", "TESTALIAS1"):
            assert server.ask(ID, id) == "old"
        with refused("ResourceNotFoundException"):
            server.ask(ID, "OTHERALIAS")
        listed = server.control.list_agent_aliases(agentId=ID)["agentAliasSummaries"]
        assert [(it["agentAliasName"], it["agentAliasId"]) for it in listed] == [
            ("AgentTestAlias", "TSTALIASID"),
            ("live", "LIVEALIAS1"),
            ("test", "TESTALIAS1"),
        ]
        alias = server.control.get_agent_alias(agentId=ID, agentAliasId="LIVEALIAS1")["agentAlias"]
        assert alias["agentAliasArn"].endswith(f":agent-alias/{ID}/LIVEALIAS1")
        assert alias["routingConfiguration"] == [{"agentVersion": "DRAFT"}]
        with refused("ResourceNotFoundException"):
            server.control.get_agent_alias(agentId=ID, agentAliasId="OTHERALIAS")
        assert [it[1] for it in server.world.agents.list_invocable(Caller())] == [
            *("TSTALIASID", "LIVEALIAS1", "TESTALIAS1")
        ]


def test_one_agents_folder_is_enough_and_its_id_may_be_made(tmp_path: Path) -> None:
    given = definition()
    del given["agentId"]
    write_agent(tmp_path, given)
    with served(which, agents=tmp_path) as server:
        (summary,) = server.control.list_agents()["agentSummaries"]
        assert len(summary["agentId"]) == 10
        assert server.ask(summary["agentId"]) == "old"


def test_the_folders_templates_are_the_agents(tmp_path: Path) -> None:
    template = '{"system": "MINE", "messages": [{"role": "user", "content": "$question$"}]}'
    folder = write_agent(tmp_path / "one", definition())
    (folder / "templates").mkdir()
    (folder / "templates" / "orchestration.json").write_text(template)
    with served(which, agents=tmp_path) as server:
        agent = server.control.get_agent(agentId=ID)["agent"]
        (own,) = [
            it
            for it in agent["promptOverrideConfiguration"]["promptConfigurations"]
            if it["promptCreationMode"] == "OVERRIDDEN"
        ]
        assert (own["promptType"], own["basePromptTemplate"]) == ("ORCHESTRATION", template)


def test_what_changes_an_agent_in_a_folder_names_its_file(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", definition(actionGroups=[by_caller()]))
    file = "'…/agent.json'"
    with served(which, agents=tmp_path) as server:
        control, draft = server.control, {"agentId": ID, "agentVersion": "DRAFT"}
        arn = control.get_agent(agentId=ID)["agent"]["agentArn"]
        group = control.list_agent_action_groups(**draft)["actionGroupSummaries"][0]
        id = {"actionGroupId": group["actionGroupId"]}
        names = {"agentName": "x", "foundationModel": CLAUDE, "agentResourceRoleArn": ROLE}
        descriptor = {"aliasArn": server.world.agents.store.arns.alias(ID, "TSTALIASID")}
        led = {"collaboratorName": "x", "collaborationInstruction": "x"}
        for call, params in (
            (control.update_agent, {"agentId": ID, **names}),
            (control.delete_agent, {"agentId": ID, "skipResourceInUseCheck": True}),
            (control.create_agent_alias, {"agentId": ID, "agentAliasName": "x"}),
            (control.create_agent_action_group, {**draft, **by_caller("x")}),
            (control.update_agent_action_group, {**draft, **id, **by_caller("x")}),
            (control.delete_agent_action_group, {**draft, **id}),
            (
                control.associate_agent_knowledge_base,
                {**draft, "knowledgeBaseId": "NOWHERE123", "description": "x"},
            ),
            (
                control.associate_agent_collaborator,
                {**draft, "agentDescriptor": descriptor, **led},
            ),
        ):
            with refused("ConflictException", file):
                call(**params)
        with refused("ValidationException", file):
            control.tag_resource(resourceArn=arn, tags={"a": "b"})
        with refused("ConflictException", "'vacations'"):
            server.create("vacations")
        assert control.get_agent(agentId=ID)["agent"]["agentStatus"] == "PREPARED"


def test_an_edit_is_seen_by_the_next_invocation(tmp_path: Path) -> None:
    folder, clock = write_agent(tmp_path / "one", definition()), Clock()
    with watched(tmp_path, clock) as server:
        assert server.ask(ID, sessionId="s-1") == "old"
        edit(folder, instruction=f"NEW {INSTRUCTION}", description="Edited.")
        assert server.ask(ID, sessionId="s-2") == "new"
        assert server.control.get_agent(agentId=ID)["agent"]["description"] == "Edited."


def test_an_edit_is_told_when_the_files_are_looked_at_next(tmp_path: Path) -> None:
    folder, clock = write_agent(tmp_path / "one", definition(description="Old.")), Clock()
    with watched(tmp_path, clock) as server:
        told = lambda: server.control.get_agent(agentId=ID)["agent"]["description"]  # noqa: E731
        assert told() == "Old."
        edit(folder, description="Edited.")
        clock.now = 0.9
        assert told() == "Old."
        clock.now = 1.0
        assert told() == "Edited."


def test_a_folders_agent_is_prepared_as_others_are(tmp_path: Path) -> None:
    folder, clock = write_agent(tmp_path / "one", definition()), Clock()
    with watched(tmp_path, clock) as server:
        before = server.world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        assert server.control.prepare_agent(agentId=ID)["agentStatus"] == "PREPARING"
        assert server.control.get_agent(agentId=ID)["agent"]["agentStatus"] == "PREPARED"
        after = server.world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        assert after.plan.stages is not before.plan.stages  # it was read again
        edit(folder, description="Edited.")
        server.control.prepare_agent(agentId=ID)
        assert server.control.get_agent(agentId=ID)["agent"]["description"] == "Edited."
        edit(folder, actionGroups=[{**by_caller(), "apiSchema": {"file": "no.json"}}])
        assert server.control.prepare_agent(agentId=ID)["agentStatus"] == "PREPARING"
        agent = server.control.get_agent(agentId=ID)["agent"]
        assert agent["agentStatus"] == "FAILED" and agent["failureReasons"]


def test_an_agent_whose_files_are_the_same_is_not_made_anew(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", definition())
    clock = Clock()
    with watched(tmp_path, clock) as server:
        before = server.world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        clock.now = 10.0
        after = server.world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        assert after.plan.stages is before.plan.stages


def let_be(folder: Path) -> None:
    """Has a folder look as if nothing had been added to it for an hour."""
    before = folder.stat().st_mtime_ns - 3_600_000_000_000
    os.utime(folder, ns=(before, before))


def test_an_agent_whose_files_are_the_same_answers_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_agent(tmp_path / "one", definition())
    let_be(folder)
    threads = 0

    def count(*arguments: Any, **given: Any) -> Any:
        nonlocal threads
        threads += 1
        return in_thread(*arguments, **given)

    monkeypatch.setattr(invoke, "in_thread", count)
    with watched(tmp_path, Clock()) as server:
        assert server.ask(ID) == "old"
        assert threads == 1  # it was compiled
        assert server.ask(ID) == "old"
        assert threads == 1


@pytest.mark.parametrize("change", ["edited", "added", "taken away", "another agent"])
def test_a_change_of_an_agents_files_counts_from_the_next_invocation(
    tmp_path: Path, change: str
) -> None:
    folder = write_agent(tmp_path / "one", definition())
    (folder / "notes.txt").write_text("Nothing.")
    let_be(folder)
    with watched(tmp_path, Clock()) as server:
        agents = server.world.agents
        assert server.ask(ID) == "old"
        assert agents.get_cached(Caller(), ID, "TSTALIASID") is not None
        if change == "edited":
            edit(folder, instruction=f"NEW {INSTRUCTION}")
        elif change == "added":
            (folder / "templates").mkdir()
            template = '{"system": "NEW", "messages": [{"role": "user", "content": "$question$"}]}'
            (folder / "templates" / "orchestration.json").write_text(template)
        elif change == "taken away":
            (folder / "notes.txt").unlink()
        else:
            write_agent(tmp_path / "two", definition(agentId="SECOND0001", agentName="second"))
        assert agents.get_cached(Caller(), ID, "TSTALIASID") is None
        assert server.ask(ID) == ("new" if change in ("edited", "added") else "old")


def test_a_folder_that_has_just_changed_is_looked_at_again(tmp_path: Path) -> None:
    folder = write_agent(tmp_path / "one", definition())
    now = time.time_ns()
    os.utime(folder, ns=(now + 60_000_000_000, now + 60_000_000_000))
    with watched(tmp_path, Clock()) as server:
        assert server.ask(ID) == "old"
        # What is added in the same tick of the file system's clock would not show.
        assert server.world.agents.get_cached(Caller(), ID, "TSTALIASID") is None


def test_an_agent_of_many_files_is_not_looked_at_in_the_event_loop(tmp_path: Path) -> None:
    folder = write_agent(tmp_path / "one", definition())
    for number in range(100):
        (folder / f"{number}.txt").write_text("Nothing.")
    let_be(folder)
    with watched(tmp_path, Clock()) as server:
        assert server.ask(ID) == "old"
        assert server.world.agents.get_cached(Caller(), ID, "TSTALIASID") is None


def test_every_file_of_an_agent_counts_but_its_documents(tmp_path: Path) -> None:
    base = {"knowledgeBaseId": "handbook", "folder": "docs", "embedder": None}
    folder = write_agent(tmp_path / "one", definition(knowledgeBases=[]))
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text("# One\n\nText.")
    edit(folder, knowledgeBases=[base])
    clock = Clock()
    with watched(tmp_path, clock) as server:
        found = server.world.agents.folders.find(ID)
        (folder / "docs" / "b.md").write_text("# Two\n\nText.")
        (folder / ".orchestrator").mkdir(exist_ok=True)
        (folder / ".orchestrator" / "x").write_text("x")
        clock.now = 1.0
        assert server.world.agents.folders.find(ID) is found
        (folder / "lambda.py").write_text("x = 1")
        clock.now = 2.0
        assert server.world.agents.folders.find(ID) is not found
        listed = server.control.list_agent_knowledge_bases(agentId=ID, agentVersion="DRAFT")
        assert listed["agentKnowledgeBaseSummaries"] == []  # the API has no such id


@pytest.mark.parametrize("broken", ["{", '{"agentName": 7}', "no file"])
def test_a_broken_edit_is_told_and_nothing_older_answers(tmp_path: Path, broken: str) -> None:
    folder, clock = write_agent(tmp_path / "one", definition()), Clock()
    with watched(tmp_path, clock) as server:
        assert server.ask(ID) == "old"
        if broken == "no file":
            edit(folder, actionGroups=[{**by_caller(), "apiSchema": {"file": "no.json"}}])
        else:
            (folder / "agent.json").write_text(broken)
        clock.now = 1.0
        agent = server.control.get_agent(agentId=ID)["agent"]
        assert agent["agentStatus"] == "FAILED"
        assert agent["agentName"] == "vacations"
        assert agent["failureReasons"][0].startswith("…/agent.json:1:")
        with refused("ValidationException", "…/agent.json:1:"):
            server.ask(ID)
        assert server.world.agents.list_invocable(Caller()) == []
        edit(folder)
        clock.now = 2.0
        assert server.control.get_agent(agentId=ID)["agent"]["agentStatus"] == "PREPARED"
        assert server.ask(ID) == "old"


def test_a_broken_template_is_told_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    override = {
        "promptConfigurations": [
            {"promptType": "ORCHESTRATION", "basePromptTemplateFile": "mine.json"}
        ]
    }
    folder = write_agent(tmp_path / "one", definition(promptOverrideConfiguration=override))
    (folder / "mine.json").write_text('{\n "system": }')
    with served(which, agents=tmp_path) as server:
        agent = server.control.get_agent(agentId=ID)["agent"]
        assert agent["agentStatus"] == "FAILED"
        assert agent["failureReasons"][0].startswith("…/mine.json:2:")
        server.control.get_agent(agentId=ID)
    told = [it for it in caplog.messages if f"{folder / 'mine.json'}:2:" in it]
    assert len(told) == 1  # the operator reads it once


def test_agents_come_and_go_with_their_folders(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", definition())
    clock = Clock()
    with watched(tmp_path, clock) as server:
        write_agent(tmp_path / "two", definition(agentId="SECOND0001", agentName="second"))
        (tmp_path / "not-an-agent").mkdir()
        clock.now = 1.0
        found = server.control.list_agents()["agentSummaries"]
        assert [it["agentName"] for it in found] == ["second", "vacations"]
        shutil.rmtree(tmp_path / "one")
        clock.now = 2.0
        with refused("ResourceNotFoundException"):
            server.ask(ID)
        assert server.ask("SECOND0001") == "old"


def test_two_folders_of_one_id_do_not_start(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", definition())
    write_agent(tmp_path / "two", definition(agentName="other"))
    with pytest.raises(DefinitionError, match=f"second agent with the id '{ID}'.*one"):
        ServerState(Settings(agents=tmp_path))
    write_agent(tmp_path / "two", definition(agentId="SECOND0001"))
    with pytest.raises(DefinitionError, match="second agent with the name 'vacations'"):
        ServerState(Settings(agents=tmp_path))


def test_a_second_folder_of_an_id_that_comes_later_is_told(tmp_path: Path) -> None:
    write_agent(tmp_path / "one", definition())
    clock = Clock()
    with watched(tmp_path, clock) as server:
        write_agent(tmp_path / "two", definition(agentName="other"))
        clock.now = 1.0
        found = {it["agentName"]: it for it in server.control.list_agents()["agentSummaries"]}
        assert found["vacations"]["agentStatus"] == "PREPARED"
        assert found["other"]["agentStatus"] == "FAILED"
        reasons = server.control.get_agent(agentId=found["other"]["agentId"])["agent"]
        assert "second agent with the id" in reasons["failureReasons"][0]
        assert server.ask(ID) == "old"
        edit(tmp_path / "two", agentId="SECOND0001", agentName="other")
        clock.now = 2.0
        assert server.ask("SECOND0001") == "old"


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_folder_without_agents_does_not_start(tmp_path: Path, name: str) -> None:
    with pytest.raises(ResourceNotFound, match="agent"):
        ServerState(Settings(agents=tmp_path / name))


def test_what_a_folder_names_of_aws_is_looked_for_here_first(tmp_path: Path) -> None:
    def vacations(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {
            "messageVersion": "1.0",
            "response": {
                "actionGroup": event["actionGroup"],
                "function": event["function"],
                "functionResponse": {"responseBody": {"TEXT": {"body": "12 days"}}},
            },
        }

    group = by_caller("hr", actionGroupExecutor={"lambda": LAMBDA})
    folder = write_agent(tmp_path / "one", definition(actionGroups=[group]))
    script = [calls("hr__get_days", {"employee": "Ann"}), says("told")]
    with served(script, agents=tmp_path, lambdas={LAMBDA: vacations}) as server:
        assert server.ask(ID) == "told"
        assert "12 days" in str(server.model.requests[-1].messages)
        (summary,) = server.control.list_agent_action_groups(agentId=ID, agentVersion="DRAFT")[
            "actionGroupSummaries"
        ]
        whole = server.control.get_agent_action_group(
            agentId=ID, agentVersion="DRAFT", actionGroupId=summary["actionGroupId"]
        )["agentActionGroup"]
        assert whole["actionGroupExecutor"] == {"lambda": LAMBDA}
    assert folder


def test_the_models_that_the_operator_set_answer(tmp_path: Path) -> None:
    stage = {"promptType": "ORCHESTRATION", "foundationModel": "cohere.command-r-v1:0"}
    given = definition(promptOverrideConfiguration={"promptConfigurations": [stage]})
    write_agent(tmp_path / "one", given)
    answers = Answering(lambda request: says("set"))
    with ServerState(Settings(agents=tmp_path), models={"cohere.*": answers}) as world:
        agent = world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        assert agent.invoke("Hello?", "s-1").text == "set"


def test_a_folders_private_model_is_not_told(tmp_path: Path) -> None:
    spec = "openai:gpt@http://10.0.0.7:8000/v1"
    write_agent(tmp_path / "one", definition(foundationModel=spec))
    with served(which, agents=tmp_path) as server:
        agent = server.control.get_agent(agentId=ID)["agent"]
        assert "foundationModel" not in agent
        assert "10.0.0.7" not in json.dumps(agent, default=str)
