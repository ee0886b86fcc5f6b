"""The fixture `bedrock_agents`: Amazon Bedrock in this process, for boto3 and scripted models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EventStreamError
from moto import mock_aws
from shop import ANSWER, BY_CALLER, BY_LAMBDA, CALL, CLAUDE, INSTRUCTION, folder, of_table, tells

from orchestrator.actions.handlers import LambdaFunction
from orchestrator.errors import DefinitionError
from orchestrator.testing import BedrockAgents, FakeKnowledgeBase, ServedAgent

pytest_plugins = ["pytester"]

ROLE = "arn:aws:iam::123456789012:role/AmazonBedrockExecutionRoleForAgents_shop"


def created(bedrock: BedrockAgents, group: dict[str, Any] = BY_LAMBDA) -> ServedAgent:
    return bedrock.create(
        foundationModel=CLAUDE,
        instruction=INSTRUCTION,
        agentResourceRoleArn=ROLE,
        action_groups=[group],
    )


def test_an_agent_of_the_api_calls_a_function_of_the_test(bedrock_agents: BedrockAgents) -> None:
    events: list[Any] = []

    def handler(event: Any, context: Any) -> Any:
        events.append(event)
        return tells("3")(event, context)

    bedrock_agents.lambdas["prices"] = handler
    model = bedrock_agents.script(CLAUDE, [CALL, ANSWER])
    answer = created(bedrock_agents).ask("How much is a pen?")
    assert str(answer) == answer.text == "3 euros."
    assert events[0]["parameters"] == [{"name": "item", "type": "string", "value": "pen"}]
    assert answer.requests == model.requests == bedrock_agents.requests
    assert "toolResult" in answer.requests[1].messages[-1]["content"][0]
    kinds = [kind for part in answer.trace for kind in part]
    assert set(kinds) == {"orchestrationTrace"}


def test_an_agent_of_a_folder_has_a_script_of_its_own(
    bedrock_agents: BedrockAgents, tmp_path: Path
) -> None:
    bedrock_agents.lambdas["prices"] = tells("3")
    one = bedrock_agents.load(folder(tmp_path / "one"), [CALL, ANSWER])
    other = bedrock_agents.load(
        folder(tmp_path / "other", agentName="other"), ["<answer>Hello.</answer>"]
    )
    assert one.ask("How much is a pen?").text == "3 euros."
    assert other.ask("Hello").text == "Hello."
    assert one.model is not None and other.model is not None
    assert len(one.model.requests) == 2 and len(other.model.requests) == 1
    assert len(bedrock_agents.requests) == 3


def test_a_folder_with_mistakes_is_refused_with_their_place(
    bedrock_agents: BedrockAgents, tmp_path: Path
) -> None:
    (tmp_path / "agent.yaml").write_text("agentName: shop\nfoundationmodel: local\n")
    with pytest.raises(DefinitionError, match=r"agent\.yaml:2:1"):
        bedrock_agents.load(tmp_path)


def test_a_conversation_goes_on_in_its_session(bedrock_agents: BedrockAgents) -> None:
    script = ["<answer>Hello Ana.</answer>", "<answer>You are Ana.</answer>", "<answer>?</answer>"]
    model = bedrock_agents.script(CLAUDE, script)
    agent = created(bedrock_agents)
    first = agent.ask("I am Ana.")
    agent.ask("Who am I?", first.session_id)
    agent.ask("Who am I?")
    told = [str(request.messages) for request in model.requests]
    assert "I am Ana." in told[1] and "I am Ana." not in told[2]


def test_control_is_returned_and_results_go_on(bedrock_agents: BedrockAgents) -> None:
    bedrock_agents.script(CLAUDE, [CALL, ANSWER])
    agent = created(bedrock_agents, BY_CALLER)
    asked = agent.ask("How much is a pen?")
    assert asked.text == "" and asked.return_control is not None
    (call,) = asked.return_control.invocation_inputs
    assert call["functionInvocationInput"]["function"] == "get_price"
    results = asked.return_control.answer({"get_price": "3"})
    assert agent.ask(session_id=asked.session_id, results=results).text == "3 euros."


def test_code_that_makes_its_own_clients_reaches_it(bedrock_agents: BedrockAgents) -> None:
    bedrock_agents.script(CLAUDE, ["<answer>Hello.</answer>", "Hello."])
    agent = created(bedrock_agents)
    client = boto3.client("bedrock-agent-runtime")
    answer = client.invoke_agent(
        agentId=agent.agent_id, agentAliasId=agent.alias_id, sessionId="s-1", inputText="Hello"
    )
    assert b"".join(event["chunk"]["bytes"] for event in answer["completion"]) == b"Hello."
    message = {"role": "user", "content": [{"text": "Hello"}]}
    said = boto3.client("bedrock-runtime").converse(modelId=CLAUDE, messages=[message])
    assert said["output"]["message"]["content"] == [{"text": "Hello."}]
    assert boto3.client("bedrock-agent").get_agent(agentId=agent.agent_id)["agent"]
    assert bedrock_agents.models.meta.endpoint_url == bedrock_agents.url


@pytest.mark.parametrize("first", ["server", "moto"])
def test_functions_use_dynamodb_and_s3_under_moto(
    first: str, request: pytest.FixtureRequest
) -> None:
    bedrock = request.getfixturevalue("bedrock_agents") if first == "server" else None
    with mock_aws():
        if bedrock is None:
            bedrock = request.getfixturevalue("bedrock_agents")
        keys = {"AttributeName": "item", "KeyType": "HASH"}
        table = boto3.resource("dynamodb").create_table(
            TableName="prices",
            KeySchema=[keys],
            AttributeDefinitions=[{"AttributeName": "item", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        table.put_item(Item={"item": "pen", "price": 3})
        boto3.client("s3").create_bucket(Bucket="asked")
        bedrock.lambdas["prices"] = of_table
        bedrock.script(CLAUDE, [CALL, ANSWER])
        answer = created(bedrock).ask("How much is a pen?")
        assert answer.text == "3 euros."
        assert "'text': '3'" in str(answer.requests[1].messages[-1])
        asked = boto3.client("s3").list_objects_v2(Bucket="asked")["Contents"]
        assert [one["Key"] for one in asked] == ["pen"]
        own = boto3.client("bedrock-agent-runtime")  # one that moto knows of
        assert own.meta.endpoint_url == bedrock.url
        with pytest.raises(ClientError) as missing:
            own.invoke_agent(
                agentId="ABCDEFGHIJ", agentAliasId="TSTALIASID", sessionId="s-1", inputText="Hi"
            )
        assert missing.value.response["Error"]["Code"] == "ResourceNotFoundException"


def test_knowledge_bases_of_aws_have_a_fake(bedrock_agents: BedrockAgents, tmp_path: Path) -> None:
    base = FakeKnowledgeBase("HANDBOOK01", ["Pens are 3 euros."])
    bedrock_agents.knowledge_bases["HANDBOOK01"] = base
    search = {"toolUseId": "t-1", "name": "GET__x_amz_knowledgebase_HANDBOOK01__Search"}
    call = [{"toolUse": {**search, "input": {"searchQuery": "pen"}}}]
    bases = [{"knowledgeBaseId": "HANDBOOK01", "description": "Prices of our pens."}]
    path = folder(tmp_path, actionGroups=[], knowledgeBases=bases)
    asked = bedrock_agents.load(path, [call, ANSWER, call, ANSWER]).ask("How much?")
    assert asked.text == "3 euros."
    assert base.queries == ["pen"]
    # The agent's own words for it are what its model reads.
    assert "Prices of our pens." in str(asked.requests[0].tools)
    found = bedrock_agents.runtime.retrieve(
        knowledgeBaseId="HANDBOOK01", retrievalQuery={"text": "pen"}
    )
    assert found["retrievalResults"][0]["content"]["text"] == "Pens are 3 euros."


def test_a_fake_that_is_given_late_is_found(bedrock_agents: BedrockAgents, tmp_path: Path) -> None:
    search = {"toolUseId": "t-1", "name": "GET__x_amz_knowledgebase_HANDBOOK01__Search"}
    call = [{"toolUse": {**search, "input": {"searchQuery": "pen"}}}]
    path = folder(tmp_path, actionGroups=[], knowledgeBases=[{"knowledgeBaseId": "HANDBOOK01"}])
    agent = bedrock_agents.load(path, [call, call, ANSWER])
    with pytest.raises(EventStreamError, match=r"bedrock_agents\.knowledge_bases\['HANDBOOK01'\]"):
        agent.ask("How much?")
    base = FakeKnowledgeBase("HANDBOOK01", ["Pens are 3 euros."])
    bedrock_agents.knowledge_bases["HANDBOOK01"] = base
    assert agent.ask("How much?").text == "3 euros."
    assert base.queries == ["pen"]


class Broken(FakeKnowledgeBase):
    """One whose search fails, or finds something that is no reference."""

    found: Any = None

    def retrieve(self, query: str, configuration: Any = None) -> Any:
        if self.found is None:
            raise OSError("no such index: /secret")
        return self.found


@pytest.mark.parametrize("found", [None, 3, ["text"], [{}], [{"content": {}, "score": {1}}]])
def test_a_broken_knowledge_base_is_named_to_who_searches_it(
    bedrock_agents: BedrockAgents, found: Any
) -> None:
    base = Broken("PRICELIST1", [])
    base.found = found
    bedrock_agents.knowledge_bases["PRICELIST1"] = base
    with pytest.raises(ClientError, match=r"the knowledge base 'PRICELIST1' r") as caught:
        bedrock_agents.runtime.retrieve(
            knowledgeBaseId="PRICELIST1", retrievalQuery={"text": "pen"}
        )
    assert caught.value.response["Error"]["Code"] == "DependencyFailedException"
    assert "secret" not in str(caught.value)


def test_answers_are_generated_from_a_fake(bedrock_agents: BedrockAgents) -> None:
    base = FakeKnowledgeBase("HANDBOOK01", ["Pens are 3 euros."])
    bedrock_agents.knowledge_bases["HANDBOOK01"] = base
    bedrock_agents.script(CLAUDE, ["<answer>3 euros."])
    answer = bedrock_agents.runtime.retrieve_and_generate(
        input={"text": "pen"},
        retrieveAndGenerateConfiguration={
            "type": "KNOWLEDGE_BASE",
            "knowledgeBaseConfiguration": {"knowledgeBaseId": "HANDBOOK01", "modelArn": CLAUDE},
        },
    )
    assert "3 euros." in answer["output"]["text"]
    assert base.queries == ["pen"]


def test_what_nobody_has_written_is_named_and_nobody_asks_aws(
    bedrock_agents: BedrockAgents, tmp_path: Path
) -> None:
    agent = created(bedrock_agents)
    with pytest.raises(EventStreamError, match=r"bedrock_agents\.script\('anthropic"):
        agent.ask("How much is a pen?")
    bedrock_agents.script(CLAUDE, [CALL])
    with pytest.raises(EventStreamError, match=r"bedrock_agents\.lambdas\['prices'\]"):
        agent.ask("How much is a pen?")
    with pytest.raises(ClientError, match=r"bedrock_agents\.knowledge_bases\['HANDBOOK01'\]"):
        bedrock_agents.runtime.retrieve(
            knowledgeBaseId="HANDBOOK01", retrievalQuery={"text": "pen"}
        )
    bedrock_agents.lambdas["prices"] = tells("3")  # given late, and found
    bedrock_agents.script(CLAUDE, [CALL, ANSWER])
    assert agent.ask("How much is a pen?").text == "3 euros."


def test_a_function_is_replaced_between_two_turns(bedrock_agents: BedrockAgents) -> None:
    def broken(event: Any, context: Any) -> Any:
        raise TimeoutError

    agent = created(bedrock_agents)
    bedrock_agents.script(CLAUDE, [CALL, ANSWER, CALL, CALL, ANSWER])
    bedrock_agents.lambdas["prices"] = tells("3")
    assert agent.ask("How much is a pen?").text == "3 euros."
    bedrock_agents.lambdas["prices"] = broken
    with pytest.raises(EventStreamError, match="raised TimeoutError at test_bedrock"):
        agent.ask("And now?")
    bedrock_agents.lambdas["prices"] = tells("4")
    again = agent.ask("And now?").requests[-1].messages[-1]["content"]
    assert again[0]["toolResult"]["content"] == [{"text": "4"}]


def test_functions_may_be_files(bedrock_agents: BedrockAgents, tmp_path: Path) -> None:
    (tmp_path / "prices.py").write_text(
        "from shop import tells\n\ndef lambda_handler(event, context):\n"
        "    return tells('3')(event, context)\n"
    )
    bedrock_agents.lambdas["prices"] = f"{tmp_path / 'prices.py'}:lambda_handler"
    bedrock_agents.script(CLAUDE, [CALL, ANSWER])
    assert created(bedrock_agents).ask("How much is a pen?").text == "3 euros."
    with pytest.raises(DefinitionError, match="other"):
        bedrock_agents.lambdas["prices"] = f"{tmp_path / 'prices.py'}:other"


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_function_raised_is_the_cause(bedrock_agents: BedrockAgents, waits: bool) -> None:
    wrong = KeyError("no such pen")

    def handler(event: Any, context: Any) -> Any:
        raise wrong

    async def waiting(event: Any, context: Any) -> Any:
        raise wrong

    bedrock_agents.lambdas["prices"] = waiting if waits else handler
    bedrock_agents.script(CLAUDE, [CALL, CALL])
    agent = created(bedrock_agents)
    with pytest.raises(EventStreamError, match="raised KeyError at test_bedrock") as error:
        agent.ask("How much is a pen?")
    assert error.value.__cause__ is wrong
    assert bedrock_agents.lambdas.raised == [wrong]
    with pytest.raises(ClientError) as other:
        agent.ask("How much?", "no/session id")
    assert other.value.__cause__ is None


def test_what_stands_for_a_function_has_the_name_of_its_handler(
    bedrock_agents: BedrockAgents,
) -> None:
    def prices_of_today(event: Any, context: Any) -> None: ...

    stub = bedrock_agents.lambdas.get_stub("prices")
    assert repr(LambdaFunction(stub)) == "LambdaFunction(_LateBoundHandler)"
    bedrock_agents.lambdas["prices"] = prices_of_today
    assert repr(LambdaFunction(stub)) == "LambdaFunction(prices_of_today)"


@pytest.mark.parametrize("isolation", [{}, {"isolation": "PROCESS"}])
def test_what_a_handler_file_raised_is_the_cause(
    bedrock_agents: BedrockAgents, tmp_path: Path, isolation: dict[str, str]
) -> None:
    group = {**BY_LAMBDA, **isolation, "actionGroupExecutor": {"lambda": "handler.py"}}
    path = folder(tmp_path, actionGroups=[group])
    (path / "handler.py").write_text(
        "def lambda_handler(event, context):\n    raise KeyError('no such pen')\n"
    )
    agent = bedrock_agents.load(path, [CALL, "<answer>It is here.</answer>"])
    with pytest.raises(EventStreamError, match=r"raised KeyError at handler\.py:2") as error:
        agent.ask("How much is a pen?")
    assert "no such pen" in str(error.value.__cause__)
    assert "no such pen" not in str(error.value)


def test_a_failed_test_shows_what_a_function_raised(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def broken(event, context):
            raise KeyError("no such pen")

        def test_own_client(bedrock_agents):
            bedrock_agents.lambdas["prices"] = broken
            try:
                bedrock_agents.lambdas.get_stub("prices")({}, None)
            except KeyError:
                pass
            assert False

        def test_that_passes(bedrock_agents):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=1)
    shown = result.stdout.str()
    assert shown.count("Code that bedrock_agents called raised") == 1
    assert "KeyError: 'no such pen'" in shown and "in broken" in shown


def test_answers_stream_in_pieces(bedrock_agents: BedrockAgents, tmp_path: Path) -> None:
    path = folder(tmp_path, actionGroups=[])
    agent = bedrock_agents.load(path, ["<answer>Hello Ana.</answer>"], chunk=4)
    streaming = {"streamFinalResponse": True}
    answer = agent.ask("Hello", streamingConfigurations=streaming)
    assert answer.text == "Hello Ana."
    assert len([event for event in answer.events if "chunk" in event]) > 1


def test_the_environment_opens_nothing_and_is_undone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        def names():
            return {name: value for name, value in os.environ.items() if "AWS" in name}

        BEFORE = names()

        def test_in_it(bedrock_agents):
            assert os.environ["AWS_ACCESS_KEY_ID"] == "testing"
            assert "AWS_PROFILE" not in os.environ and "AWS_SESSION_TOKEN" not in os.environ
            assert os.environ["AWS_ENDPOINT_URL_BEDROCK_AGENT"] == bedrock_agents.url

        def test_after_it():
            assert names() == BEFORE
        """
    )
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_PROFILE", "production")
    patch.setenv("AWS_SESSION_TOKEN", "secret")
    try:
        pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
    finally:
        patch.undo()


@pytest.mark.exhaustive
def test_each_test_has_a_server_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import pytest

        SEEN = set()

        @pytest.mark.parametrize("number", range(4))
        def test_alone(bedrock_agents, number):
            assert bedrock_agents.control.list_agents()["agentSummaries"] == []
            bedrock_agents.control.create_agent(agentName="shop")
            assert bedrock_agents.url not in SEEN
            SEEN.add(bedrock_agents.url)
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ["-p", "xdist", "-p", "orchestrator.testing.plugin", "-p", "no:cacheprovider"]
    result = pytester.runpytest_subprocess(*plugins, "-W", "error", "-n", "2")
    result.assert_outcomes(passed=4)


def test_pytest_imports_nothing_for_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_quiet(orchestrator_clock):
            heavy = {"boto3", "botocore", "starlette", "uvicorn", "asyncio", "jinja2", "numpy"}
            assert not heavy & sys.modules.keys()
            assert "orchestrator.agent.agent" not in sys.modules
        """
    )
    arguments = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"]
    arguments += ["-p", "no:inline_snapshot", "-p", "no:anyio", "-p", "no:cov"]
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=1)


def test_it_works_without_pytest(tmp_path: Path) -> None:
    bedrock = BedrockAgents(tmp_path)
    try:
        bedrock.script(CLAUDE, ["<answer>Hello.</answer>"])
        folder(tmp_path / "agents" / "shop", actionGroups=[])
        assert bedrock.load("agents/shop").ask("Hello").text == "Hello."
    finally:
        bedrock.close()
    assert "AWS_ENDPOINT_URL_BEDROCK_AGENT" not in os.environ


def test_an_agent_is_prepared_at_once_unless_a_test_wants_to_see_it(
    bedrock_agents: BedrockAgents,
) -> None:
    agent_id = created(bedrock_agents).agent_id

    def prepare() -> list[str]:
        control = bedrock_agents.control
        said = control.prepare_agent(agentId=agent_id)["agentStatus"]
        return [said, control.get_agent(agentId=agent_id)["agent"]["agentStatus"]]

    assert prepare() == ["PREPARING", "PREPARED"]
    bedrock_agents.preparing_seconds = 1000.0
    assert prepare() == ["PREPARING", "PREPARING"]
    bedrock_agents.preparing_seconds = 0.0
    assert prepare() == ["PREPARING", "PREPARED"]
