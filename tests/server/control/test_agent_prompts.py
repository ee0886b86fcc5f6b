"""The prompts of agents: whole when they are told, checked when they are given."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from control_support import (
    CLAUDE,
    CLAUDE_3,
    LAMBDA,
    Served,
    members,
    refused,
    says,
    served,
)

JSON = '{"system": "MARK $instruction$", "messages": [{"role": "user", "content": "$question$"}]}'


def one(stage: str = "ORCHESTRATION", **given: Any) -> dict[str, Any]:
    return {"promptConfigurations": [{"promptType": stage, **given}]}


def overridden(stage: str = "ORCHESTRATION", template: str = JSON, **given: Any) -> dict[str, Any]:
    mode = {"promptCreationMode": "OVERRIDDEN", "parserMode": "DEFAULT"}
    return one(stage, **mode, basePromptTemplate=template, **given)


def told(server: Served, id: str) -> dict[str, dict[str, Any]]:
    agent = server.control.get_agent(agentId=id)["agent"]
    found = agent["promptOverrideConfiguration"]["promptConfigurations"]
    return {it["promptType"]: it for it in found}


def test_an_agent_that_changes_nothing_shows_the_prompts_that_it_uses(server: Served) -> None:
    prompts = told(server, server.create())
    assert list(prompts) == [
        "PRE_PROCESSING",
        "ORCHESTRATION",
        "KNOWLEDGE_BASE_RESPONSE_GENERATION",
        "POST_PROCESSING",
    ]
    assert {it["promptCreationMode"] for it in prompts.values()} == {"DEFAULT"}
    assert {it["parserMode"] for it in prompts.values()} == {"DEFAULT"}
    states = {name: it["promptState"] for name, it in prompts.items()}
    assert states["ORCHESTRATION"] == "ENABLED"
    assert states["PRE_PROCESSING"] == "DISABLED"
    assert "$question$" in prompts["ORCHESTRATION"]["basePromptTemplate"]
    assert prompts["ORCHESTRATION"]["inferenceConfiguration"]["maximumLength"] == 2048


def test_a_router_brings_its_prompt(server: Served) -> None:
    prompts = told(server, server.create(agentCollaboration="SUPERVISOR_ROUTER"))
    assert prompts["ROUTING_CLASSIFIER"]["promptCreationMode"] == "DEFAULT"
    own = overridden("ROUTING_CLASSIFIER", "Choose one: $last_user_request$")
    id = server.create(
        "other", agentCollaboration="SUPERVISOR_ROUTER", promptOverrideConfiguration=own
    )
    assert told(server, id)["ROUTING_CLASSIFIER"]["basePromptTemplate"].startswith("Choose")


def test_a_memory_brings_its_prompt(server: Served) -> None:
    memory = {"enabledMemoryTypes": ["SESSION_SUMMARY"]}
    prompts = told(server, server.create(memoryConfiguration=memory))
    assert prompts["MEMORY_SUMMARIZATION"]["promptCreationMode"] == "DEFAULT"


def test_an_override_stands_beside_the_defaults_of_the_other_stages(server: Served) -> None:
    inference = {"temperature": 0.5, "stopSequences": ["</x>"]}
    given = overridden(inferenceConfiguration=inference)
    prompts = told(server, server.create(promptOverrideConfiguration=given))
    assert prompts["ORCHESTRATION"] == {
        **given["promptConfigurations"][0],
        "promptState": "ENABLED",
    }
    assert prompts["PRE_PROCESSING"]["promptCreationMode"] == "DEFAULT"


def test_what_get_agent_told_can_be_sent_back(server: Served) -> None:
    id = server.create(promptOverrideConfiguration=overridden())
    agent = server.control.get_agent(agentId=id)["agent"]
    names = ("agentId", "agentName", "foundationModel", "agentResourceRoleArn", "instruction")
    kept = {name: agent[name] for name in (*names, "promptOverrideConfiguration")}
    again = server.control.update_agent(**kept)["agent"]
    assert again["promptOverrideConfiguration"] == agent["promptOverrideConfiguration"]
    stored = server.world.agents.store.agent(_anybody(), id).agent
    types = [
        it["promptType"] for it in stored["promptOverrideConfiguration"]["promptConfigurations"]
    ]
    assert types == ["ORCHESTRATION"]


def _anybody() -> Any:
    from orchestrator.server.operations import Caller

    return Caller()


@pytest.mark.parametrize(
    "extra",
    [
        {"basePromptTemplate": JSON},
        {"inferenceConfiguration": {"temperature": 0.7}},
        {"promptState": "DISABLED"},
    ],
)
def test_a_default_prompt_changes_nothing(server: Served, extra: dict[str, Any]) -> None:
    given = one(promptCreationMode="DEFAULT", **extra)
    with refused("ValidationException", f"its {next(iter(extra))} is not the default"):
        server.create(promptOverrideConfiguration=given)


def test_templates_that_are_no_json_are_all_told_at_once(server: Served) -> None:
    text = "You are an assistant. $question$"
    configurations = [
        *overridden("PRE_PROCESSING", text)["promptConfigurations"],
        *overridden("ORCHESTRATION", text)["promptConfigurations"],
        *overridden("KNOWLEDGE_BASE_RESPONSE_GENERATION", "$search_results$")[
            "promptConfigurations"
        ],
    ]
    with pytest.raises(ClientError, match="ValidationException") as found:
        server.create(promptOverrideConfiguration={"promptConfigurations": configurations})
    _check_message(found.value.response["Error"]["Message"])


def _check_message(message: str) -> None:
    parts = message.split(";")
    for stage, part in zip(("PRE_PROCESSING", "ORCHESTRATION"), parts, strict=True):
        assert part.startswith(
            f"The provided BasePromptTemplate for the {stage} prompt type has failed validation "
            "with the following message: "
        )
        assert "Invalid JSON in the prompt" in part
        assert part.endswith("Check the BasePromptTemplate and retry your request.")


def test_a_template_may_have_raw_line_breaks(server: Served) -> None:
    template = JSON.replace("MARK ", "MARK\n")
    assert server.ready(promptOverrideConfiguration=overridden(template=template))


def test_a_prompt_of_the_loop_is_used(server: Served) -> None:
    id = server.ready(promptOverrideConfiguration=overridden())
    assert server.ask(id) == "Yes."
    assert server.model.requests[-1].system.startswith("MARK ")


def test_a_stage_may_have_a_model_of_its_own() -> None:
    from orchestrator.server.serving import serve_in_thread
    from orchestrator.server.settings import Settings
    from orchestrator.server.state import ServerState
    from orchestrator.testing import ScriptedModel

    own = ScriptedModel([says("by the other")], CLAUDE_3)
    with ServerState(
        Settings(port=0), models={CLAUDE: ScriptedModel([], CLAUDE), CLAUDE_3: own}
    ) as world:
        with serve_in_thread(world) as url:
            server = Served(world, url, own)
            given = one(promptCreationMode="DEFAULT", foundationModel=CLAUDE_3)
            id = server.ready(promptOverrideConfiguration=given)
            assert server.ask(id) == "by the other"
            assert told(server, id)["ORCHESTRATION"]["foundationModel"] == CLAUDE_3


def test_a_parser_of_ones_own_needs_a_function_and_a_function_a_use(server: Served) -> None:
    mode = {"promptCreationMode": "DEFAULT", "parserMode": "OVERRIDDEN"}
    with refused("ValidationException", "no overrideLambda"):
        server.create(promptOverrideConfiguration=one(**mode))
    unused = {**overridden(), "overrideLambda": LAMBDA}
    with refused("ValidationException", "OVERRIDDEN"):
        server.create(promptOverrideConfiguration=unused)


def test_a_parser_of_ones_own_parses() -> None:
    events: list[dict[str, Any]] = []

    def parse(event: dict[str, Any], context: Any) -> dict[str, Any]:
        events.append(event)
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

    with served(["raw"], lambdas={"vacations": parse}) as server:
        configuration = one(promptCreationMode="DEFAULT", parserMode="OVERRIDDEN")
        id = server.ready(promptOverrideConfiguration={**configuration, "overrideLambda": LAMBDA})
        assert server.ask(id) == "parsed"
        assert events[0]["agent"] == {
            "name": "claims",
            "id": id,
            "alias": "TSTALIASID",
            "version": "DRAFT",
        }


def test_two_configurations_of_a_stage_are_refused(server: Served) -> None:
    twice = overridden()["promptConfigurations"] * 2
    with refused("ValidationException", "two promptConfigurations of ORCHESTRATION"):
        server.create(promptOverrideConfiguration={"promptConfigurations": twice})
    with refused("ValidationException", "no basePromptTemplate"):
        server.create(promptOverrideConfiguration=one(promptCreationMode="OVERRIDDEN"))


def test_custom_orchestration_needs_a_function(server: Served) -> None:
    with refused("ValidationException", "CUSTOM_ORCHESTRATION"):
        server.control.create_agent(**members(orchestrationType="CUSTOM_ORCHESTRATION"))
