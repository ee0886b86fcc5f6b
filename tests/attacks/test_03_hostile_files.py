"""Attacks 1 to 3 by files: whatever is in a file, or is its name, stays text in its own place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from payloads import TAGS, any_text
from whole_agents import ALL_FAMILIES, EACH, Calls, Family, agent, answer

from orchestrator import OrchestratorError, ValidationError
from orchestrator.errors import ResourceNotFound

MARKS = ("\n\nHuman:", "\n\nAssistant:", "\nUser:", "\nBot:")


def asked(family: Family, content: str, name: str = "notes.txt") -> tuple[Calls, Any]:
    """What an agent was prompted with, and called, that was given a file."""
    calls = Calls()
    model = family.model([answer("Read.")])
    file = {"name": name, "bytes": content.encode("utf-8", "surrogatepass")}
    reply = agent(model, calls.groups()).invoke("What is this?", files=[file])
    assert reply.text == "Read."
    return calls, model.requests[0]


def structure(request: Any) -> Any:
    """Everything of a prompt but the blocks of files."""
    told = ("The file '", 'The file "')  # as Python writes a name that has an apostrophe
    return request.system, [
        (one["role"], [it for it in one["content"] if not it["text"].startswith(told)])
        for one in request.messages
    ]


@EACH
def test_forty_payloads_change_nothing_but_their_own_block(family: Family) -> None:
    plain = structure(asked(family, "x")[1])
    for payload in TAGS:
        calls, request = asked(family, payload)
        assert calls.made == []
        assert structure(request) == plain
        told = [block["text"] for one in request.messages for block in one["content"]]
        assert sum(payload in text for text in told) == 1


@pytest.mark.parametrize("model_id", ["anthropic.claude-v2", "amazon.titan-text-premier-v1:0"])
def test_in_a_raw_text_they_open_neither_tags_nor_turns(model_id: str) -> None:
    family = Family("raw", model_id, native=False)
    plain = asked(family, "x")[1].messages[0]["content"][0]["text"]
    for payload in (*TAGS, *MARKS, "$instruction$", "$agent_scratchpad$"):
        text = asked(family, payload)[1].messages[0]["content"][0]["text"]
        assert text.count("<") == plain.count("<")
        for mark in MARKS[:2] if "claude" in model_id else MARKS[2:]:
            assert text.count(mark) == plain.count(mark)
        if payload.startswith("$"):
            assert text.count(payload) == 1


@given(st.sampled_from(ALL_FAMILIES), any_text, any_text)
@example(ALL_FAMILIES[0], TAGS[0], "'")
def test_any_content_and_any_name_is_held_or_refused(
    family: Family, content: str, name: str
) -> None:
    try:
        calls, request = asked(family, content, f"{name}.txt")
    except OrchestratorError as error:
        assert isinstance(error, ValidationError)
        return
    assert calls.made == []
    assert structure(request) == structure(asked(family, "x")[1])


@pytest.mark.parametrize("name", ["../x.txt", "/etc/passwd", "a/b.txt", "..", "a\\b", "con\n.txt"])
def test_names_lead_nowhere(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot be used"):
        asked(ALL_FAMILIES[0], "x", name)


@pytest.mark.parametrize(
    "uri",
    ["file:///etc/passwd", "http://169.254.169.254/latest", "s3://../x", "s3://bucket/", "/etc/x"],
)
def test_only_s3_is_a_place_elsewhere(uri: str) -> None:
    source = {"sourceType": "S3", "s3Location": {"uri": uri}}
    file = {"name": "x.txt", "source": source, "useCase": "CHAT"}
    with pytest.raises((ValidationError, ResourceNotFound), match="is no place in S3"):
        agent(ALL_FAMILIES[0].model([])).invoke("What?", files=[file])
