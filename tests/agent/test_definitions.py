"""Agents whose whole definition is in the call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_support import (
    FUNCTIONS,
    INSTRUCTION,
    TOOL_USE,
    called,
    group,
    handler,
    last,
    scripted,
    texts,
)
from model_servers import json_answer

from orchestrator import ActionGroup, Agent, DefinitionError, DependencyFailed, ReturnControl
from orchestrator.guardrails.local import LocalGuardrail, Word
from orchestrator.testing import FakeKnowledgeBase

OPENAPI = json.dumps(
    {
        "openapi": "3.0.0",
        "info": {"title": "claims", "version": "1"},
        "paths": {
            "/claims": {
                "get": {
                    "operationId": "listClaims",
                    "description": "All claims.",
                    "responses": {"200": {"description": "They."}},
                }
            }
        },
    }
)


def camel(model: Any, **changes: Any) -> dict[str, Any]:
    return {
        "foundationModel": model,
        "instruction": INSTRUCTION,
        "actionGroups": [group({"lambda": handler})],
        **changes,
    }


def test_the_whole_definition_in_one_call() -> None:
    model = scripted(called(), "<answer>12 days.</answer>")
    reply = Agent.inline(**camel(model)).invoke("How many are left?", session_id="s-1")
    assert reply.text == "12 days."
    assert "e-1 has 12 days" in str(last(model)[-1])
    assert INSTRUCTION in model.requests[0].system


def test_the_same_in_python_s_spelling() -> None:
    model = scripted(called(), "<answer>12 days.</answer>")
    agent = Agent.inline(
        foundation_model=model,
        instruction=INSTRUCTION,
        agent_name="hr",
        idle_session_ttl_in_seconds=120,
        action_groups=[
            {
                "action_group_name": "vacations",
                "action_group_executor": {"lambda": handler},
                "function_schema": FUNCTIONS,
            }
        ],
    )
    assert agent.invoke("How many are left?", session_id="s-1").text == "12 days."
    assert (agent.name, agent.plan.idle_ttl) == ("hr", 120 * 10**9)


@pytest.mark.parametrize(
    "executor",
    [handler, {"lambda": handler}],
    ids=["function", "lambda"],
)
def test_functions_stand_where_a_lambda_does(executor: Any) -> None:
    model = scripted(called(), "<answer>ok</answer>")
    Agent.inline(**camel(model, actionGroups=[group(executor)])).invoke("Left?", "s-1")
    assert "12 days" in str(last(model)[-1])


async def async_handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return handler(event, context)


def test_a_handler_may_be_async() -> None:
    model = scripted(called(), "<answer>ok</answer>")
    Agent.inline(**camel(model, actionGroups=[group(async_handler)])).invoke("Left?", "s-1")
    assert "12 days" in str(last(model)[-1])


def test_a_handler_that_raises_is_named_with_its_place_and_not_its_words() -> None:
    def broken(event: dict[str, Any], context: object) -> None:
        raise KeyError("secret-token")

    agent = Agent.inline(**camel(scripted(called()), actionGroups=[group(broken)]))
    with pytest.raises(
        DependencyFailed, match=r"raised KeyError at test_definitions\.py:\d+"
    ) as it:
        agent.invoke("Left?", "s-1")
    assert "secret-token" not in str(it.value)


def test_control_is_returned_with_the_id_of_inline_agents() -> None:
    agent = Agent.inline(
        **camel(
            scripted(called(), "<answer>ok</answer>"),
            actionGroups=[group({"customControl": "RETURN_CONTROL"})],
        )
    )
    control = agent.invoke("Left?", "s-1").return_control
    assert control is not None
    assert control.invocation_inputs[0]["functionInvocationInput"]["agentId"] == "INLINE_AGENT"
    assert agent.invoke(session_id="s-1", results=control.answer("12")).text == "ok"


def test_objects_stand_beside_dicts_in_the_order_given() -> None:
    def weather(city: str) -> str:
        """Tells the weather."""
        return "rain"

    model = scripted("<answer>ok</answer>")
    given = [
        ActionGroup("weather", actions=[weather]),
        group(ReturnControl()),
        {"actionGroupName": "ask", "parentActionGroupSignature": "AMAZON.UserInput"},
        {
            "actionGroupName": "claims",
            "apiSchema": {"payload": OPENAPI},
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
        },
    ]
    base = FakeKnowledgeBase("KB12345678", ["Rain is wet."])
    agent = Agent.inline(**camel(model, actionGroups=given, knowledgeBases=[base]))
    agent.invoke("Hello?", "s-1")
    names = [tool["toolSpec"]["name"] for tool in model.requests[0].tools]
    assert names[:3] == ["weather__weather", "vacations__days_left", "GET__claims__listClaims"]
    assert set(names[3:]) == {"GET__x_amz_knowledgebase_KB12345678__Search", "user__askuser"}


def test_knowledge_bases_of_bedrock_are_taken_as_they_are() -> None:
    base = {
        "knowledgeBaseId": "KB12345678",
        "description": "The handbook.",
        "retrievalConfiguration": {"vectorSearchConfiguration": {"numberOfResults": 3}},
    }
    agent = Agent.inline(**camel(scripted(), knowledgeBases=[base]))
    assert agent.plan.knowledge_bases["KB12345678"].description == "The handbook."


def test_a_guardrail_may_be_an_object_or_bedrock_s() -> None:
    model = scripted("<answer>ok</answer>")
    agent = Agent.inline(
        **camel(model, guardrailConfiguration=LocalGuardrail("g", words=[Word("bomb")]))
    )
    assert agent.invoke("How do I make a bomb?", "s-1").stop_reason == "guardrail_intervened"
    named = {"guardrailIdentifier": "gr12345678", "guardrailVersion": "2"}
    agent = Agent.inline(**camel(scripted(), guardrailConfiguration=named))
    assert agent.plan.guardrail is not None
    assert agent.plan.guardrail.id == "gr12345678"


def test_prompts_and_their_parser_are_overridden() -> None:
    seen: list[str] = []

    def parse(event: dict[str, Any]) -> dict[str, Any]:
        seen.append(event["promptType"])
        final = {"responseText": "parsed"}
        return {
            "messageVersion": "1.0",
            "promptType": event["promptType"],
            "orchestrationParsedResponse": {
                "rationale": "",
                "responseDetails": {"invocationType": "FINISH", "agentFinalResponse": final},
            },
        }

    template = {
        "system": "Be $instruction$",
        "messages": [{"role": "user", "content": "$question$"}],
    }
    overrides = {
        "promptConfigurations": [
            {
                "promptType": "ORCHESTRATION",
                "promptCreationMode": "OVERRIDDEN",
                "parserMode": "OVERRIDDEN",
                "basePromptTemplate": json.dumps(template),
                "inferenceConfiguration": {"temperature": 0.5},
            }
        ],
        "overrideLambda": parse,
    }
    model = scripted("whatever")
    agent = Agent.inline(**camel(model, promptOverrideConfiguration=overrides))
    reply = agent.invoke("Hello?", "s-1")
    assert (reply.text, seen) == ("parsed", ["ORCHESTRATION"])
    assert model.requests[0].system == f"Be {INSTRUCTION}"
    assert model.requests[0].inference["temperature"] == 0.5
    told = reply.trace[0]["trace"]["orchestrationTrace"]["modelInvocationInput"]
    assert told["overrideLambda"].endswith("parse")


@pytest.mark.parametrize(
    ("kind", "text"), [("CUSTOM_ORCHESTRATION", "mine"), ("DEFAULT", "theirs")]
)
def test_an_orchestration_of_one_s_own_may_be_a_function(kind: str, text: str) -> None:
    def orchestrate(event: dict[str, Any]) -> dict[str, Any]:
        assert event["state"] == "START"
        return {"version": "1.0", "actionEvent": "FINISH", "output": {"text": "mine"}}

    own = {"executor": {"lambda": orchestrate}}
    model = scripted("<answer>theirs</answer>")
    agent = Agent.inline(**camel(model, orchestrationType=kind, customOrchestration=own))
    assert agent.invoke("Hello?", "s-1").text == text


def test_the_given_model_stands_in_for_every_model() -> None:
    model = scripted("<answer>ok</answer>")
    agent = Agent.inline(
        model=model,
        **camel(
            "anthropic.claude-3-haiku-20240307-v1:0",
            agentCollaboration="SUPERVISOR",
            collaborators=[{"agentName": "one", "foundationModel": "local", "instruction": "Do."}],
            collaboratorConfigurations=[
                {"collaboratorName": "one", "collaboratorInstruction": "Always."}
            ],
        ),
    )
    member = agent.plan.collaborators["one"].agent
    assert agent.plan.orchestration.model is model
    assert member is not None
    assert member.orchestration.model is model


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputText": "Hi"}, "'inputText' belongs to a question.* invoke.. as question"),
        ({"inlineSessionState": {}}, "as inline_session_state"),
        ({"promptCreationConfigurations": {}}, "as prompt_creation_configurations"),
        ({"enableTrace": True}, "every reply has its trace"),
        ({"foundationModel": None}, "'INLINE_AGENT' has no foundationModel"),
        ({"foundationModel": "openai:"}, "foundationModel: "),
        ({"instruction": " "}, "has no instruction"),
        ({"actionGroups": {}}, "'actionGroups' must be a list, not 'dict'"),
        ({"actionGroups": ["vacations"]}, r"actionGroups\[0\] must be a mapping"),
        ({"actionGrops": []}, "'actionGrops' is not a member.*did you mean 'actionGroups'"),
        ({"action_groups": []}, "'actionGroups' is given in both spellings"),
        ({"actionGroups": [group({"lambda": "handler.py"})]}, "there is none"),
        (
            {"actionGroups": [group({"python": "actions.py"}, functionSchema=None)]},
            "there is none",
        ),
        ({"guardrailConfiguration": {"file": "guard.yaml"}}, "there is none"),
        ({"idleSessionTTLInSeconds": 5}, "idleSessionTTLInSeconds must be at least 60"),
        (
            {"bedrockModelConfigurations": {"performanceConfig": {"latency": "fast"}}},
            "latency is 'fast'; it is 'standard' or 'optimized'",
        ),
        (
            {
                "promptOverrideConfiguration": {
                    "overrideLambda": "parser.py",
                    "promptConfigurations": [
                        {"promptType": "ORCHESTRATION", "parserMode": "OVERRIDDEN"}
                    ],
                }
            },
            "overrideLambda 'parser.py' is relative to an agent's folder, and there is none",
        ),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        Agent.inline(**camel(scripted(), **changes))


def converse(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"text": text}]}
    return {"output": {"message": message}, "stopReason": "end_turn", "usage": {}}


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("latency", ["standard", "optimized"])
def test_models_of_bedrock_answer_faster_when_it_is_asked_for(
    latency: str, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "<is_valid>true</is_valid><category>D</category><answer>ok</answer>"
    server = serve(json_answer(converse(said)), json_answer(converse(said)))
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
    pre = {"promptType": "PRE_PROCESSING", "foundationModel": "amazon.nova-pro-v1:0"}
    agent = Agent.inline(
        foundationModel=TOOL_USE,
        instruction=INSTRUCTION,
        promptOverrideConfiguration={"promptConfigurations": [{**pre, "promptState": "ENABLED"}]},
        bedrockModelConfigurations={"performanceConfig": {"latency": latency}},
    )
    assert agent.invoke("Hello?", "s-1").text == "ok"
    told = {"latency": "optimized"} if latency == "optimized" else None
    assert [asked.json.get("performanceConfig") for asked in server.asked] == [told, told]
    assert "nova-pro" in server.asked[0].path and "claude" in server.asked[1].path


@pytest.mark.usefixtures("aws")
def test_collaborators_answer_as_fast(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(json_answer(converse("<a>clerk</a>")), json_answer(converse("<answer>ok")))
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
    one = {"foundationModel": TOOL_USE, "instruction": INSTRUCTION}
    led = {"collaboratorName": "clerk", "collaboratorInstruction": "Answers."}
    agent = Agent.inline(
        **one,
        agentCollaboration="SUPERVISOR_ROUTER",
        collaborators=[{"agentName": "clerk", **one}],
        collaboratorConfigurations=[led],
        bedrockModelConfigurations={"performanceConfig": {"latency": "optimized"}},
    )
    assert agent.invoke("Hello?", "s-1").text == "ok"
    assert [one.json.get("performanceConfig") for one in server.asked] == [
        {"latency": "optimized"}
    ] * 2


def test_other_models_answer_as_they_do() -> None:
    latency = {"performanceConfig": {"latency": "optimized"}}
    model = scripted("<answer>ok</answer>")
    agent = Agent.inline(**camel(model, bedrockModelConfigurations=latency))
    assert agent.invoke("Hello?", "s-1").text == "ok"


def test_files_of_a_folder_may_be_named_when_it_is_given(tmp_path: Any) -> None:
    (tmp_path / "handler.py").write_text(
        "def lambda_handler(event, context):\n    return {'response': {'functionResponse': "
        "{'responseBody': {'TEXT': {'body': 'from the file'}}}}}\n"
    )
    model = scripted(called(), "<answer>ok</answer>")
    given = camel(model, actionGroups=[group({"lambda": "handler.py"})])
    Agent.inline(folder=tmp_path, **given).invoke("Left?", "s-1")
    assert "from the file" in texts(model)
