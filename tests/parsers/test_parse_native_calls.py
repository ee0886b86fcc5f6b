"""Native tool use: `toolUse` blocks."""

from __future__ import annotations

from typing import Any

import pytest
from parser_helpers import actions, details, final, member, reprompt

from orchestrator import parsers


def use(name: Any, input: Any = None, id: str = "t-1") -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": input}}


def test_values_keep_their_json_types_and_the_id_is_kept() -> None:
    values = {"n": 10, "ratio": 0.5, "on": True, "list": [1, {"a": None}], "text": "<b> & c"}
    assert actions([{"text": "<thinking>t</thinking>"}, use("POST__claims__create", values)]) == [
        {
            "actionGroupName": "claims",
            "verb": "POST",
            "apiName": "create",
            "id": "t-1",
            "actionGroupInput": {key: {"value": value} for key, value in values.items()},
        }
    ]


def test_a_call_without_arguments() -> None:
    for nothing in ({}, None, "", "{}"):
        assert actions([use("hr__days", nothing)])[0]["actionGroupInput"] == {}


def test_input_as_json_text_is_read() -> None:
    assert actions([use("hr__days", '{"n": 1}')])[0]["actionGroupInput"] == {"n": {"value": 1}}


@pytest.mark.parametrize("input", ["{broken", "[1]", [1], 7])
def test_an_input_that_is_no_object_is_reported_to_the_model(input: Any) -> None:
    parsed = parsers.parse([use("hr__days", input)])
    assert parsed.code == "BAD_INPUT"
    assert "JSON object" in reprompt(parsed)
    assert parsed.raw == "hr__days"


@pytest.mark.parametrize("name", ["days", "a__", "__b", "GET__a__"])
def test_a_malformed_name_is_reported_to_the_model(name: str) -> None:
    parsed = parsers.parse([use(name, {})])
    assert parsed.code == "BAD_PARTS"
    assert reprompt(parsed).startswith(
        "The tool name format is incorrect. The format for the tool name must be: "
        "'httpVerb__actionGroupName__apiName"
    )
    assert parsed.raw == name


@pytest.mark.parametrize("name", [None, "", " ", 5])
def test_a_call_without_a_name(name: Any) -> None:
    assert parsers.parse([use(name, {})]).code == "NO_TOOL_NAME"


def test_actions_a_search_and_a_question_are_all_kept() -> None:
    blocks = [
        use("user__askuser", {"question": "Which one?"}, "t-1"),
        use("GET__x_amz_knowledgebase_KB1__Search", {"searchQuery": "q"}, "t-2"),
        use("hr__days", {}, "t-3"),
        use("hr__more", {}, "t-4"),
    ]
    found = details(parsers.parse(blocks, "ORCHESTRATION", "tool_use"))
    assert found["invocationType"] == "ACTION_GROUP"
    assert found["agentAskUser"] == {"responseText": "Which one?", "id": "t-1"}
    assert found["agentKnowledgeBases"] == [
        {"knowledgeBaseId": "KB1", "id": "t-2", "searchQuery": {"value": "q"}}
    ]
    assert [one["id"] for one in found["actionGroupInvocations"]] == ["t-3", "t-4"]
    assert details(parsers.parse(blocks[:2]))["invocationType"] == "KNOWLEDGE_BASE"
    assert details(parsers.parse(blocks[:1]))["invocationType"] == "ASK_USER"


def test_a_question_without_text_is_reported_to_the_model() -> None:
    parsed = parsers.parse([use("user__askuser", {"question": None})])
    assert parsed.code == "MISSING_PARAM"
    assert reprompt(parsed) == (
        "Missing the parameter 'question' for user__askuser function call. "
        "Please try again with the correct argument added."
    )


def test_native_calls_count_whatever_the_text_says() -> None:
    text = "<thinking>t</thinking><answer>I look it up.</answer>"
    assert actions([{"text": text}, use("hr__days")])[0]["functionName"] == "days"
    text = "<function_calls><invoke><tool_name>a::b</tool_name></invoke>"
    parsed = parsers.parse([{"text": text}, use("hr__days")])
    assert len(details(parsed)["actionGroupInvocations"]) == 1
    assert parsed.notes == ("calls in the text beside native ones were ignored",)


def test_native_calls_in_an_xml_dialect_are_noted() -> None:
    parsed = parsers.parse([use("hr__days")], "ORCHESTRATION", "xml")
    assert details(parsed)["invocationType"] == "ACTION_GROUP"
    assert parsed.notes == ("native tool calls in an XML dialect",)


@pytest.mark.parametrize(
    ("text", "rationale"),
    [
        ("<thinking>\nt\n</thinking>\n", "t"),
        ("t\n(2) u</thinking>\n\n", "t\n(2) u"),
        ("<thinking>t", "t"),
        ("<thinking>a</thinking> b <thinking>c</thinking>", "a</thinking> b <thinking>c"),
        ("I look it up.", "I look it up."),
        ("I look it up. <answer>Not yet.", "I look it up."),
        ("", ""),
    ],
)
def test_the_rationale_stands_beside_the_calls(text: str, rationale: str) -> None:
    parsed = parsers.parse([{"text": text}, use("hr__days")], "ORCHESTRATION", "tool_use")
    assert member(parsed)["rationale"] == rationale
    parser = parsers.new("tool_use", "ORCHESTRATION")
    for character in text:
        parser.feed(character)
    assert parser.finish([{"text": text}, use("hr__days")]) == parsed


def test_other_blocks_and_null_members_are_passed_over() -> None:
    blocks: list[Any] = [
        {"reasoningContent": {"reasoningText": {"text": "<answer>no</answer>"}}},
        {"text": None, "toolUse": None},
        None,
        {"text": "<answer>Yes."},
    ]
    assert final(blocks) == "Yes."
