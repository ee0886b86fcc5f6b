"""InvokeInlineAgent over HTTP: the definition is in the call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from runtime_servers import (
    ALIAS_ID,
    BY_CALLER,
    BY_LAMBDA,
    CLAUDE,
    INSTRUCTION,
    LAMBDA,
    HumanResources,
    calls,
    kinds,
    says,
)

from orchestrator.server.operations import Caller, Request
from orchestrator.server.runtime.invoke import InlineAgents
from orchestrator.testing import ScriptedModel


def code_of(caught: Any) -> str:
    return str(caught.value.response["Error"]["Code"])


@pytest.mark.usefixtures("inline_arns")
def test_an_answer_with_its_trace(start: Any) -> None:
    server = start([says("Hello.")])
    answer = server.inline("Hi", enableTrace=True)
    assert answer["text"] == "Hello."
    (first, *_) = answer["events"]
    part = first["trace"]
    assert {"agentId", "agentAliasId", "agentVersion"}.isdisjoint(part)
    (caller,) = part["callerChain"]
    assert caller["agentAliasArn"].endswith("agent-alias/INLINE_AGENT/TSTALIASID")
    assert part["sessionId"] == "s-1"


def test_a_conversation_compiles_its_agent_once(start: Any) -> None:
    server = start([says("One."), says("Two.")])
    agents = InlineAgents(server.world.resources)
    params = {"sessionId": "s-1", "foundationModel": CLAUDE, "instruction": INSTRUCTION}

    def agent(inputText: str, tenant: str = "", **more: Any) -> Any:
        given = {**params, "inputText": inputText, **more}
        request = Request("bedrock-agent-runtime", "InvokeInlineAgent", given, Caller(tenant))
        return agents.agent(request)

    first = agent("One")
    assert agent("Two", sessionId="s-2", enableTrace=True) is first
    assert agent("Two", instruction=INSTRUCTION + "!") is not first
    assert agent("Two", tenant="another") is not first
    server.inline("One")
    server.inline("Two")
    assert "One" in str(server.model.requests[1].messages)


def test_a_session_goes_on_with_another_definition(start: Any) -> None:
    server = start([says("One."), says("Two.")])
    server.inline("First")
    server.inline("Second", instruction=INSTRUCTION + " Be brief.")
    assert "First" in str(server.model.requests[1].messages)
    assert "Be brief." in server.model.requests[1].system


def test_an_action_by_a_function_that_stands_for_a_lambda(start: Any) -> None:
    handler = HumanResources()
    server = start(
        [calls("hr__get_days", {"employee": "e7"}), says("You have 12 days.")],
        lambdas={"vacations": handler},
    )
    answer = server.inline(
        "How many?",
        actionGroups=[BY_LAMBDA],
        inlineSessionState={"sessionAttributes": {"tier": "gold"}},
    )
    assert answer["text"] == "You have 12 days."
    assert handler.events[0]["sessionAttributes"] == {"tier": "gold"}


def test_what_stands_for_a_lambda_has_its_arn_and_name(start: Any, tmp_path: Path) -> None:
    def handle(event: dict[str, Any], context: Any) -> str:
        return f"{context.invoked_function_arn} {context.function_name}"

    in_a_file = "import os\ndef handle(event, context):\n    return "
    in_a_file += "context.invoked_function_arn + ' ' + os.environ['AWS_LAMBDA_FUNCTION_NAME']\n"
    (tmp_path / "handler.py").write_text(in_a_file)
    for code in (handle, f"{tmp_path / 'handler.py'}:handle"):
        server = start([calls("hr__get_days", {"employee": "e7"}), says("12.")])
        server.world.resources.lambdas._code[LAMBDA] = code
        server.inline("How many?", actionGroups=[BY_LAMBDA])
        told = server.model.requests[1].messages[-1]["content"][0]["toolResult"]["content"]
        assert told == [{"text": f"{LAMBDA} {LAMBDA.split(':')[6]}"}]


def test_an_action_by_a_handler_file(start: Any, tmp_path: Path) -> None:
    file = tmp_path / "handler.py"
    body = '{"TEXT": {"body": "7 days"}}'
    file.write_text(
        "def handle(event, context):\n"
        "    function = {'functionResponse': {'responseBody': " + body + "}}\n"
        "    told = {'actionGroup': event['actionGroup'], 'function': event['function']}\n"
        "    return {'messageVersion': '1.0', 'response': {**told, **function}}\n"
    )
    server = start(
        [calls("hr__get_days", {"employee": "e7"}), says("You have 7 days.")],
        lambdas=None,
    )
    server.world.resources.lambdas._code[LAMBDA] = f"{file}:handle"
    server.inline("How many?", actionGroups=[BY_LAMBDA])
    assert "7 days" in str(server.model.requests[1].messages)


def test_control_is_returned_and_resumed(start: Any) -> None:
    server = start([calls("hr__get_days", {"employee": "e7"}), says("You have 5 days.")])
    control = server.inline("How many?", actionGroups=[BY_CALLER])["events"][0]["returnControl"]
    body = {"TEXT": {"body": "5 days"}}
    result = {"actionGroup": "hr", "function": "get_days", "responseBody": body}
    answer = server.inline(
        actionGroups=[BY_CALLER],
        inlineSessionState={
            "invocationId": control["invocationId"],
            "returnControlInvocationResults": [{"functionResult": result}],
        },
    )
    assert answer["text"] == "You have 5 days."


SCHEMA = {
    "openapi": "3.0.0",
    "info": {"title": "Days", "version": "1"},
    "paths": {
        "/days": {
            "get": {
                "operationId": "days",
                "description": "The days that are left.",
                "responses": {"200": {"description": "They."}},
            }
        }
    },
}


def test_a_schema_in_s3(start: Any, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "days.json").write_text(json.dumps(SCHEMA))
    server = start([calls("GET__hr__days", {})], buckets={"schemas": bucket})
    group = {
        "actionGroupName": "hr",
        "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
        "apiSchema": {"s3": {"s3BucketName": "schemas", "s3ObjectKey": "days.json"}},
    }
    answer = server.inline("How many?", actionGroups=[group])
    (asked,) = answer["events"][0]["returnControl"]["invocationInputs"]
    assert asked["apiInvocationInput"]["apiPath"] == "/days"


@pytest.mark.usefixtures("inline_arns")
def test_a_team_of_inline_agents(start: Any) -> None:
    sent = {"recipient": "payroll", "content": "What is paid?"}
    server = start(
        [calls("AgentCommunication__sendMessage", sent), says("100."), says("It is 100.")]
    )
    answer = server.inline(
        "Ask payroll",
        enableTrace=True,
        agentName="boss",
        agentCollaboration="SUPERVISOR",
        collaborators=[
            {"agentName": "payroll", "foundationModel": CLAUDE, "instruction": INSTRUCTION}
        ],
        collaboratorConfigurations=[
            {"collaboratorName": "payroll", "collaboratorInstruction": "All about pay."}
        ],
    )
    assert answer["text"] == "It is 100."
    names = {it["trace"].get("collaboratorName") for it in answer["events"] if "trace" in it}
    assert names == {None, "payroll"}


@pytest.mark.usefixtures("inline_arns")
def test_an_agent_of_the_server_as_collaborator(start: Any) -> None:
    sent = {"recipient": "vacations", "content": "How many?"}
    server = start(
        [calls("AgentCommunication__sendMessage", sent), says("12."), says("You have 12.")]
    )
    arn = f"arn:aws:bedrock:us-east-1:000000000000:agent-alias/VACATIONS1/{ALIAS_ID}"
    answer = server.inline(
        "Ask",
        enableTrace=True,
        agentCollaboration="SUPERVISOR",
        collaboratorConfigurations=[
            {
                "collaboratorName": "vacations",
                "collaboratorInstruction": "All about vacations.",
                "agentAliasArn": arn,
            }
        ],
    )
    assert answer["text"] == "You have 12."
    assert kinds(answer)[-1] == "chunk"
    missing = arn.replace("VACATIONS1", "NOBODY0000")
    with pytest.raises(ClientError) as caught:
        server.inline(
            "Ask",
            agentCollaboration="SUPERVISOR",
            collaboratorConfigurations=[
                {
                    "collaboratorName": "nobody",
                    "collaboratorInstruction": "Nothing.",
                    "agentAliasArn": missing,
                }
            ],
        )
    assert code_of(caught) == "ResourceNotFoundException"


def test_models_of_stages_and_of_members_are_the_servers(start: Any) -> None:
    post = ScriptedModel(["<final_response>Formally: hello.</final_response>"], CLAUDE)
    own = ScriptedModel([says("Hello.")], CLAUDE)
    server = start([], models={"amazon.nova-lite-v1:0": post, "*": own})
    answer = server.inline(
        "Hi",
        promptOverrideConfiguration={
            "promptConfigurations": [
                {
                    "promptType": "POST_PROCESSING",
                    "promptCreationMode": "OVERRIDDEN",
                    "promptState": "ENABLED",
                    "foundationModel": "amazon.nova-lite-v1:0",
                    "basePromptTemplate": json.dumps(
                        {"messages": [{"role": "user", "content": "Polish: $latest_response$"}]}
                    ),
                }
            ]
        },
    )
    assert answer["text"] == "Formally: hello."
    assert len(own.requests) == len(post.requests) == 1


@pytest.mark.usefixtures("inline_arns")
def test_a_parser_of_ones_own(start: Any) -> None:
    arn = LAMBDA.replace("vacations", "parser")

    def parse(event: Any, context: Any) -> Any:
        said = {"agentFinalResponse": {"responseText": "As I read it."}}
        return {
            "messageVersion": "1.0",
            "promptType": event["promptType"],
            "orchestrationParsedResponse": {
                "responseDetails": {"invocationType": "FINISH", **said}
            },
        }

    server = start(["whatever"], lambdas={arn: parse})
    on = {"promptType": "ORCHESTRATION", "parserMode": "OVERRIDDEN"}
    answer = server.inline(
        "Hi",
        enableTrace=True,
        promptOverrideConfiguration={"overrideLambda": arn, "promptConfigurations": [on]},
    )
    assert answer["text"] == "As I read it."
    first = answer["events"][0]["trace"]["trace"]["orchestrationTrace"]
    assert first["modelInvocationInput"]["overrideLambda"] == arn


def test_a_knowledge_base_of_the_server(start: Any, handbook: Any) -> None:
    query = {"searchQuery": "vacation days"}
    server = start(
        [calls("GET__x_amz_knowledgebase_HANDBOOK01__Search", query), says("Thirty.")], handbook
    )
    search = {"vectorSearchConfiguration": {"numberOfResults": 1}}
    base = {
        "knowledgeBaseId": "HANDBOOK01",
        "description": "All about dogs and days.",
        "retrievalConfiguration": search,
    }
    assert server.inline("How many?", knowledgeBases=[base])["text"] == "Thirty."
    assert "All about dogs and days." in str(server.model.requests[0])
    found = str(server.model.requests[1].messages)
    assert found.count("<search_result>") == 1


def test_an_orchestration_of_ones_own(start: Any) -> None:
    arn = LAMBDA.replace("vacations", "own")

    def finish(event: Any, context: Any) -> Any:
        return {
            "version": "1.0",
            "actionEvent": "FINISH",
            "output": {"text": json.dumps({"text": "My own way."})},
            "context": {},
        }

    server = start([], lambdas={"own": finish})
    answer = server.inline(
        "Hi",
        orchestrationType="CUSTOM_ORCHESTRATION",
        customOrchestration={"executor": {"lambda": arn}},
    )
    assert "My own way." in answer["text"]


@pytest.mark.parametrize(
    "member",
    [
        {"actionGroups": [BY_LAMBDA]},
        {"foundationModel": "amazon.nova-pro-v1:0"},
        {"knowledgeBases": [{"knowledgeBaseId": "SECRETBASE", "description": "Of others."}]},
        {"guardrailConfiguration": {"guardrailIdentifier": "abc", "guardrailVersion": "1"}},
        {
            "actionGroups": [
                {
                    "actionGroupName": "a",
                    "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
                    "apiSchema": {"s3": {"s3BucketName": "secret", "s3ObjectKey": "a.json"}},
                }
            ]
        },
        {
            "customOrchestration": {"executor": {"lambda": LAMBDA}},
            "orchestrationType": "CUSTOM_ORCHESTRATION",
        },
        {
            "agentCollaboration": "SUPERVISOR",
            "collaboratorConfigurations": [
                {
                    "collaboratorName": "x",
                    "collaboratorInstruction": "x",
                    "agentAliasArn": (
                        "arn:aws:bedrock:us-east-1:123456789012:agent-alias/AAAAAAAAAA/BBBBBBBBBB"
                    ),
                }
            ],
        },
    ],
)
def test_a_key_may_use_only_what_it_is_allowed(start: Any, member: dict[str, Any]) -> None:
    server = start([], models={CLAUDE: ScriptedModel([], CLAUDE)}, lambdas={LAMBDA: len})
    given = {"sessionId": "s-1", "foundationModel": CLAUDE, "instruction": INSTRUCTION, **member}
    request = Request(
        "bedrock-agent-runtime", "InvokeInlineAgent", given, Caller("t", allow=("nothing",))
    )
    from orchestrator.errors import AccessDenied
    from orchestrator.server.operations import Fault

    with pytest.raises((Fault, AccessDenied)) as caught:
        InlineAgents(server.world.resources).agent(request)
    error = caught.value
    name = error.name if isinstance(error, Fault) else error.bedrock_name
    assert name == "AccessDeniedException"


def test_what_reaches_out_is_not_in_the_api(start: Any) -> None:
    server = start([])
    for model in ("local:/etc/passwd.gguf", "openai:gpt@http://127.0.0.1:1/v1"):
        with pytest.raises(ClientError) as caught:
            server.inline("Hi", foundationModel=model)
        assert code_of(caught) == "ValidationException"


def test_a_wrong_definition(start: Any) -> None:
    server = start([])
    with pytest.raises(ClientError) as caught:
        server.inline("Hi", actionGroups=[{"actionGroupName": "empty"}])
    assert code_of(caught) == "ValidationException"
    assert "empty" in str(caught.value)
