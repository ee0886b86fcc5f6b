"""Faults of the parser Lambda samples in Amazon's documentation, none of which is ours.

Each test says what a sample does. Habits of public parsers that users rely on follow.
"""

from __future__ import annotations

import pytest
from parser_helpers import actions, arguments, details, final, member, reprompt

from orchestrator import parsers


def test_1_an_answer_with_citations_in_content_blocks_is_read() -> None:
    # The Claude 3.5 sample passes the reply's object to a regular expression.
    text = (
        "<answer><answer_part><text>One.</text><sources><source>a</source></sources>"
        "</answer_part></answer>"
    )
    found = details(parsers.parse([{"text": text}], "ORCHESTRATION", "tool_use"))
    (part,) = found["agentFinalResponse"]["citations"]["generatedResponseParts"]
    assert part == {"text": "One.", "references": [{"sourceId": "a"}]}


def test_2_a_function_name_of_two_parts_has_no_third() -> None:
    # The sample for functions takes the parts 1 and 2 of a name that has 0 and 1.
    (action,) = actions([{"toolUse": {"toolUseId": "t", "name": "hr__days", "input": {}}}])
    assert (action["actionGroupName"], action["functionName"]) == ("hr", "days")
    assert "verb" not in action


def test_3_an_answer_in_a_later_text_block_is_found() -> None:
    # The sample looks at the first text block only.
    assert final([{"text": "<thinking>t</thinking>"}, {"text": "<answer>Yes."}]) == "Yes."
    assert final([{"text": "<thinking>t</thinking>"}, {"text": "Yes."}]) == "Yes."


def test_4_a_missing_category_is_no_valid_input() -> None:
    # The samples' condition is true, or raises, for a category that was not found.
    parsed = parsers.parse("<thinking>t</thinking>", "PRE_PROCESSING")
    assert parsed.response["preProcessingParsedResponse"]["isValidInput"] is False


@pytest.mark.parametrize("value", ["a,b", "x=1", 'say "hi"', "f(a, b=2)"])
def test_6_a_value_may_hold_commas_equal_signs_and_quotes(value: str) -> None:
    # The sample for Claude 2 splits at every comma and equal sign.
    assert arguments(f"<a>{value}</a>") == {"a": value}
    (action,) = actions(f'<function_call>get::g::/x(a="{value}", b="2")</function_call>')
    assert action["actionGroupInput"] == {"a": {"value": value}, "b": {"value": "2"}}


def test_6_a_call_may_have_no_arguments() -> None:
    # The sample for Claude 2 finds no call when nothing stands between the parentheses.
    (action,) = actions("<function_call>get::hr::/days()</function_call>")
    assert (action["apiName"], action["actionGroupInput"]) == ("/days", {})
    for parameters in ("<parameters></parameters>", "<parameters/>", "<parameters>\n", ""):
        reply = f"<function_calls><invoke><tool_name>hr::days</tool_name>{parameters}</invoke>"
        assert actions(reply)[0]["actionGroupInput"] == {}


@pytest.mark.parametrize("quote", ["'", '"'])
def test_5_topics_are_read_with_either_quote(quote: str) -> None:
    # The sample's expression wants double quotes, and its template shows single ones.
    reply = f"<summary><topic name={quote}cars{quote}>Red ones.</topic></summary>"
    parsed = parsers.parse(reply, "MEMORY_SUMMARIZATION")
    found = parsed.response["memorySummarizationParsedResponse"]["topicwiseSummaries"]
    assert found == [{"topic": "cars", "summary": "Red ones."}]


@pytest.mark.parametrize("value", ["AT&T", "1 < 2", "<", "&", "a<b>c"])
def test_7_a_bare_ampersand_or_less_than_sign_is_no_error(value: str) -> None:
    assert arguments(f"<a>{value}</a>") == {"a": value}


def test_8_backslashes_survive() -> None:
    # The samples' clean-up turns them into line breaks, or drops them.
    value = r'{"path": "C:\\new", "text": "one\ntwo"}'
    assert arguments(f"<a>{value}</a>") == {"a": value}
    assert final(r"<answer>C:\new\table") == r"C:\new\table"


def test_9_escaped_tags_are_text() -> None:
    # The samples were published with their tags escaped, and so never match.
    assert final("&lt;answer&gt;No&lt;/answer&gt;") == "&lt;answer&gt;No&lt;/answer&gt;"
    assert final("<answer>Write &lt;b&gt;") == "Write &lt;b&gt;"


def test_10_the_verb_is_the_one_that_was_written() -> None:
    # One sample answers GET for every name, also for names without a verb.
    (action,) = actions("<function_calls><invoke><tool_name>DELETE::a::/x</tool_name></invoke>")
    assert action["verb"] == "DELETE"
    for reply in ("<fnCall>DELETE::a::/x()</fnCall>", "<fnCall>a::x()</fnCall>"):
        (action,) = actions(reply, "fncall")
        assert action.get("verb") == ("DELETE" if "DELETE" in reply else None)


def test_11_a_reply_is_text_not_a_completion_object() -> None:
    # The knowledge-base samples expect {"completion": ...}.
    parsed = parsers.parse("<answer>Yes.</answer>", "KNOWLEDGE_BASE_RESPONSE_GENERATION")
    member = parsed.response["knowledgeBaseResponseGenerationParsedResponse"]
    assert member["generatedResponse"]["generatedResponseParts"][0]["text"] == "Yes."


def test_an_entity_bomb_is_text_and_reported_to_the_model_as_malformed() -> None:
    # The samples' XML parser expands entities.
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    assert arguments(f"<a>{bomb}&b;</a>") == {"a": f"{bomb}&b;"}
    reply = f"<function_calls><invoke><tool_name>g::f</tool_name>{bomb}<parameters><a>&b;</a>"
    parsed = parsers.parse(reply)
    assert parsed.code == "BAD_XML"
    assert "The function call format is incorrect" in reprompt(parsed)


def test_an_answer_without_any_format_is_the_answer() -> None:
    # Several public parsers fall back so; the samples return nothing, or raise.
    assert final("It is red.") == "It is red."
    assert final([{"text": "It is red."}], "tool_use") == "It is red."
    assert final("It is red.", "function_call") == "It is red."
    assert final("It is red.", "fncall") == "It is red."


def test_parameters_written_as_json_are_read() -> None:
    reply = (
        "<function_calls><invoke><tool_name>g::f</tool_name>"
        '<parameters>{"a": [1, 2], "b": "x, y"}</parameters></invoke>'
    )
    (action,) = actions(reply)
    assert action["actionGroupInput"] == {"a": {"value": [1, 2]}, "b": {"value": "x, y"}}


def test_a_question_of_the_multi_action_prompt_is_beside_its_calls() -> None:
    # The samples take the first call of a reply and forget the others.
    uses = [
        {"toolUse": {"toolUseId": "t-1", "name": "GET__hr__days", "input": {}}},
        {"toolUse": {"toolUseId": "t-2", "name": "GET__hr__team", "input": {}}},
        {"toolUse": {"toolUseId": "t-3", "name": "user__askuser", "input": {"question": "Who?"}}},
    ]
    found = details(parsers.parse(uses, "ORCHESTRATION", "tool_use"))
    assert [one["apiName"] for one in found["actionGroupInvocations"]] == ["days", "team"]
    assert found["agentAskUser"]["responseText"] == "Who?"


def test_without_thinking_the_text_before_the_answer_is_the_rationale() -> None:
    # As the samples have it; with thinking only that counts, which they get wrong.
    assert member(parsers.parse("Sure! <answer>Yes."))["rationale"] == "Sure!"
    reply = "Sure! <thinking>It is.</thinking> Well: <answer>Yes."
    assert member(parsers.parse(reply))["rationale"] == "It is."


def test_a_classification_before_prefilled_text_is_read() -> None:
    # The prompt ends in the middle of the reply, whose opening tag is therefore missing.
    reply = "and categorize it.\nIt is a claim.</thinking>\n<category>D</category>"
    parsed = parsers.parse(reply, "PRE_PROCESSING").response["preProcessingParsedResponse"]
    assert parsed == {
        "isValidInput": True,
        "rationale": "and categorize it.\nIt is a claim.",
    }
