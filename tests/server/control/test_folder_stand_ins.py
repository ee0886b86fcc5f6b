"""What agents in folders name of AWS, and what the server has in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from control_support import (
    BASE,
    CLAUDE,
    ID,
    LAMBDA,
    Answering,
    definition,
    says,
    served,
    write_agent,
)

from orchestrator.server.operations import Caller
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState


def test_a_parser_and_an_orchestration_are_functions_of_the_server(tmp_path: Path) -> None:
    def parse(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {
            "messageVersion": "1.0",
            "promptType": event["promptType"],
            "orchestrationParsedResponse": {
                "rationale": "r",
                "responseDetails": {
                    "invocationType": "FINISH",
                    "agentFinalResponse": {"responseText": "parsed"},
                },
            },
        }

    def orchestrates(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return {
            "version": "1.0",
            "actionEvent": "FINISH",
            "output": {"text": "orchestrated"},
            "context": {"sessionAttributes": {}, "promptSessionAttributes": {}},
        }

    other = LAMBDA.replace("vacations", "orchestrates")
    stage = {"promptType": "ORCHESTRATION", "parserMode": "OVERRIDDEN"}
    prompts = {"promptConfigurations": [stage], "overrideLambda": LAMBDA}
    write_agent(tmp_path / "one", definition(promptOverrideConfiguration=prompts))
    custom = {
        "orchestrationType": "CUSTOM_ORCHESTRATION",
        "customOrchestration": {"executor": {"lambda": other}},
    }
    write_agent(tmp_path / "two", definition(agentId="CUSTOM0001", agentName="two", **custom))
    lambdas = {LAMBDA: parse, "orchestrates": orchestrates}
    with served(lambda request: "raw", agents=tmp_path, lambdas=lambdas) as server:
        assert server.ask(ID) == "parsed"
        assert server.ask("CUSTOM0001") == "orchestrated"
        agent = server.control.get_agent(agentId=ID)["agent"]
        assert agent["promptOverrideConfiguration"]["overrideLambda"] == LAMBDA
        agent = server.control.get_agent(agentId="CUSTOM0001")["agent"]
        assert agent["customOrchestration"] == custom["customOrchestration"]


def test_a_knowledge_base_is_one_of_the_server(tmp_path: Path) -> None:
    folder = write_agent(tmp_path / "one", definition())
    asked: list[str] = []

    def answer(request: Any) -> str:
        asked.extend(tool["toolSpec"]["name"] for tool in request.tools)
        return says("told")

    with served(answer, agents=tmp_path) as server:
        id = server.control.create_knowledge_base(**BASE)["knowledgeBase"]["knowledgeBaseId"]
        base = {"knowledgeBaseId": id, "description": "The handbook."}
        (folder / "agent.json").write_text(json.dumps(definition(knowledgeBases=[base])))
        server.world.agents.folders._looked = float("-inf")
        assert server.ask(ID) == "told"
        assert any(id in name for name in asked)
        plan = server.world.agents.resolve_alias(Caller(), ID, "TSTALIASID").plan
        assert plan.knowledge_bases[id].retrieve("holidays") == []
        (told,) = server.control.list_agent_knowledge_bases(agentId=ID, agentVersion="DRAFT")[
            "agentKnowledgeBaseSummaries"
        ]
        assert (told["knowledgeBaseId"], told["description"]) == (id, "The handbook.")


def test_one_model_of_the_settings_answers_for_all(tmp_path: Path) -> None:
    write_agent(tmp_path / "agents" / "one", definition(foundationModel="local"))
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps(says("by the script")))
    settings = Settings(agents=tmp_path / "agents", model=f"scripted:{script}@{CLAUDE}")
    with ServerState(settings) as world:
        agent = world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        assert agent.invoke("Hello?", "s-1").text == "by the script"


def test_a_model_of_the_folder_is_its_own(tmp_path: Path) -> None:
    folder = write_agent(
        tmp_path / "one", definition(foundationModel=f"scripted:script.jsonl@{CLAUDE}")
    )
    (folder / "script.jsonl").write_text(json.dumps(says("by the folder's script")))
    models = {"cohere.*": Answering(lambda request: says("no"))}
    with ServerState(Settings(agents=tmp_path), models=models) as world:
        agent = world.agents.resolve_alias(Caller(), ID, "TSTALIASID")
        assert agent.invoke("Hello?", "s-1").text == "by the folder's script"
        shown = world.agents.store.agent(Caller(), ID).agent
        assert "foundationModel" not in shown
