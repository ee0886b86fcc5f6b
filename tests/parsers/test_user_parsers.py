"""Parsers of the user's own: written for Bedrock, plugged in unchanged."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator import parsers
from orchestrator.actions.parser_lambda import lambda_parser, parser_function
from orchestrator.errors import DefinitionError, DependencyFailed, ThrottlingError, ValidationError

LAMBDAS = Path(__file__).parent / "lambdas"
AGENT = {"name": "claims", "id": "AGENT12345", "alias": "TSTALIASID", "version": "DRAFT"}
XML = """<thinking>
I need the claim.
</thinking>
<function_calls>
<invoke>
<tool_name>GET::claims::/claims/{id}</tool_name>
<parameters><id>c-7</id></parameters>
</invoke>"""


def parsed_by(
    function: Any, reply: Any, stage: str = "ORCHESTRATION", *, tool_use: bool = False
) -> parsers.Parsed:
    blocks = [{"text": reply}] if isinstance(reply, str) else reply
    return lambda_parser(function, stage, AGENT, tool_use=tool_use)().finish(blocks)


def published(stage: str, reply: str) -> dict[str, Any]:
    function = parser_function("claude_xml.py", LAMBDAS)
    parsed = parsed_by(function, reply, stage)
    assert (parsed.code, parsed.response["promptType"]) == ("", stage)
    (member,) = (parsed.response[name] for name in parsed.response if name.endswith("Response"))
    return member


def test_a_call_in_version_one_becomes_a_list() -> None:
    assert published("ORCHESTRATION", XML) == {
        "rationale": "I need the claim.",
        "responseDetails": {
            "invocationType": "ACTION_GROUP",
            "actionGroupInvocations": [
                {
                    "actionGroupName": "claims",
                    "verb": "GET",
                    "apiName": "/claims/{id}",
                    "actionGroupInput": {"id": {"value": "c-7"}},
                }
            ],
        },
    }


def test_a_published_parser_agrees_with_ours_in_every_stage() -> None:
    search = XML.replace("GET::claims::/claims/{id}", "GET::x_amz_knowledgebase_KB1::Search")
    cited = (
        "<answer><answer_part><text>One.</text><sources><source>a</source></sources>"
        "</answer_part></answer>"
    )
    replies = [
        ("ORCHESTRATION", XML),
        ("ORCHESTRATION", search.replace("<id>c-7</id>", "<searchQuery>q</searchQuery>")),
        ("ORCHESTRATION", "<thinking>t</thinking><answer>Yes."),
        ("ORCHESTRATION", "<thinking>t</thinking>" + cited),
        ("PRE_PROCESSING", "<thinking>why</thinking><category>D</category>"),
        ("PRE_PROCESSING", "<thinking>why</thinking><category>B</category>"),
        ("KNOWLEDGE_BASE_RESPONSE_GENERATION", cited),
        ("POST_PROCESSING", "<final_response>\nYes.\n</final_response>"),
        ("ROUTING_CLASSIFIER", "<a>claims</a>"),
        ("ROUTING_CLASSIFIER", "claims"),
        ("MEMORY_SUMMARIZATION", "<summary><topic name='a'>One.</topic></summary>"),
    ]
    for stage, reply in replies:
        function = parser_function("claude_xml.py", LAMBDAS)
        assert parsed_by(function, reply, stage).response == parsers.parse(reply, stage).response


def test_its_own_words_reach_the_model() -> None:
    function = parser_function("claude_xml.py:lambda_handler", LAMBDAS)
    parsed = parsed_by(function, "<function_calls>list()")
    assert parsed.code == "CUSTOM_PARSER"
    assert parsed.response["orchestrationParsedResponse"] == {
        "rationale": "",
        "parsingErrorDetails": {"repromptResponse": "Write <invoke> with a <tool_name>, please."},
    }


CLAUDE = [
    {"text": "<thinking>t</thinking>"},
    {"toolUse": {"toolUseId": "t-1", "name": "GET__claims__getClaim", "input": {"n": 7}}},
    {"toolUse": {"toolUseId": "t-2", "name": "GET__claims__list", "input": {}}},
]


def test_a_parser_for_claude_reads_native_calls() -> None:
    function = parser_function("tool_use.py", LAMBDAS)
    response = parsed_by(function, CLAUDE, tool_use=True).response
    details = response["orchestrationParsedResponse"]["responseDetails"]
    assert details["actionGroupInvocations"] == [
        {
            "actionGroupName": "claims",
            "verb": "GET",
            "apiName": "getClaim",
            "id": "t-1",
            "actionGroupInput": {"n": {"value": 7}},
        },
        {
            "actionGroupName": "claims",
            "verb": "GET",
            "apiName": "list",
            "id": "t-2",
            "actionGroupInput": {},
        },
    ]
    answer = parsed_by(function, "<answer>Yes.</answer>", tool_use=True).response
    final = answer["orchestrationParsedResponse"]["responseDetails"]["agentFinalResponse"]
    assert final == {"responseText": "Yes."}


def test_a_parser_for_nova_reads_the_same_reply() -> None:
    function = parser_function("tool_use.py:nova_handler", LAMBDAS)
    use = {"toolUseId": "t-1", "name": "user__askuser", "input": {"question": "Which?"}}
    response = parsed_by(function, [{"toolUse": use}], tool_use=True).response
    details = response["orchestrationParsedResponse"]["responseDetails"]
    assert details == {
        "invocationType": "ASK_USER",
        "agentAskUser": {"responseText": "Which?", "id": "t-1"},
    }


def final_of(text: str) -> dict[str, Any]:
    return {
        "messageVersion": "2.0",
        "promptType": "ORCHESTRATION",
        "orchestrationParsedResponse": {
            "responseDetails": {
                "invocationType": "FINISH",
                "agentFinalResponse": {"responseText": text},
            }
        },
    }


def test_the_event_is_bedrocks() -> None:
    events = []

    def parser(event: dict[str, Any]) -> dict[str, Any]:
        events.append(event)
        return final_of("Yes.")

    parsed_by(parser, "Well, yes.")
    assert events == [
        {
            "messageVersion": "1.0",
            "agent": AGENT,
            "invokeModelRawResponse": "Well, yes.",
            "promptType": "ORCHESTRATION",
            "overrideType": "OUTPUT_PARSER",
        }
    ]
    secret = {"reasoningContent": {"redactedContent": b"\x00\xff"}}
    parsed_by(parser, [secret, *CLAUDE], tool_use=True)
    raw = json.loads(events[1]["invokeModelRawResponse"])
    assert raw["output"]["message"]["content"][1:] == CLAUDE
    assert [part["type"] for part in raw["content"]] == ["text", "tool_use", "tool_use"]
    assert (raw["stopReason"], raw["stop_reason"]) == ("tool_use", "tool_use")


@pytest.mark.parametrize("tool_use", [True, False])
def test_text_that_was_fed_is_the_reply(tool_use: bool) -> None:
    seen = []
    make = lambda_parser(
        lambda event: seen.append(event["invokeModelRawResponse"]) or final_of("x"),
        "ORCHESTRATION",
        AGENT,
        tool_use=tool_use,
    )
    parser = make()
    assert [parser.feed(piece) for piece in ("<answer>", "Yes.")] == [(), ()]
    assert parser.blocking
    parser.finish()
    raw = json.loads(seen[0])["content"][0]["text"] if tool_use else seen[0]
    assert raw == "<answer>Yes."


def test_a_callable_may_take_a_context_be_async_or_return_json() -> None:
    def with_context(event: Any, context: Any) -> Any:
        assert context.get_remaining_time_in_millis() > 0
        return final_of("context")

    async def coroutine(event: Any) -> Any:
        return final_of("async")

    class Instance:
        def __call__(self, event: Any) -> Any:
            return json.dumps(final_of("text"))

    for made, text in ((with_context, "context"), (coroutine, "async"), (Instance(), "text")):
        response = parsed_by(parser_function(made), "hi").response
        details = response["orchestrationParsedResponse"]["responseDetails"]
        assert details["agentFinalResponse"] == {"responseText": text}


def test_our_own_parsers_can_be_wrapped() -> None:
    def shouting(event: dict[str, Any]) -> dict[str, Any]:
        parsed = parsers.parse(event["invokeModelRawResponse"]).response
        details = parsed["orchestrationParsedResponse"]["responseDetails"]
        details["agentFinalResponse"]["responseText"] += "!"
        return parsed

    response = parsed_by(shouting, "<answer>Yes").response
    details = response["orchestrationParsedResponse"]["responseDetails"]
    assert details["agentFinalResponse"]["responseText"] == "Yes!"


def test_a_parser_that_raises_is_named_with_its_place_and_without_its_words(tmp_path: Path) -> None:
    (tmp_path / "parser.py").write_text(
        "def lambda_handler(event, context):\n    raise KeyError('the-secret')\n"
    )
    with pytest.raises(DependencyFailed) as caught:
        parsed_by(parser_function("parser.py", tmp_path), "hi", "POST_PROCESSING")
    assert str(caught.value).startswith(
        "the parser 'parser.py:lambda_handler' of stage POST_PROCESSING raised KeyError at "
        "parser.py:2"
    )
    assert "secret" not in str(caught.value)
    assert caught.value.resource == "parser.py:lambda_handler"

    def named(event: Any) -> Any:
        raise failure

    for failure in (SystemExit(3), asyncio.CancelledError()):
        what = rf"raised {type(failure).__name__} at test_user_parsers\.py:\d+"
        with pytest.raises(DependencyFailed, match=what):
            parsed_by(parser_function(named), "hi")
    with pytest.raises(DependencyFailed, match="named' of stage ORCHESTRATION"):
        parsed_by(named, "hi")


def test_a_typed_error_stays_what_it_is() -> None:
    def busy(event: Any) -> Any:
        raise ThrottlingError("later", resource="x")

    with pytest.raises(ThrottlingError, match="later"):
        parsed_by(busy, "hi")


def test_a_file_that_is_not_there_or_elsewhere_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "agent"
    inside.mkdir()
    (tmp_path / "parser.py").write_text("def lambda_handler(event, context): pass\n")
    (inside / "link.py").symlink_to(tmp_path / "parser.py")
    (inside / "bad.py").write_text("def lambda_handler(:\n")
    (inside / "none.py").write_text("def handle(event): pass\n")
    (inside / "not-a-name.py").write_text("def lambda_handler(event): pass\n")
    for spec, message in {
        "../parser.py": "outside the agent's folder",
        "link.py": "outside the agent's folder",
        str(tmp_path / "parser.py"): "outside the agent's folder",
        "bad.py": "syntax error",
        "none.py": "no function 'lambda_handler'",
        "none.py:handel": "no function 'handel'",
        "not-a-name.py": "no Python identifier",
        "nowhere.py": "not a Python file that exists",
        "parser": "not a Python file that exists",
        "a\x00.py": "not possible|not a Python file",
        "arn:aws:s3:::x": "not the ARN of a Lambda function",
    }.items():
        with pytest.raises(DefinitionError, match=message):
            parser_function(spec, inside)
    with pytest.raises(DefinitionError, match="not int"):
        parser_function(7, inside)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="no stage 'MEMORY'"):
        lambda_parser(final_of, "MEMORY", AGENT, tool_use=False)


def test_a_function_that_is_gone_after_the_file_ran_is_named(tmp_path: Path) -> None:
    (tmp_path / "parser.py").write_text("lambda_handler = 7\n")
    with pytest.raises(DependencyFailed, match="no function 'lambda_handler' after it ran"):
        parsed_by(parser_function("parser.py", tmp_path), "hi")


def test_a_lambda_in_aws_is_called_by_its_arn(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.actions.lambda_arn import LambdaArn

    asked = []

    def invoke(self: LambdaArn, event: dict[str, Any]) -> Any:
        asked.append((self.name, event["promptType"]))
        return final_of("from afar")

    monkeypatch.setattr(LambdaArn, "invoke", invoke)
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:my-parser:live"
    parsed = parsed_by(parser_function(arn), "hi")
    assert asked == [("my-parser", "ORCHESTRATION")]
    assert parsed.response["orchestrationParsedResponse"]["responseDetails"] == {
        "invocationType": "FINISH",
        "agentFinalResponse": {"responseText": "from afar"},
    }


def test_many_threads_use_one_parser() -> None:
    function = parser_function("claude_xml.py", LAMBDAS)
    make = lambda_parser(function, "ORCHESTRATION", AGENT, tool_use=False)
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        details = make().finish([{"text": f"<answer>{number}"}]).response
        final = details["orchestrationParsedResponse"]["responseDetails"]["agentFinalResponse"]
        answers[number] = final["responseText"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: str(number) for number in range(16)}
