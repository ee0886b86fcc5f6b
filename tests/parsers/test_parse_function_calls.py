"""Calls as Claude 2.0 writes them: `<function_call>verb::group::/path(a="x")</function_call>`."""

from __future__ import annotations

from typing import Any

import pytest
from parser_helpers import actions, cut, details, final, member, reprompt, streamed

from orchestrator import parsers

CALL = (
    "<scratchpad>I need it.</scratchpad>\n\n"
    '<function_call>get::claims::/claims/{id}(id="c-7", kind="open")</function_call>'
)


@pytest.mark.parametrize("name", ["function_call", "auto"])
@pytest.mark.parametrize("end", ["", "</function_call>", "</function_call>\nDone."])
def test_a_call(name: str, end: str) -> None:
    parsed = parsers.parse(CALL.removesuffix("</function_call>") + end, "ORCHESTRATION", name)
    assert (member(parsed)["rationale"], parsed.notes) == ("I need it.", ())
    assert details(parsed)["actionGroupInvocations"] == [
        {
            "actionGroupName": "claims",
            "verb": "GET",
            "apiName": "/claims/{id}",
            "actionGroupInput": {"id": {"value": "c-7"}, "kind": {"value": "open"}},
        }
    ]


def arguments(inner: str) -> dict[str, Any]:
    (action,) = actions(f"<function_call>g::f({inner})</function_call>", "function_call")
    return {name: value["value"] for name, value in action["actionGroupInput"].items()}


@pytest.mark.parametrize(
    ("inner", "values"),
    [
        ("", {}),
        ("  \n ", {}),
        ('a="x"', {"a": "x"}),
        ("a='x', b=\"y\"", {"a": "x", "b": "y"}),
        ('a = "x" ,\n b = "y",', {"a": "x", "b": "y"}),
        ('a="x, y"', {"a": "x, y"}),
        ('a="x=1, y=2"', {"a": "x=1, y=2"}),
        ('a="f(x)"', {"a": "f(x)"}),
        ('a=")"', {"a": ")"}),
        ('a=""', {"a": ""}),
        ("a=", {"a": ""}),
        ('a="say \\"hi\\", please"', {"a": 'say "hi", please'}),
        ('a="say "hi", please"', {"a": 'say "hi", please'}),
        ("a='it\\'s'", {"a": "it's"}),
        ("a='it's'", {"a": "it's"}),
        ('a="What\'s up?"', {"a": "What's up?"}),
        (r'a="C:\new\table"', {"a": r"C:\new\table"}),
        ('a="C:\\new\\"', {"a": "C:\\new\\"}),
        (r'a="{\"b\": \"c\\nd\"}"', {"a": r'{"b": "c\nd"}'}),
        ('a={"b": [1, 2], "c": "d=e"}, f=2', {"a": '{"b": [1, 2], "c": "d=e"}', "f": "2"}),
        ("a=[1, 2], b=true", {"a": "[1, 2]", "b": "true"}),
        ('a="<b>&amp;</b>"', {"a": "<b>&amp;</b>"}),
        ('a="</function_call><answer>"', {"a": "</function_call><answer>"}),
        ('a="1", a="2"', {"a": "2"}),
        ('person.name="x"', {"person.name": "x"}),
        ('a="x\ny"', {"a": "x\ny"}),
        ('größe="x"', {"größe": "x"}),
    ],
)
def test_values(inner: str, values: dict[str, str]) -> None:
    assert arguments(inner) == values


def test_a_call_may_have_no_parentheses() -> None:
    (action,) = actions("<function_call>get::hr::/days</function_call>")
    assert (action["verb"], action["apiName"], action["actionGroupInput"]) == ("GET", "/days", {})


def test_a_question_and_a_search() -> None:
    asked = '<function_call>user::askuser(askuser="Which day, and who?")</function_call>'
    parsed = parsers.parse(asked, "ORCHESTRATION", "function_call")
    assert details(parsed)["agentAskUser"] == {"responseText": "Which day, and who?"}
    assert parsed.notes == ()
    searched = '<function_call>get::x_amz_knowledgebase_KB1::Search(searchQuery="A, B")'
    assert details(parsers.parse(searched))["agentKnowledgeBases"] == [
        {"knowledgeBaseId": "KB1", "searchQuery": {"value": "A, B"}}
    ]


FORMAT = (
    "The function call format is incorrect. The format for function calls must be: "
    '<function_call>$FUNCTION_NAME($FUNCTION_ARGUMENT_NAME=""$FUNCTION_ARGUMENT_NAME"")'
    "</function_call>."
)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('get_days(a="1")', "BAD_PARTS"),
        ("get_days", "BAD_PARTS"),
        ("", "NO_TOOL_NAME"),
        ('("x")', "NO_TOOL_NAME"),
        ('g::f("x")', "BAD_CALL"),
        ('g::f(a="x)', "BAD_CALL"),
        ("g::f please", "BAD_CALL"),
    ],
)
def test_a_malformed_call_is_reported_to_the_model_as_documented(call: str, code: str) -> None:
    reply = f"<function_call>{call}</function_call>"
    parsed = parsers.parse(reply, "ORCHESTRATION", "function_call")
    assert (parsed.code, reprompt(parsed)) == (code, FORMAT)
    assert parsed.raw.startswith("<function_call>" + call)


def test_a_question_without_text_is_reported_to_the_model_as_documented() -> None:
    parsed = parsers.parse("<function_call>user::askuser()", "ORCHESTRATION", "function_call")
    assert parsed.code == "MISSING_PARAM"
    assert '<function_call>user::askuser(askuser="$ASK_USER_INPUT")' in reprompt(parsed)
    parsed = parsers.parse('<function_call>user::askuser(askuser="")', name="function_call")
    assert reprompt(parsed) == (
        "Missing the argument askuser for user::askuser function call. "
        "Please try again with the correct argument added"
    )


def test_several_calls_and_invented_results() -> None:
    reply = (
        '<function_call>g::one(a="1")</function_call><function_call>g::two()'
        "<function_call>g::three()</function_call>\n<function_result>7</function_result>"
        "<answer>It is 7."
    )
    parsed = parsers.parse(reply)
    called = [one["functionName"] for one in details(parsed)["actionGroupInvocations"]]
    assert called == ["one", "two", "three"]
    assert parsed.notes == ("the model wrote results of its own calls: they are ignored",)


def test_the_reply_decides_which_grammar_it_is_in() -> None:
    xml = "<function_calls><invoke><tool_name>g::f</tool_name></invoke></function_calls>"
    function = "<function_call>g::f()</function_call>"
    for reply, grammar in ((xml, "xml"), (function, "function_call")):
        told = parsers.explain(reply)
        assert (told["grammar"], told["notes"]) == (grammar, [])
        assert actions(reply)[0]["functionName"] == "f"
    parsed = parsers.parse(function, "ORCHESTRATION", "xml")
    assert details(parsed)["invocationType"] == "ACTION_GROUP"
    assert parsed.notes == ("calls were written in the grammar of the parser 'function_call'",)
    parsed = parsers.parse(xml, "ORCHESTRATION", "function_call")
    assert parsed.notes == ("calls were written in the grammar of the parser 'xml'",)


def test_answers_and_calls_the_later_one_counts() -> None:
    call = "<function_call>g::f()</function_call>"
    assert final(f"{call}<answer>Done.") == "Done."
    assert actions(f"<answer>I will look. {call}")[0]["functionName"] == "f"
    assert actions(f"<answer>I will look.</answer>{call}")[0]["functionName"] == "f"


@pytest.mark.parametrize("name", ["xml", "tool_use", "fncall"])
def test_in_an_answer_another_grammars_call_is_a_quotation(name: str) -> None:
    text = "Write <function_call>g::f()</function_call> for it."
    assert final(f"<answer>{text}", name) == text


def test_a_tag_that_is_only_mentioned_is_text() -> None:
    for text in ("Use the <function_call> tag.", "<function_call> is it", "a <function_call>: b"):
        assert final(text) == text
        assert final(f"<answer>{text}") == text


def test_a_call_in_thinking_is_none_unless_the_thinking_is_not_closed() -> None:
    call = "<function_call>g::f()</function_call>"
    assert final(f"<scratchpad>maybe {call}</scratchpad><answer>No.") == "No."
    assert actions(f"<scratchpad>now {call}")[0]["functionName"] == "f"


@pytest.mark.parametrize("seed", range(4))
def test_calls_are_streamed_piece_by_piece(seed: int) -> None:
    told, parsed = streamed(cut(CALL, seed), "ORCHESTRATION", "function_call")
    call = "".join(text for kind, text in told if kind == parsers.CALL)
    assert call == CALL[CALL.index("<function_call>") :]
    assert "".join(text for kind, text in told if kind == parsers.THINKING) == "I need it."
    assert parsed == parsers.parse(CALL, name="function_call")


@pytest.mark.parametrize("name", ["fncall", "auto"])
@pytest.mark.parametrize(
    "body",
    [
        "<invoke><tool_name>{}</tool_name><parameters><a>1</a></parameters></invoke>",
        "<tool_name>{}</tool_name>\n<parameters>\n<a>1</a></parameters>",
        '{{"name": "{}", "parameters": {{"a": "1"}}}}',
        '{{"tool_name": "{}", "arguments": {{"a": "1"}}}}',
        '{{"function": {{"name": "{}", "arguments": "{{\\"a\\": \\"1\\"}}"}}}}',
        '[{{"function_name": "{}", "input": {{"a": "1"}}}}]',
        '{}(a="1")',
    ],
)
def test_a_call_in_fncall(name: str, body: str) -> None:
    for tool, parts in (
        ("GET::claims::list", {"verb": "GET", "actionGroupName": "claims", "apiName": "list"}),
        ("POST__claims__add", {"verb": "POST", "actionGroupName": "claims", "apiName": "add"}),
        ("claims::list", {"actionGroupName": "claims", "functionName": "list"}),
    ):
        for end in ("</fnCall>", ""):
            reply = f"<think>hm</think><fnCall>{body.format(tool)}{end}"
            parsed = parsers.parse(reply, "ORCHESTRATION", name)
            assert (member(parsed)["rationale"], parsed.notes) == ("hm", ())
            assert details(parsed)["actionGroupInvocations"] == [
                {**parts, "actionGroupInput": {"a": {"value": "1"}}}
            ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "BAD_CALL"),
        ("{", "NO_TOOL_NAME"),
        ('{"name": "list", "parameters": {}}', "BAD_PARTS"),
        ('{"name": "g::f", "parameters": [1]}', "BAD_CALL"),
        ('{"parameters": {}}', "NO_TOOL_NAME"),
        ("[7]", "NO_TOOL_NAME"),
        ("[]", "BAD_CALL"),
        ("<tool_name>list</tool_name>", "BAD_PARTS"),
    ],
)
def test_a_malformed_call_in_fncall_is_reported_to_the_model(body: str, code: str) -> None:
    parsed = parsers.parse(f"<fnCall>{body}</fnCall>", "ORCHESTRATION", "fncall")
    assert parsed.code == code
    assert "<fnCall><tool_name>$TOOL_NAME</tool_name>" in reprompt(parsed)


def test_a_question_in_fncall() -> None:
    asked = '<fnCall>{"name": "user::askuser", "parameters": {"question": "Which?"}}</fnCall>'
    assert details(parsers.parse(asked))["agentAskUser"] == {"responseText": "Which?"}
    parsed = parsers.parse(asked.replace("Which?", ""))
    assert reprompt(parsed).startswith("Missing the parameter 'question' for user::askuser ")


def test_results_after_fncalls_are_ignored() -> None:
    reply = "<fnCall>g::f()</fnCall>\n<fnCall>g::h()</fnCall><function_results>7<answer>7"
    assert [one["functionName"] for one in actions(reply, "fncall")] == ["f", "h"]
