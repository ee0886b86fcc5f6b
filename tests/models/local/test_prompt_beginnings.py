"""Which part of a prompt is kept, and when it is read, loaded or left alone; without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator import ActionGroup, Agent, action
from orchestrator.message import AUTHOR, Message, Span, Text
from orchestrator.models.base import ModelRequest
from orchestrator.models.prompt_beginnings import (
    Beginnings,
    Reading,
    common_beginning,
    static_part,
)
from orchestrator.models.prompt_states import PromptStates
from orchestrator.models.tool_calls import system_text, turns
from orchestrator.prompts.values import OF_A_TURN, OF_AN_AGENT
from orchestrator.testing import ScriptedModel

PROMPT = [1, "system\n" + "You help. " * 200, 2]


class FakeSlot:
    """Writes the prompt itself as its state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holds: Any = None
        self.done: list[str] = []
        self.fails = ""
        self.tokens = 3

    def read(self, prompt: Sequence[Any], reading: Reading | None, then: Callable[[], None]) -> int:
        self.done.append("read")
        self.holds = repr(prompt)
        if reading is not None:
            reading(3, 3)
        then()
        return 3

    def save(self, name: str) -> int:
        self.done.append("save")
        self.fail("save")
        (self.folder / name).write_text(self.holds)
        return self.tokens

    def restore(self, name: str) -> int:
        self.done.append("restore")
        self.fail("restore")
        self.holds = (self.folder / name).read_text()
        return 3

    def fail(self, action: str) -> None:
        if action == self.fails:
            raise OSError(f"the runtime did not {action} it")


@pytest.fixture
def states(tmp_path: Path) -> PromptStates:
    made = PromptStates(tmp_path / "prompts")
    assert made.open()
    return made


def process(states: PromptStates, *identity: Any) -> tuple[Beginnings, FakeSlot]:
    """A process with the model loaded."""
    slot = FakeSlot(states.folder)
    return Beginnings(slot, states, identity or ("weights", "1.0", 8192)), slot


def test_it_is_read_once_and_loaded_by_every_later_process(states: PromptStates) -> None:
    seen: list[tuple[int, int]] = []
    first, slot = process(states)
    assert first.prepare(PROMPT, lambda *it: seen.append(it)) == 3
    assert first.prepare(PROMPT) == 0  # the runtime has it in memory
    assert slot.done == ["read", "save"] and seen == [(3, 3)]
    later, slot = process(states)
    assert later.prepare(PROMPT) == 0 == later.prepare(PROMPT)
    assert slot.done == ["restore"] and slot.holds == repr(PROMPT)


def test_another_prompt_model_or_runtime_has_a_state_of_its_own(states: PromptStates) -> None:
    process(states)[0].prepare(PROMPT)
    for prompt, identity in (
        ([*PROMPT, "x"], ()),
        (PROMPT, ("other weights", "1.0", 8192)),
        (PROMPT, ("weights", "1.1", 8192)),
        (PROMPT, ("weights", "1.0", 4096)),
    ):
        beginnings, slot = process(states, *identity)
        beginnings.prepare(prompt)
        assert slot.done == ["read", "save"]
    assert len(states.entries()) == 5


def test_pieces_are_told_from_their_text(states: PromptStates) -> None:
    # The runtime makes other tokens of a text that is cut elsewhere.
    text = "You help. " * 200
    process(states)[0].prepare([1, text + "a", "b"])
    beginnings, slot = process(states)
    beginnings.prepare([1, text, "ab"])
    assert slot.done == ["read", "save"]


def test_a_short_one_is_not_worth_a_file(states: PromptStates) -> None:
    beginnings, slot = process(states)
    assert beginnings.prepare([1, "system\nYou help.", 2]) == 0 == beginnings.prepare([])
    assert slot.done == [] == states.entries()


def test_what_cannot_be_loaded_is_read_as_usual(states: PromptStates) -> None:
    process(states)[0].prepare(PROMPT)
    beginnings, slot = process(states)
    slot.fails = "restore"
    assert beginnings.prepare(PROMPT) == 3
    assert slot.done == ["restore", "read", "save"]


def test_a_damaged_file_is_never_given_to_the_runtime(states: PromptStates) -> None:
    process(states)[0].prepare(PROMPT)
    (state,) = states.entries()
    state.file.write_bytes(state.file.read_bytes()[:-9])  # the runtime would end the process
    beginnings, slot = process(states)
    assert beginnings.prepare(PROMPT) == 3
    assert slot.done == ["read", "save"]
    later, slot = process(states)
    assert later.prepare(PROMPT) == 0 and slot.done == ["restore"]


def test_a_state_with_another_number_of_tokens_is_not_trusted(states: PromptStates) -> None:
    wrong, slot = process(states)
    slot.tokens = 4
    wrong.prepare(PROMPT)
    beginnings, slot = process(states)
    assert beginnings.prepare(PROMPT) == 3
    assert slot.done == ["restore", "read", "save"]
    assert [state.tokens for state in states.entries()] == [3]


def test_what_cannot_be_saved_is_no_failure(states: PromptStates) -> None:
    beginnings, slot = process(states)
    slot.fails = "save"
    assert beginnings.prepare(PROMPT) == 3
    assert [*states.folder.iterdir()] == []


# What is fixed


SECRET = "canary-3f9a"


@action
def get_order(order_id: str) -> dict[str, str]:
    """An order.

    Args:
        order_id: Number of the order, for example 1042.
    """
    return {"order_id": order_id, "status": f"ready {SECRET}"}


CALL = [{"toolUse": {"toolUseId": "t-1", "name": "shop__get_order", "input": {"order_id": "7"}}}]


def agent(*replies: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies, "local:test")
    groups = [ActionGroup("shop", actions=[get_order])]
    return Agent("a", "You help with orders.", model, action_groups=groups), model


def kept(request: ModelRequest) -> list[Any]:
    """The pieces of a prompt that would be kept."""
    fixed = static_part(request)
    if fixed is None:
        return []
    return common_beginning(written(fixed), written(request))


def written(request: ModelRequest) -> list[Any]:
    return [("system", system_text(request.system)), *turns(request.messages)]


def test_instructions_functions_and_examples_are_kept_and_nothing_of_a_turn() -> None:
    made, model = agent(CALL, "<answer>Done.</answer>", "<answer>Well.</answer>")
    made.invoke(f"Where is order 7 of {SECRET}?", "s-1")
    made.invoke("And now?", "s-1")
    one, two, three = (kept(request) for request in model.requests)
    assert one == two == three
    system, *examples = one
    assert "You help with orders." in system[1] and "shop__get_order" in system[1]
    assert len(examples) > 10 and SECRET not in str(one)
    # All that comes next is the turn's.
    assert written(model.requests[0])[len(one)] == ("user", f"Where is order 7 of {SECRET}?")


def test_session_attributes_are_in_no_prompt_that_is_kept() -> None:
    made, model = agent("<answer>Done.</answer>")
    made.invoke("Hi", "s-1", session_attributes={"token": SECRET})
    assert kept(model.requests[0]) and SECRET not in str(kept(model.requests[0]))
    made, model = agent("<answer>Done.</answer>")
    made.invoke("Hi", "s-1", prompt_session_attributes={"name": SECRET})
    assert SECRET in model.requests[0].system
    assert kept(model.requests[0]) == []


def test_nothing_is_kept_of_prompts_whose_author_is_not_known() -> None:
    asked = ModelRequest("ORCHESTRATION", "You help. " * 200, [Message("user", [{"text": "Hi"}])])
    assert static_part(asked) is None
    asked.system = Text("You help. " * 200)
    assert static_part(asked) is None
    asked.system = ""
    assert static_part(asked) is None


@pytest.mark.parametrize(
    ("spans", "fixed"),
    [
        ([(0, 10, AUTHOR)], True),
        ([(0, 4, AUTHOR), (4, 10, "tools")], True),
        ([(0, 4, AUTHOR), (4, 10, "memory_content")], False),
        ([(0, 4, AUTHOR), (4, 10, "value")], False),
        ([(0, 4, AUTHOR), (5, 10, AUTHOR)], False),  # nobody wrote the fifth character
        ([(0, 9, AUTHOR)], False),
        ([(1, 10, AUTHOR)], False),
    ],
)
def test_every_character_has_to_be_the_definitions(
    spans: list[tuple[int, int, str]], fixed: bool
) -> None:
    text = Text.of("0123456789", tuple(Span(0, *span) for span in spans))
    message = Message("user", [{"text": "Hi"}], "question")
    asked = ModelRequest("ORCHESTRATION", text, [message])
    assert (static_part(asked) is not None) is fixed


def test_an_example_after_a_users_message_is_not_kept() -> None:
    text = Text.of("You help.", (Span(0, 0, 9, AUTHOR),))
    example = Message("user", [{"text": "An example"}], AUTHOR)
    answer = Message("assistant", [{"text": "Its answer"}], AUTHOR)
    question = Message("user", [{"text": SECRET}], "question")
    asked = ModelRequest("ORCHESTRATION", text, [example, answer, question, answer])
    fixed = static_part(asked)
    assert fixed is not None and fixed.messages == [example, answer]
    # A message that is joined to the user's is the user's.
    asked.messages = [example, question]
    assert kept(asked) == [("system", "You help.")]


def test_no_value_of_a_turn_counts_as_the_agents() -> None:
    assert not OF_A_TURN & OF_AN_AGENT
    assert {"instruction", "tools"} <= OF_AN_AGENT
    assert not {"user_input", "content", "attributes", "long_term_memory"} & OF_AN_AGENT
