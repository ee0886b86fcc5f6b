"""What holds for any reply: no exception, no matter how the text is cut, and no invented call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from parser_helpers import cut, member, streamed

from orchestrator import parsers

TAGS = [
    "<thinking>", "</thinking>", "<think>", "</scratchpad>", "<answer>", "</answer>",
    "<ANSWER x='1'>",
    "<answer_part>", "</answer_part>", "<text>", "</text>", "<sources>", "<source>", "</source>",
    "</sources>", "<function_calls>", "</function_calls>", "<invoke>", '<invoke name="g::f">',
    "</invoke>", "<tool_name>", "</tool_name>", "g::f", "GET__g__f", "user::askuser",
    "GET::x_amz_knowledgebase_K::Search", "<parameters>", "</parameters>", "<a>", "</a>",
    "<question>", "</question>", "<searchQuery>", "</searchQuery>", "<![CDATA[", "]]>", "]", "]]",
    "<!DOCTYPE a [<!ENTITY b 'c'>]>", "&b;", "&amp;", "<__function=g__f>", "</__function>",
    "<__parameter=a>", "</__parameter>", "<function_results>", "<final_response>",
    "</final_response>", "<category>", "</category>", "D", "A", "<", ">", "</", "<an", " ", "\n",
    "  \n ", "Paris", "{", '{"a": 1}', "\x00", "\ud800", "\u017f", "\u212a", "<thin\u212aing>",
    "<function_call>", "</function_call>", "<fnCall>", "</fnCall>", "g::f(", "g::f(a=", ", b=", "(",
    ")", '"', '="', "'", "='", "=", ":", ",", "\\", '\\"', "\\\\", "<function_result>",
    "AgentCommunication::sendMessage", "<recipient>", "</recipient>", "<content>", "</content>",
    "User", "outOfDomain", "<a>x</a>", "keep_previous_agent", "<summary>", "</summary>",
    "<topic name='a'>", '<topic name="b', "</topic>",
]  # fmt: skip
CALL = (
    "<function_calls>", "<invoke>", "<tool_name>", "g::f", "</tool_name>", "<parameters>", "<a>",
    "1 &amp; 2", "</a>", "<b>", "<![CDATA[", "</invoke>", "]]>", "</b>", "</parameters>",
    "</invoke>", "</function_calls>",
)  # fmt: skip
CITED = (
    "<answer>", "<answer_part>", "<text>", "One. ", "</text>", "<sources>", "<source>", "k1",
    "</source>", "</sources>", "</answer_part>", "<answer_part>", "<text>", "Two.", "</text>",
    "</answer_part>", "</answer>",
)  # fmt: skip
THOUGHT = ("<thinking>", "\nwhy ", "</thinking>", "\n\n")
FUNCTION = (
    "<function_call>", "get::g::/p(", "a=", '"', 'x, y=1 \\" z', '"', ", ", "b = 'it'",
    ", c=[1, 2]", ")", "</function_call>",
)  # fmt: skip
FNCALL = (
    "<fnCall>", '{"name": ', '"g::f"', ', "parameters": ', '{"a": "</fnCall>"}', "}", "</fnCall>",
)  # fmt: skip
MESSAGE = (
    "<function_calls>", "<invoke>", "<tool_name>", "AgentCommunication::sendMessage",
    "</tool_name>", "<parameters>", "<recipient>", "User", "</recipient>", "<content>", "Hi.",
    "</content>", "</parameters>", "</invoke>",
)  # fmt: skip
NOVA = ("<__function=g__f>", "<__parameter=a>", "1", "</__parameter>", "</__function>")
GOOD = [
    THOUGHT + CALL,
    (*CALL, "<function_results>", *CALL),
    THOUGHT + CITED,
    (*THOUGHT, "<answer>", " Yes, ", "so.\n", "</answer>", *CALL),
    CALL + THOUGHT + CITED,
    THOUGHT + NOVA + CITED,
    ("why", "</thinking>", "<final_response>", " Yes. ", "</final_response>"),
    (*THOUGHT, "<category>", "D", "</category>"),
    ("<thinking>", "why ", *CALL, *CITED),
    THOUGHT + FUNCTION,
    ("<scratchpad>", "why ", *FUNCTION, *FUNCTION, "<function_result>", "7"),
    THOUGHT + FNCALL + FUNCTION,
    ("<fnCall>", *CALL[1:], "</fnCall>", *CITED),
    ("<answer>", "I will. ", *FUNCTION),
    THOUGHT + MESSAGE,
    (*CITED, *MESSAGE),
    (*THOUGHT, "<a>", "claims", "</a>"),
    (*THOUGHT, "<summary>", "<topic name='x'>", "One.", "</topic>", '<topic name="y">', "Two."),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A good reply with pieces taken out, put in and moved."""
    pieces = list(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(pieces) - 1, 0)))
        if draw(st.booleans()):
            del pieces[at : at + 1]
        else:
            pieces.insert(at, draw(st.sampled_from(TAGS) | st.text(max_size=4)))
    return "".join(pieces)[: draw(st.none() | st.integers(0, 200))]


TEXTS = mutated() | st.lists(st.sampled_from(TAGS) | st.text(max_size=8), max_size=14).map("".join)
NAMES = st.sampled_from(parsers.NAMES)
STAGES = st.sampled_from(parsers.STAGES)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMED = st.sampled_from(
    ["g__f", "GET__g__f", "user__askuser", "GET__x_amz_knowledgebase_K__Search"]
)
USES = st.fixed_dictionaries({}, optional={"toolUseId": JSON, "name": NAMED | JSON, "input": JSON})
BLOCKS = st.lists(
    st.fixed_dictionaries({"text": TEXTS}) | st.fixed_dictionaries({"toolUse": USES | JSON}) | JSON,
    max_size=4,
)


def valid(response: Any, stage: str) -> None:
    # JSON has no lone surrogates, but everything else must be JSON.
    json.dumps(response)
    assert response["promptType"] == stage


@given(blocks=BLOCKS, stage=STAGES, name=NAMES)
def test_no_reply_makes_a_parser_raise(blocks: Any, stage: str, name: str) -> None:
    parsed = parsers.parse(blocks, stage, name)
    valid(parsed.response, stage)
    assert parsers.new(name, stage).blocking is False
    if stage == "ORCHESTRATION":
        assert bool(parsed.code) == ("parsingErrorDetails" in member(parsed))
        assert bool(parsed.code) != ("responseDetails" in member(parsed))


@given(text=TEXTS, stage=STAGES, name=NAMES, seed=st.integers(0, 9))
@example("<answer>a <function_calls>  <invoke>", "ORCHESTRATION", "xml", 1)
@example("<answer>x<sources><source>a</source></sources> y", "ORCHESTRATION", "xml", 2)
def test_however_the_text_is_cut_the_result_is_the_same(
    text: str, stage: str, name: str, seed: int
) -> None:
    whole = parsers.parse(text, stage, name)
    told_in_pieces, parsed = streamed(cut(text, seed), stage, name)
    assert parsed == whole
    told_at_once, parsed = streamed([text] if text else [], stage, name)
    assert parsed == whole
    for kind in (parsers.THINKING, parsers.ANSWER, parsers.CALL):
        in_pieces = "".join(piece for one, piece in told_in_pieces if one == kind)
        at_once = "".join(piece for one, piece in told_at_once if one == kind)
        assert in_pieces == at_once


@pytest.mark.parametrize("size", [1, 2, 3])
@given(text=TEXTS, stage=STAGES, name=NAMES)
@example('<fnCall><invoke name="g::f">', "ORCHESTRATION", "xml")
@example('<fnCall><invoke name="g::f', "ORCHESTRATION", "auto")
def test_pieces_of_one_size_give_the_same_result(
    size: int, text: str, stage: str, name: str
) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert streamed(pieces, stage, name)[1] == parsers.parse(text, stage, name)


@given(before=TEXTS, text=TEXTS, name=NAMES, seed=st.integers(0, 9))
def test_what_was_streamed_of_the_answer_is_the_final_response(
    before: str, text: str, name: str, seed: int
) -> None:
    told, parsed = streamed(cut(before + text, seed), "ORCHESTRATION", name)
    answer = "".join(piece for kind, piece in told if kind == parsers.ANSWER)
    final = member(parsed).get("responseDetails", {}).get("agentFinalResponse")
    if final is not None:
        if "sendmessage" in (before + text).lower() or "outofdomain" in (before + text).lower():
            assert final["responseText"].startswith(answer)
            return
        assert answer in ("", final["responseText"])
        if citations := final.get("citations"):
            texts = [part["text"] for part in citations["generatedResponseParts"]]
            assert " ".join(texts) == final["responseText"]


@given(text=st.text(alphabet=st.characters(exclude_characters="<"), max_size=60))
def test_an_answer_tag_streams_everything_after_it(text: str) -> None:
    told, parsed = streamed(cut(f"<thinking>t</thinking><answer>{text}", 3), "ORCHESTRATION", "xml")
    answer = "".join(piece for kind, piece in told if kind == parsers.ANSWER)
    assert answer == text.strip()
    if answer:
        details = member(parsed)["responseDetails"]
        assert details["agentFinalResponse"] == {"responseText": answer}


@given(text=TEXTS, name=NAMES)
def test_text_without_call_markup_yields_no_call(text: str, name: str) -> None:
    lowered = text.lower()
    if any(f"<{tag}" in lowered for tag in ("function_call", "invoke", "__function", "fncall")):
        return
    parsed = parsers.parse(text, "ORCHESTRATION", name)
    if not parsed.code:
        assert member(parsed)["responseDetails"]["invocationType"] == "FINISH"
    else:
        assert parsed.code in ("EMPTY", "NO_ANSWER")


@given(value=st.text(max_size=40))
def test_an_encoded_value_reaches_the_action_as_it_was(value: str) -> None:
    encoded = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    reply = (
        "<function_calls><invoke><tool_name>g::f</tool_name><parameters>"
        f"<a>{encoded}</a></parameters></invoke></function_calls>"
    )
    (action,) = member(parsers.parse(reply))["responseDetails"]["actionGroupInvocations"]
    found = action["actionGroupInput"]["a"]["value"]
    # XML knows one kind of line end.
    assert found.replace("\r\n", "\n").replace("\r", "\n") == value.strip().replace(
        "\r\n", "\n"
    ).replace("\r", "\n")


@given(text=TEXTS, stage=STAGES, name=NAMES)
def test_the_explanation_covers_every_character(text: str, stage: str, name: str) -> None:
    told = parsers.explain(text, stage, name)
    json.dumps(told)
    assert "".join(piece["text"] for piece in told["pieces"]) == text
    assert told["response"] == parsers.parse(text, stage, name).response


@given(value=st.text(max_size=40), quote=st.sampled_from("\"'"), seed=st.integers(0, 9))
def test_an_escaped_value_of_a_function_call_is_one_value(
    value: str, quote: str, seed: int
) -> None:
    # However hostile it is, it calls nothing else and ends nowhere else.
    escaped = value.replace("\\", "\\\\").replace(quote, "\\" + quote)
    reply = f"<function_call>g::f(a={quote}{escaped}{quote})</function_call>"
    for name in ("function_call", "auto"):
        _, parsed = streamed(cut(reply, seed), "ORCHESTRATION", name)
        (action,) = member(parsed)["responseDetails"]["actionGroupInvocations"]
        assert (action["functionName"], list(action["actionGroupInput"])) == ("f", ["a"])
        found = action["actionGroupInput"]["a"]["value"]
        if "\\" not in value and quote not in value:
            assert found == value
