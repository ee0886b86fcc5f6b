"""Final responses: what is thinking, what is answer, and what streams."""

from __future__ import annotations

import pytest
from parser_helpers import cut, details, final, member, reprompt, streamed

from orchestrator import parsers


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<answer>Yes.", "Yes."),
        ("<answer>\n Yes. \n</answer>\n", "Yes."),
        ("<thinking>t</thinking>\n\n<answer>Yes.</answer> More.", "Yes."),
        ("<answer>Yes.</answer><answer>No.</answer>", "Yes."),
        ("<answer><answer>Yes.</answer></answer>", "Yes."),
        ("<answer>a < b, <b>bold</b> & <text>x</text>", "a < b, <b>bold</b> & <text>x</text>"),
        ("<Answer lang='en'>Yes.</ANSWER>", "Yes."),
        ("<answer>Yes.</ans", "Yes."),
        ("Well, <answer>Yes.", "Yes."),
        ("<thinking>in <answer></answer> tags</thinking><answer>Yes.", "Yes."),
        ("Yes.", "Yes."),
        ("  Yes.\n", "Yes."),
        ("<thinking>t</thinking>\nYes.", "Yes."),
        ("<thinking>t</thinking>Yes, <thinking>u</thinking>really.", "Yes, really."),
        ("t</thinking>Yes.", "Yes."),
        ("Yes.</answer> More.", "Yes."),
        ("<thinking>t</thinking>\n</answer>Yes.</answer>", "Yes."),
        ("<thinking>in <answer> tags</thinking>Yes.", "Yes."),
        ("<think>t</think>Yes.", "Yes."),
        ("2 < 3 and <b>4</b>", "2 < 3 and <b>4</b>"),
        ("<thinking>t <answer>Yes.</answer></thinking>", "Yes."),
        ("<thinking>t\n<answer>Yes.", "Yes."),
        ("<thinking>in <answer> tags.\n<answer>Yes.", "Yes."),
    ],
)
def test_the_final_response(reply: str, answer: str) -> None:
    for name in parsers.NAMES:
        assert final(reply, name) == answer


@pytest.mark.parametrize(
    ("reply", "rationale"),
    [
        ("<thinking>\nt\n</thinking>\n<answer>Yes.", "t"),
        ("<answer>Yes. <thinking>u</thinking>", ""),
        ("<thinking>t</thinking><answer>the </thinking> tag", "t"),
        (
            '<thinking>a</thinking>\n{"b": 1}\n<thinking>c</thinking><answer>Yes.',
            'a</thinking>\n{"b": 1}\n<thinking>c',
        ),
        ("t\n</thinking><answer>Yes.", "t"),
        ("<thinking>t\n<answer>Yes.", "t"),
        ("<scratchpad>t</scratchpad><answer>Yes.", "t"),
        ("<THINKING>t</THINKING><answer>Yes.", "t"),
        ("Yes.", ""),
    ],
)
def test_the_rationale_is_greedy_and_trimmed(reply: str, rationale: str) -> None:
    assert member(parsers.parse(reply))["rationale"] == rationale


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("", "EMPTY"),
        (" \n", "EMPTY"),
        ("<thinking>t</thinking>", "NO_ANSWER"),
        ("<thinking>t", "NO_ANSWER"),
        ("<answer></answer>", "NO_ANSWER"),
        ("<answer> \n", "NO_ANSWER"),
        ("<answer><answer_part><sources><source>a</source></sources></answer_part>", "NO_ANSWER"),
    ],
)
def test_a_reply_without_an_answer_is_reported_to_the_model(reply: str, code: str) -> None:
    parsed = parsers.parse(reply)
    assert parsed.code == code
    assert "<answer></answer>" in reprompt(parsed)


def test_no_blocks_at_all_is_an_empty_reply() -> None:
    assert parsers.parse([]).code == "EMPTY"


def told_of(reply: str, seed: int) -> list[str]:
    pieces, _ = streamed(cut(reply, seed), "ORCHESTRATION", "auto")
    return [text for kind, text in pieces if kind == parsers.ANSWER]


@pytest.mark.parametrize("seed", range(5))
def test_the_answer_is_streamed_piece_by_piece(seed: int) -> None:
    reply = "<thinking>t</thinking>\n<answer>\n One two\n\nthree, a < b. \n\n</answer> "
    assert "".join(told_of(reply, seed)) == "One two\n\nthree, a < b."


def test_each_piece_is_streamed_at_once() -> None:
    parser = parsers.new("xml", "ORCHESTRATION")
    assert list(parser.feed("<thinking>I ")) == [("thinking", "I ")]
    assert list(parser.feed("know.")) == [("thinking", "know.")]
    assert list(parser.feed("</thinking>\n<ans")) == []
    assert list(parser.feed("wer>\n")) == []
    assert list(parser.feed(" It")) == [("answer", "It")]
    assert list(parser.feed(" is ")) == [("answer", " is")]
    assert list(parser.feed("4 <")) == [("answer", " 4")]
    assert list(parser.feed(" 5")) == [("answer", " < 5")]
    assert list(parser.feed("</")) == []
    assert list(parser.feed("answer>")) == []
    assert details(parser.finish())["agentFinalResponse"] == {"responseText": "It is 4 < 5"}


def test_text_that_may_yet_be_thinking_is_not_streamed_as_the_answer() -> None:
    assert told_of("Yes, it is so.", 0) == []
    assert told_of("(1) so</thinking>Yes.", 0) == []


CITED = (
    "<thinking>t</thinking><answer>\n<answer_part>\n<text>\nOne & two.\n</text>\n<sources>\n"
    "<source>ab12</source>\n<source> cd34 </source>\n</sources>\n</answer_part>\n"
    "<answer_part><text>Three.</text></answer_part>\n</answer>"
)


def test_an_answer_in_parts_has_citations() -> None:
    assert details(parsers.parse(CITED))["agentFinalResponse"] == {
        "responseText": "One & two. Three.",
        "citations": {
            "generatedResponseParts": [
                {
                    "text": "One & two.",
                    "references": [{"sourceId": "ab12"}, {"sourceId": "cd34"}],
                },
                {"text": "Three.", "references": []},
            ]
        },
    }


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_in_parts_streams_without_its_sources(seed: int) -> None:
    assert "".join(told_of(CITED, seed)) == "One & two. Three."


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("<answer>One.<sources><source>a</source></sources> Two.", [("One. Two.", ["a"])]),
        (
            "<answer>Hi. <answer_part><text>One.</text><sources><source>a",
            [("Hi.", []), ("One.", ["a"])],
        ),
        ("<answer><answer_part>One.<sources><source>a</sources></answer_part>", [("One.", ["a"])]),
        ("<answer_part><text>One.</text></answer_part>", [("One.", [])]),
        ("<answer><answer_part><text>One.<answer_part><text>Two.", [("One.", []), ("Two.", [])]),
    ],
)
def test_parts_with_missing_tags(reply: str, parts: list[tuple[str, list[str]]]) -> None:
    found = details(parsers.parse(reply))["agentFinalResponse"]
    assert [
        (part["text"], [one["sourceId"] for one in part["references"]])
        for part in found["citations"]["generatedResponseParts"]
    ] == parts
    assert found["responseText"] == " ".join(text for text, _ in parts)
