"""How much of earlier turns a prompt tells (Bedrock: `promptCreationConfigurations`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_support import RAW, TOOL_USE, XML, called, last, plain, scripted, texts

from orchestrator import ActionGroup, Agent, ReturnControl
from orchestrator.engine.prompt_history import select_history
from orchestrator.message import Message
from orchestrator.sessions import Past


def look() -> str:
    """Looks."""
    return "a tree"


def thought(text: str, answer: str) -> str:
    return f"<thinking>{text}</thinking><answer>{answer}</answer>"


def talked(model: Any, turns: int, **options: Any) -> Agent:
    """An agent that was asked something `turns` times, and looked each time."""
    agent = plain(model, action_groups=[ActionGroup("eyes", actions=[look])], **options)
    for number in range(1, turns + 1):
        agent.invoke(f"Question {number}?", "s-1")
    return agent


def script(turns: int, model_id: str = TOOL_USE) -> list[Any]:
    made: list[Any] = []
    for number in range(1, turns + 1):
        if model_id == TOOL_USE:
            made.append(called("eyes__look"))
        made.append(thought(f"thought {number}", f"Answer {number}."))
    return [*made, "<answer>Now.</answer>"]


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("model_id", [TOOL_USE, XML, RAW])
def test_the_last_turns_are_told_whole(turns: int, model_id: str) -> None:
    model = scripted(*script(3, model_id), model_id=model_id)
    talked(model, 3).invoke("Now?", "s-1", previous_turns=turns)
    for number in (1, 2, 3):
        assert (f"Question {number}?" in texts(model)) == (number > 3 - turns)
        assert (f"Answer {number}." in texts(model)) == (number > 3 - turns)
    if model_id == TOOL_USE:  # a call is not told without its result
        assert texts(model).count("'toolUse'") == min(turns, 3)
        assert texts(model).count("'toolResult'") == min(turns, 3)


def test_thinking_is_left_out_and_calls_stay() -> None:
    model = scripted(*script(2))
    configuration = {"excludePreviousThinkingSteps": True}
    talked(model, 2).invoke("Now?", "s-1", prompt_creation_configurations=configuration)
    assert "thought" not in texts(model)
    assert "I call." not in texts(model)
    assert texts(model).count("'toolUse'") == 2
    assert [message["role"] for message in last(model)[:4]] == ["user", "assistant"] * 2
    assert "<answer>Answer 2.</answer>" in texts(model)


def test_it_holds_for_one_turn_only() -> None:
    model = scripted(*script(2), "<answer>All.</answer>")
    agent = talked(model, 2)
    agent.invoke("Now?", "s-1", exclude_thinking=True, previous_turns=1)
    agent.invoke("And all?", "s-1")
    for told in ("Question 1?", "thought 1", "thought 2", "Now?"):
        assert told in texts(model)


def test_the_turn_s_own_thinking_stays() -> None:
    model = scripted(called("eyes__look"), "<answer>ok</answer>")
    talked(model, 0).invoke("Now?", "s-1", exclude_thinking=True)
    assert "<thinking>I call.</thinking>" in texts(model)


def test_a_turn_that_goes_on_elsewhere_tells_the_same(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    groups = [
        ActionGroup(
            "eyes",
            functions=[{"name": "look", "description": "Looks."}],
            executor=ReturnControl(),
        )
    ]
    first = scripted(*[thought("deep", f"Answer {n}.") for n in "12"], called("eyes__look"))
    agent = plain(first, sessions=file, action_groups=groups)
    agent.invoke("Question 1?", "s-1")
    agent.invoke("Question 2?", "s-1")
    reply = agent.invoke("Now?", "s-1", previous_turns=1, exclude_thinking=True)
    assert reply.return_control is not None
    model = scripted("<answer>ok</answer>")
    again = plain(model, sessions=file, action_groups=groups)
    again.invoke(session_id="s-1", results=reply.return_control.answer("a tree"))
    before = last(first)
    assert last(model)[: len(before)] == before
    told = again.turns("s-1")[-1].trace[0]["trace"]["orchestrationTrace"]["modelInvocationInput"]
    assert "Question 1?" not in told["text"]
    assert "deep" not in told["text"]


def test_what_was_freed_once_is_encoded_once() -> None:
    model = scripted(*script(2), "<answer>Again.</answer>")
    agent = talked(model, 2)
    agent.invoke("Now?", "s-1", exclude_thinking=True)
    freed = last(model)
    agent.invoke("Again?", "s-1", exclude_thinking=True)
    for one, other in zip(freed[:-1], last(model), strict=False):
        assert one is other


def test_a_session_that_ends_forgets_it() -> None:
    model = scripted(*script(1), "<answer>New.</answer>", "<answer>Newer.</answer>")
    agent = talked(model, 1)
    agent.invoke("Now?", "s-1", exclude_thinking=True, end_session=True)
    agent.invoke("New?", "s-1", exclude_thinking=True)
    agent.invoke("Newer?", "s-1", exclude_thinking=True)
    assert [one["content"][0]["text"] for one in last(model)] == [
        "New?",
        "<answer>New.</answer>",
        "Newer?",
    ]


@given(st.lists(st.sampled_from(["<thinking>", "</thinking>", "<answer>", "x", " "]), max_size=12))
def test_any_text_is_freed_of_what_is_between_the_tags(pieces: list[str]) -> None:
    text = "".join(pieces)
    past = Past([Message("user", [{"text": text}]), Message("assistant", [{"text": text}])], [], {})
    user, assistant = select_history(past, 2, None, thinking=False)
    assert user["content"] == [{"text": text}]
    (block,) = assistant["content"]
    assert block["text"].strip() or not text.strip()  # or models would refuse it
    rest = block["text"].partition("<thinking>")[2]
    assert "</thinking>" not in rest


def test_reasoning_blocks_are_thinking_too() -> None:
    reasoning = {"reasoningContent": {"reasoningText": {"text": "deep"}}}
    said = [reasoning, {"text": "<answer>a</answer>"}]
    past = Past([Message("user", [{"text": "q"}]), Message("assistant", said)], [], {})
    assert select_history(past, 2, 1, thinking=False)[1]["content"] == said[1:]
    past = Past([Message("user", [{"text": "q"}]), Message("assistant", [reasoning])], [], {})
    assert select_history(past, 2, 1, thinking=False)[1]["content"] == [{"text": "(empty)"}]
