"""Calls in the XML protocol."""

from __future__ import annotations

import pytest
from parser_helpers import actions, details, final, member, reprompt

from orchestrator import parsers

FORMAT = (
    "406: The function call format is incorrect. The format for function calls must be: <invoke> "
    "<tool_name>$TOOL_NAME</tool_name> <parameters> <$PARAMETER_NAME>$PARAMETER_VALUE"
    "</$PARAMETER_NAME>...</parameters></invoke>."
)

CLAIM = """<thinking>
I need the claim.
</thinking>

<function_calls>
<invoke>
<tool_name>GET::claims::/claims/{claimId}</tool_name>
<parameters>
<claimId>claim-857</claimId>
</parameters>
"""


@pytest.mark.parametrize(
    "end", ["", "</invoke>", "</invoke>\n</function_calls>", "</invoke></function_calls>\nDone."]
)
def test_stop_sequences_may_cut_the_closing_tags(end: str) -> None:
    parsed = parsers.parse(CLAIM + end, "ORCHESTRATION", "xml")
    assert parsed.response == {
        "messageVersion": "2.0",
        "promptType": "ORCHESTRATION",
        "orchestrationParsedResponse": {
            "rationale": "I need the claim.",
            "responseDetails": {
                "invocationType": "ACTION_GROUP",
                "actionGroupInvocations": [
                    {
                        "actionGroupName": "claims",
                        "verb": "GET",
                        "apiName": "/claims/{claimId}",
                        "actionGroupInput": {"claimId": {"value": "claim-857"}},
                    }
                ],
            },
        },
    }
    assert parsed.notes == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hr::get_days", {"actionGroupName": "hr", "functionName": "get_days"}),
        ("get::a::/x", {"actionGroupName": "a", "verb": "GET", "apiName": "/x"}),
        ("get::days", {"actionGroupName": "get", "functionName": "days"}),
        ("GET__a__listX", {"actionGroupName": "a", "verb": "GET", "apiName": "listX"}),
        ("hr__get__days", {"actionGroupName": "hr", "functionName": "get__days"}),
        ("hr___get", {"actionGroupName": "hr_", "functionName": "get"}),
        ("POST::a::/x::y", {"actionGroupName": "a", "verb": "POST", "apiName": "/x::y"}),
    ],
)
def test_names_have_two_or_three_parts(name: str, expected: dict[str, str]) -> None:
    reply = f"<function_calls><invoke><tool_name> {name}\n</tool_name></invoke>"
    assert actions(reply) == [{**expected, "actionGroupInput": {}}]


@pytest.mark.parametrize("name", ["get_days", "", "::", "a::", "::b", "GET::a::", "GET::::b", "__"])
def test_a_malformed_name_is_reported_to_the_model_as_recorded(name: str) -> None:
    reply = f"<thinking>t</thinking><function_calls><invoke><tool_name>{name}</tool_name></invoke>"
    parsed = parsers.parse(reply, "ORCHESTRATION", "xml")
    assert parsed.code == ("BAD_PARTS" if name else "NO_TOOL_NAME")
    assert reprompt(parsed) == FORMAT
    assert member(parsed)["rationale"] == "t"
    assert parsed.raw == f"<invoke><tool_name>{name}</tool_name>"


@pytest.mark.parametrize(
    "reply",
    ["<function_calls>get_days()", "<function_calls>\n</function_calls>", "<function_calls>"],
)
def test_call_markup_without_a_call_is_malformed(reply: str) -> None:
    parsed = parsers.parse(reply)
    assert (parsed.code, reprompt(parsed), parsed.raw) == ("BAD_XML", FORMAT, reply)


def test_one_bad_call_holds_back_all_of_the_reply() -> None:
    reply = (
        "<function_calls><invoke><tool_name>a::b</tool_name></invoke>"
        "<invoke><tool_name>c</tool_name></invoke></function_calls>"
    )
    parsed = parsers.parse(reply)
    assert parsed.code == "BAD_PARTS"
    assert "responseDetails" not in member(parsed)


def test_several_calls_keep_their_order() -> None:
    reply = (
        "<function_calls><invoke><tool_name>a::one</tool_name><parameters><n>1</n></parameters>"
        "</invoke>\n<invoke><tool_name>a::two</tool_name><parameters/></invoke></function_calls>"
        "<function_calls><invoke><tool_name>a::three</tool_name></function_calls>"
    )
    assert [one["functionName"] for one in actions(reply)] == ["one", "two", "three"]


def test_a_missing_end_of_an_invoke_is_made_up_by_the_next() -> None:
    reply = (
        "<function_calls><invoke><tool_name>a::one</tool_name><parameters><n>1</n></parameters>"
        "<invoke><tool_name>a::two</tool_name>"
    )
    first, second = actions(reply)
    assert first["actionGroupInput"] == {"n": {"value": "1"}}
    assert second["functionName"] == "two"


def test_actions_a_search_and_a_question_are_all_kept() -> None:
    reply = (
        "<function_calls>"
        "<invoke><tool_name>user::askuser</tool_name><parameters><question>Which one?</question>"
        "</parameters></invoke>"
        "<invoke><tool_name>GET::x_amz_knowledgebase_KB12345678::Search</tool_name><parameters>"
        "<searchQuery>rules for A &amp; B</searchQuery></parameters></invoke>"
        "<invoke><tool_name>hr::days</tool_name></invoke>"
    )
    assert details(parsers.parse(reply)) == {
        "invocationType": "ACTION_GROUP",
        "agentAskUser": {"responseText": "Which one?"},
        "agentKnowledgeBases": [
            {"knowledgeBaseId": "KB12345678", "searchQuery": {"value": "rules for A & B"}}
        ],
        "actionGroupInvocations": [
            {"actionGroupName": "hr", "functionName": "days", "actionGroupInput": {}}
        ],
    }


def test_a_question_alone_asks_the_user() -> None:
    reply = (
        "<function_calls><invoke><tool_name>user::askuser</tool_name>"
        "<parameters><question>Which day?</question></parameters></invoke>"
    )
    assert details(parsers.parse(reply)) == {
        "invocationType": "ASK_USER",
        "agentAskUser": {"responseText": "Which day?"},
    }


def test_a_question_without_text_is_reported_to_the_model_as_documented() -> None:
    head = "<function_calls><invoke><tool_name>user::askuser</tool_name>"
    parsed = parsers.parse(head + "<parameters><question> </question></parameters></invoke>")
    assert parsed.code == "MISSING_PARAM"
    assert reprompt(parsed) == (
        "Missing the parameter 'question' for user::askuser function call. "
        "Please try again with the correct argument added."
    )
    parsed = parsers.parse(head + "</invoke>")
    assert parsed.code == "MISSING_PARAM"
    assert "<tool_name>user::askuser</tool_name><parameters><question>$QUESTION" in reprompt(parsed)


def test_the_only_parameter_of_a_question_or_search_is_what_it_is_about() -> None:
    reply = (
        "<function_calls><invoke><tool_name>user::askuser</tool_name><parameters>"
        "<askuser>Which day?</askuser></parameters></invoke>"
    )
    parsed = parsers.parse(reply)
    assert details(parsed)["agentAskUser"] == {"responseText": "Which day?"}
    assert parsed.notes == ("the parameter 'askuser' was taken for 'question'",)


def test_a_search_without_a_query_is_reported_to_the_model() -> None:
    name = "GET::x_amz_knowledgebase_K::Search"
    parsed = parsers.parse(f"<function_calls><invoke><tool_name>{name}</tool_name></invoke>")
    assert parsed.code == "MISSING_PARAM"
    assert reprompt(parsed).startswith(f"Missing the parameter 'searchQuery' for {name} ")


def test_calls_and_answers_the_later_one_counts() -> None:
    call = "<function_calls><invoke><tool_name>a::b</tool_name></invoke></function_calls>"
    assert actions(f"<answer>I will look.</answer>{call}")[0]["functionName"] == "b"
    assert actions(f"<answer>I will look. {call}")[0]["functionName"] == "b"
    assert final(f"{call}<answer>Done.") == "Done."


def test_an_answer_inside_a_value_is_no_answer() -> None:
    reply = (
        "<function_calls><invoke><tool_name>quiz::check</tool_name><parameters>"
        "<answer>42</answer><note><thinking>hm</thinking></note></parameters></invoke>"
    )
    (action,) = actions(reply)
    assert action["actionGroupInput"] == {
        "answer": {"value": "42"},
        "note": {"value": "<thinking>hm</thinking>"},
    }


def test_a_call_that_is_only_mentioned_is_no_call() -> None:
    text = "Write <function_calls> around it, then <invoke>."
    assert final(f"<answer>{text}") == text
    text = f"<function_calls>{' ' * 200}<invoke> is too far away."
    assert final(f"<answer>{text}") == text
    reply = "<thinking>use <function_calls><invoke><tool_name>a::b</tool_name></thinking>"
    assert final(reply + "<answer>No.") == "No."


def test_results_that_the_model_invents_are_ignored_with_what_follows() -> None:
    reply = (
        "<function_calls><invoke><tool_name>a::b</tool_name></invoke></function_calls>"
        "<function_results><result>7</result></function_results><answer>It is 7."
    )
    parsed = parsers.parse(reply)
    assert [one["functionName"] for one in details(parsed)["actionGroupInvocations"]] == ["b"]
    assert parsed.notes == ("the model wrote results of its own calls: they are ignored",)


def test_thinking_that_was_not_closed_does_not_hide_the_calls() -> None:
    parsed = parsers.parse(
        "<thinking>I need it. <function_calls><invoke><tool_name>a::b</tool_name></invoke>"
        "<invoke><tool_name>a::c</tool_name></invoke>"
    )
    assert [one["functionName"] for one in details(parsed)["actionGroupInvocations"]] == ["b", "c"]
    assert member(parsed)["rationale"] == "I need it."


def test_text_around_the_calls_is_no_call() -> None:
    reply = (
        "Sure!\n```xml\n<function_calls>\n<invoke>\n<tool_name>a::b</tool_name>\n</invoke>\n"
        "</function_calls>\n```"
    )
    parsed = parsers.parse(reply)
    assert details(parsed)["invocationType"] == "ACTION_GROUP"
    assert member(parsed)["rationale"] == "Sure!\n```xml"  # as recorded: the text before a call


def test_an_invoke_without_function_calls_is_understood_with_a_note() -> None:
    parsed = parsers.parse("<invoke><tool_name>a::b</tool_name></invoke>")
    assert details(parsed)["invocationType"] == "ACTION_GROUP"
    assert parsed.notes == ("calls without <function_calls>",)


def test_names_and_parameters_in_attributes() -> None:
    reply = (
        '<function_calls><invoke name="a::b"><parameter name="city">Paris</parameter>'
        '<parameter name="html"><invoke></parameter></invoke></function_calls>'
    )
    (action,) = actions(reply)
    assert action["functionName"] == "b"
    assert action["actionGroupInput"] == {
        "city": {"value": "Paris"},
        "html": {"value": "<invoke>"},
    }


@pytest.mark.parametrize(
    "tag", ["<FUNCTION_CALLS>", '<function_calls id="1">', "<function_calls >"]
)
def test_tags_may_be_in_upper_case_or_have_attributes(tag: str) -> None:
    reply = f"{tag}<Invoke><Tool_Name>a::b</Tool_Name></INVOKE>"
    assert actions(reply)[0]["functionName"] == "b"


@pytest.mark.parametrize("around", ["{}", "<thinking>t</thinking>{}", "```xml\n{}\n```"])
def test_where_tools_are_native_a_call_in_text_is_to_be_made_natively(around: str) -> None:
    parsed = parsers.parse(around.format(CLAIM), "ORCHESTRATION", "tool_use")
    assert parsed.code == "WRITTEN_CALL"
    assert reprompt(parsed).startswith("The tool call was written as text, and was not carried")


@pytest.mark.parametrize("around", ["It says: {}", "{} That is it.", "<answer>{}</answer>"])
def test_where_tools_are_native_a_call_beside_other_text_is_text(around: str) -> None:
    call = CLAIM[CLAIM.index("<function_calls>") :] + "</invoke></function_calls>"
    assert call in final(around.format(call), "tool_use")


def test_the_markup_that_nova_writes_beside_tool_use_is_understood() -> None:
    reply = (
        "<thinking>t</thinking>\n<tools>\n<__function=GET__claims__getClaim>\n"
        "<__parameter=id>claim-857</__parameter>\n</__function>\n</tools>"
    )
    (action,) = actions(reply)
    assert action == {
        "actionGroupName": "claims",
        "verb": "GET",
        "apiName": "getClaim",
        "actionGroupInput": {"id": {"value": "claim-857"}},
    }
    asked = "<answer><__function=user_askuser><__parameter=question>Which?</__parameter></__"
    assert details(parsers.parse(asked))["agentAskUser"] == {"responseText": "Which?"}


def test_calls_are_streamed_piece_by_piece() -> None:
    parser = parsers.new("xml", "ORCHESTRATION")
    told = [item for piece in CLAIM.splitlines(keepends=True) for item in parser.feed(piece)]
    kinds = [kind for kind, _ in told]
    assert kinds == sorted(kinds, key=["thinking", "call"].index)
    call = "".join(text for kind, text in told if kind == parsers.CALL)
    assert call == CLAIM[CLAIM.index("<function_calls>") :]
