"""Faults of the parser Lambda samples in Amazon's documentation, none of which is ours."""

from __future__ import annotations

import pytest
from parser_helpers import actions, arguments, details, final

from orchestrator import parsers


def test_an_answer_with_citations_in_content_blocks_is_read() -> None:
    # The Claude 3.5 sample passes the reply's object to a regular expression.
    text = (
        "<answer><answer_part><text>One.</text><sources><source>a</source></sources>"
        "</answer_part></answer>"
    )
    found = details(parsers.parse([{"text": text}], "ORCHESTRATION", "tool_use"))
    (part,) = found["agentFinalResponse"]["citations"]["generatedResponseParts"]
    assert part == {"text": "One.", "references": [{"sourceId": "a"}]}


def test_a_function_name_of_two_parts_has_no_third() -> None:
    # The sample for functions takes the parts 1 and 2 of a name that has 0 and 1.
    (action,) = actions([{"toolUse": {"toolUseId": "t", "name": "hr__days", "input": {}}}])
    assert (action["actionGroupName"], action["functionName"]) == ("hr", "days")
    assert "verb" not in action


def test_an_answer_in_a_later_text_block_is_found() -> None:
    # The sample looks at the first text block only.
    assert final([{"text": "<thinking>t</thinking>"}, {"text": "<answer>Yes."}]) == "Yes."
    assert final([{"text": "<thinking>t</thinking>"}, {"text": "Yes."}]) == "Yes."


def test_a_missing_category_is_no_valid_input() -> None:
    # The samples' condition is true, or raises, for a category that was not found.
    parsed = parsers.parse("<thinking>t</thinking>", "PRE_PROCESSING")
    assert parsed.response["preProcessingParsedResponse"]["isValidInput"] is False


@pytest.mark.parametrize("value", ["a,b", "x=1", 'say "hi"', "f(a, b=2)"])
def test_a_value_may_hold_commas_equal_signs_and_quotes(value: str) -> None:
    assert arguments(f"<a>{value}</a>") == {"a": value}


def test_a_call_may_have_no_arguments() -> None:
    for parameters in ("<parameters></parameters>", "<parameters/>", "<parameters>\n", ""):
        reply = f"<function_calls><invoke><tool_name>hr::days</tool_name>{parameters}</invoke>"
        assert actions(reply)[0]["actionGroupInput"] == {}


@pytest.mark.parametrize("value", ["AT&T", "1 < 2", "<", "&", "a<b>c"])
def test_a_bare_ampersand_or_less_than_sign_is_no_error(value: str) -> None:
    assert arguments(f"<a>{value}</a>") == {"a": value}


def test_backslashes_survive() -> None:
    # The samples' clean-up turns them into line breaks, or drops them.
    value = r'{"path": "C:\\new", "text": "one\ntwo"}'
    assert arguments(f"<a>{value}</a>") == {"a": value}
    assert final(r"<answer>C:\new\table") == r"C:\new\table"


def test_escaped_tags_are_text() -> None:
    # The samples were published with their tags escaped, and so never match.
    assert final("&lt;answer&gt;No&lt;/answer&gt;") == "&lt;answer&gt;No&lt;/answer&gt;"
    assert final("<answer>Write &lt;b&gt;") == "Write &lt;b&gt;"


def test_the_verb_is_the_one_that_was_written() -> None:
    # One sample answers GET for every name, also for names without a verb.
    (action,) = actions("<function_calls><invoke><tool_name>DELETE::a::/x</tool_name></invoke>")
    assert action["verb"] == "DELETE"


def test_a_reply_is_text_not_a_completion_object() -> None:
    # The knowledge-base samples expect {"completion": ...}.
    parsed = parsers.parse("<answer>Yes.</answer>", "KNOWLEDGE_BASE_RESPONSE_GENERATION")
    member = parsed.response["knowledgeBaseResponseGenerationParsedResponse"]
    assert member["generatedResponse"]["generatedResponseParts"][0]["text"] == "Yes."
