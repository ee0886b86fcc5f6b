"""Pre-processing, knowledge-base answers and post-processing."""

from __future__ import annotations

from typing import Any

import pytest
from parser_helpers import cut, streamed

from orchestrator import parsers
from orchestrator.errors import ValidationError

KNOWLEDGE_BASE = "KNOWLEDGE_BASE_RESPONSE_GENERATION"


def classified(reply: str) -> tuple[bool, str, str]:
    parsed = parsers.parse(reply, "PRE_PROCESSING")
    assert parsed.response["messageVersion"] == "1.0"
    found = parsed.response["preProcessingParsedResponse"]
    return found["isValidInput"], found["rationale"], parsed.code


@pytest.mark.parametrize("letter", "ABCDEFN")
def test_only_categories_d_and_e_are_valid(letter: str) -> None:
    reply = f"<thinking>\nwhy\n</thinking>\n\n<category>{letter}</category>"
    assert classified(reply) == (letter in "DE", "\nwhy\n", "")


@pytest.mark.parametrize(
    "reply",
    [
        "<category>D",
        "<category>\n d \n</category>",
        "<category>Category D</category>",
        "<CATEGORY>(D)</CATEGORY>",
        "<category>D.</category>",
        "why</thinking><category>D</category>",
        "<thinking>not <category>A</category></thinking><category>D</category>",
        "D",
        "<thinking>why</thinking>\nD.",
    ],
)
def test_ways_to_write_a_category(reply: str) -> None:
    valid, _, code = classified(reply)
    assert (valid, code) == (True, "")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "<thinking>why</thinking>",
        "<category></category>",
        "I do not know. D is good.",
        "<category>Delete</category>",
        "&lt;category&gt;D&lt;/category&gt;",
        "<category>4</category>",
    ],
)
def test_a_reply_without_a_category_does_not_let_the_input_pass(reply: str) -> None:
    valid, _, code = classified(reply)
    assert (valid, code) == (False, "NO_CATEGORY")


def test_the_last_of_several_categories_counts() -> None:
    parsed = parsers.parse("<category>D</category><category>A</category>", "PRE_PROCESSING")
    assert parsed.response["preProcessingParsedResponse"]["isValidInput"] is False
    assert parsed.notes == ("several categories: the last one counts",)


def post(reply: str) -> tuple[str, str]:
    parsed = parsers.parse(reply, "POST_PROCESSING")
    assert parsed.response["messageVersion"] == "1.0"
    return parsed.response["postProcessingParsedResponse"]["responseText"], parsed.code


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Here:\n\n<final_response>\nYes.\n</final_response>", "Yes."),
        ("<final_response>Yes, <answer>so</answer>", "Yes, <answer>so</answer>"),
        ("<final_response>Call <function_calls><invoke>", "Call <function_calls><invoke>"),
        ("<thinking>t</thinking>Yes.", "Yes."),
        ("Yes.", "Yes."),
    ],
)
def test_post_processing_gives_the_final_response(reply: str, text: str) -> None:
    assert post(reply) == (text, "")


@pytest.mark.parametrize("reply", ["", "<final_response> </final_response>", "<thinking>t"])
def test_an_empty_post_processing_reply_has_a_code(reply: str) -> None:
    assert post(reply) == ("", "EMPTY")


@pytest.mark.parametrize("seed", range(4))
def test_post_processing_streams(seed: int) -> None:
    reply = "Here: <final_response>\nYes, it is.\n</final_response>"
    told, parsed = streamed(cut(reply, seed), "POST_PROCESSING", "auto")
    assert "".join(text for _, text in told) == "Yes, it is."
    assert parsed == parsers.parse(reply, "POST_PROCESSING")


def parts(reply: str) -> list[dict[str, Any]]:
    parsed = parsers.parse(reply, KNOWLEDGE_BASE)
    found = parsed.response["knowledgeBaseResponseGenerationParsedResponse"]
    return found["generatedResponse"]["generatedResponseParts"]


def test_knowledge_base_answers_have_parts_with_references() -> None:
    reply = (
        "<answer>\n<answer_part>\n<text>\nOne.\n</text>\n<sources>\n<source>a</source>\n</sources>"
        "\n</answer_part>\n<answer_part>\n<text>Two.</text>\n<sources>\n<source>b</source>"
        "\n<source>a</source></sources></answer_part>"
    )
    assert parts(reply) == [
        {"text": "One.", "references": [{"sourceId": "a"}]},
        {"text": "Two.", "references": [{"sourceId": "b"}, {"sourceId": "a"}]},
    ]


@pytest.mark.parametrize(
    "reply", ["One.", "<answer>One.", "<answer_part>One.", "<thinking>t</thinking> One."]
)
def test_knowledge_base_answers_without_sources_are_one_part(reply: str) -> None:
    assert parts(reply) == [{"text": "One.", "references": []}]


def test_an_empty_knowledge_base_answer_has_a_code() -> None:
    assert parsers.parse("<answer></answer>", KNOWLEDGE_BASE).code == "EMPTY"
    assert parts("") == []


@pytest.mark.parametrize(("name", "stage"), [("nova", "ORCHESTRATION"), ("xml", "MEMORY")])
def test_an_unknown_parser_or_stage_is_named(name: str, stage: str) -> None:
    with pytest.raises(ValidationError, match=r"'nova'|'MEMORY'"):
        parsers.new(name, stage)
