"""Which agent answers, and what is kept of a session."""

from __future__ import annotations

from typing import Any

import pytest
from parser_helpers import cut, streamed

from orchestrator import parsers


def route(reply: str) -> tuple[dict[str, Any], str]:
    parsed = parsers.parse(reply, "ROUTING_CLASSIFIER")
    assert parsed.response["messageVersion"] == "1.0"
    found = parsed.response["routingClassifierParsedResponse"]["responseDetails"]
    return found, parsed.code


@pytest.mark.parametrize(
    "reply",
    [
        "<a>claims-agent</a>",
        "<a>\n claims-agent \n",
        "<A>claims-agent</A>",
        "<a>'claims-agent'</a>",
        "<thinking>perhaps <a>hr</a></thinking><a>claims-agent</a>",
        "perhaps <a>hr</a>, no: <a>claims-agent</a>",
        "why</thinking>\n<a>claims-agent</a>",
        "<thinking>unclosed <a>claims-agent</a>",
    ],
)
def test_an_agent_is_named(reply: str) -> None:
    invocation = {"agentCollaboratorName": "claims-agent"}
    assert route(reply) == ({"type": "AGENT", "agentCollaboratorInvocation": invocation}, "")


@pytest.mark.parametrize(
    ("reply", "kind", "notes"),
    [
        ("<a>undecidable</a>", "UNDECIDED", ()),
        ("<a>keep_previous_agent</a>", "LAST_AGENT", ()),
        (
            "<a>knowledge_base</a>",
            "UNDECIDED",
            ("'knowledge_base' is the supervisor's own: its loop goes on",),
        ),
        ("<a>Tool_Use</a>", "UNDECIDED", ("'tool_use' is the supervisor's own: its loop goes on",)),
    ],
)
def test_words_that_are_no_agent(reply: str, kind: str, notes: tuple[str, ...]) -> None:
    assert route(reply) == ({"type": kind}, "")
    assert parsers.parse(reply, "ROUTING_CLASSIFIER").notes == notes


@pytest.mark.parametrize(
    "reply",
    ["", "claims-agent", "<a></a>", "<a>", "<a href='x'>claims</a>", "<a>one\ntwo</a>",
     "<a>" + "x" * 300 + "</a>", "&lt;a&gt;claims&lt;/a&gt;"],
)  # fmt: skip
def test_without_a_choice_the_supervisor_decides(reply: str) -> None:
    assert route(reply) == ({"type": "UNDECIDED"}, "NO_ROUTE")


def topics(reply: str) -> list[tuple[str, str]]:
    parsed = parsers.parse(reply, "MEMORY_SUMMARIZATION")
    assert parsed.response["messageVersion"] == "1.0"
    found = parsed.response["memorySummarizationParsedResponse"]["topicwiseSummaries"]
    assert bool(parsed.code) == (not found and "<summary>" not in reply)
    return [(one["topic"], one["summary"]) for one in found]


@pytest.mark.parametrize(
    "reply",
    [
        "<summary><topic name='a'>One.</topic><topic name='b'>Two.</topic></summary>",
        '<summary>\n<topic name="a">\nOne.\n</topic>\n<topic name = "b">Two.</topic>\n</summary>',
        "<summary><topic name=a>One.<topic name=b>Two.",
        "<topic name='a'>One.</topic> and <topic name='b'>Two.</topic>",
        "<thinking><topic name='x'>No.</topic></thinking><SUMMARY><Topic name='a'>One.</Topic>"
        "<topic name='b'>Two.</topic></summary> <topic name='c'>Late.</topic>",
        "<thinking>unclosed <summary><topic name='a'>One.</topic><topic name='b'>Two.</topic>",
    ],
)
def test_topics_with_either_quote_or_none(reply: str) -> None:
    assert topics(reply) == [("a", "One."), ("b", "Two.")]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('<summary><topic name="Bob\'s car">It is red.</topic>', [("Bob's car", "It is red.")]),
        ("<summary><topic name='A &amp; B'>x &lt; y</topic>", [("A & B", "x < y")]),
        ("<summary><topic name='a'>AT&T <b>1</b></topic>", [("a", "AT&T <b>1</b>")]),
        ("<summary><topic>One.</topic></summary>", [("", "One.")]),
        ("<summary><topic name='a'> </topic></summary>", []),
        ("<summary>They spoke of cars.</summary>", [("", "They spoke of cars.")]),
        ("<thinking>t</thinking>They spoke.", [("", "They spoke.")]),
        ("<summary></summary>", []),
        ("", []),
        ("<thinking>t</thinking>", []),
    ],
)
def test_other_summaries(reply: str, expected: list[tuple[str, str]]) -> None:
    assert topics(reply) == expected


def test_entities_are_never_expanded() -> None:
    bomb = "<!DOCTYPE a [<!ENTITY b 'ccc'>]>&b;"
    assert topics(f"<summary><topic name='a'>{bomb}</topic></summary>") == [("a", bomb)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stage", ["ROUTING_CLASSIFIER", "MEMORY_SUMMARIZATION", "PRE_PROCESSING"])
def test_nothing_is_reported_before_the_end(stage: str, seed: int) -> None:
    reply = "<thinking>t</thinking><a>x</a><topic name='a'>y</topic><category>D</category>"
    told, parsed = streamed(cut(reply, seed), stage, "auto")
    assert told == []
    assert parsed == parsers.parse(reply, stage)


@pytest.mark.parametrize(
    ("stage", "reply", "kind", "text"),
    [
        ("ROUTING_CLASSIFIER", "<thinking>t</thinking> <a>x</a>", "route", "x"),
        ("PRE_PROCESSING", "<thinking>t</thinking> <category>D</category>", "category", "D"),
        ("MEMORY_SUMMARIZATION", "<thinking>t</thinking> <topic name='a'>x", "topic", "x"),
    ],
)
def test_the_explanation_tells_what_was_looked_for(
    stage: str, reply: str, kind: str, text: str
) -> None:
    pieces = parsers.explain(reply, stage)["pieces"]
    kinds = {piece["kind"]: piece["text"] for piece in pieces if piece["kind"] != "outside"}
    assert kinds == {"thinking": "t", kind: text}


@pytest.mark.parametrize("letter", ["F", "N"])
def test_a_category_of_a_templates_own_is_explained(letter: str) -> None:
    parsed = parsers.parse(f"<category>{letter}</category>", "PRE_PROCESSING")
    assert parsed.response["preProcessingParsedResponse"]["isValidInput"] is False
    assert parsed.notes == (
        f"the category {letter!r} is the template's own: only D and E are valid",
    )


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("name", ["Ana's order", 'the "big" one', "it's 5 o'clock", "''"])
def test_a_topics_name_may_hold_quotes(name: str, quote: str) -> None:
    # Our template shows single quotes, and names have apostrophes.
    reply = f"<summary><topic name={quote}{name}{quote}>It is late.</topic></summary>"
    parsed = parsers.parse(reply, "MEMORY_SUMMARIZATION")
    found = parsed.response["memorySummarizationParsedResponse"]["topicwiseSummaries"]
    assert found == [{"topic": name, "summary": "It is late."}]
