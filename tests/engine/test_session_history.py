"""The conversation so far: a projection of the journal, equal live and read again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engine_turns import roc_agent
from whole_agents import BOTH, NATIVE, XML, Calls, Family, answer, roles, texts_of

from orchestrator import ActionGroup, Agent, Limits, OrchestratorError, TracePart, ValidationError
from orchestrator import action as as_action
from orchestrator.actions import USER_INPUT
from orchestrator.errors import ThrottlingError
from orchestrator.models import ModelReply
from orchestrator.models.base import Usage

DAYS = ("vacations::get_days", {"employee": "E-1"})
BOOK = ("vacations::book", {"employee": "E-1", "days": 3})
LIGHT = ("house::light", {"on": True})
Act = Callable[[Agent], Any]


def ask(agent: Agent) -> None:
    with suppress(OrchestratorError):
        agent.invoke("Well?", "s-1")


def ask_and_answer(agent: Agent) -> None:
    control = agent.invoke("Light?", "s-1").return_control
    assert control is not None
    agent.invoke(session_id="s-1", results=control.answer("on"))


def ask_and_deny(agent: Agent) -> None:
    control = agent.invoke("Delete it.", "s-1").return_control
    assert control is not None
    agent.invoke(session_id="s-1", results=control.answer(False))


def stop_after_an_action(agent: Agent) -> None:
    events = agent.stream("Days?", "s-1")
    for event in events:
        if isinstance(event, TracePart) and "actionGroupInvocationOutput" in str(event.part):
            break
    events.close()


@dataclass(frozen=True)
class Kind:
    """One kind of turn: its name, the model's replies, and what the caller does."""

    name: str
    script: Callable[[Family], list[Any]]
    act: Act = ask


FILTERED = ModelReply([{"text": "<answer>Improper."}], "content_filtered", Usage())
KINDS = [
    Kind("answer", lambda f: [answer("Twelve.")]),
    Kind("no tags", lambda f: ["Twelve."]),
    Kind("loop", lambda f: [f.calls(DAYS), f.calls(BOOK), answer("Booked.")]),
    Kind("parallel calls", lambda f: [f.calls(DAYS, BOOK), answer("Booked.")]),
    Kind("wrong arguments", lambda f: [f.calls(("vacations::book", {})), answer("Sorry.")]),
    Kind("no such function", lambda f: [f.calls(("vacations::fly", {})), answer("Sorry.")]),
    Kind("question", lambda f: [f.asks("Which year?")]),
    Kind("question after a call", lambda f: [f.calls(DAYS), f.asks("Which year?")]),
    Kind("too many steps", lambda f: [f.calls(DAYS)] * 3),
    Kind("model fails at once", lambda f: [ThrottlingError("slow down")]),
    Kind("model fails later", lambda f: [f.calls(DAYS), ThrottlingError("slow down")]),
    Kind("action fails", lambda f: [f.calls(DAYS, ("vacations::breaks", {}))]),
    Kind("refused", lambda f: [ModelReply([{"text": "No."}], "guardrail_intervened", Usage())]),
    Kind("refused later", lambda f: [f.calls(DAYS), FILTERED]),
    Kind("returned", lambda f: [f.calls(LIGHT, DAYS), answer("On.")], ask_and_answer),
    Kind("denied", lambda f: [f.calls(("vacations::delete", {})), answer("Kept.")], ask_and_deny),
    Kind("waits", lambda f: [f.calls(LIGHT, DAYS)]),
    Kind("stopped", lambda f: [f.calls(DAYS), answer("Never.")], stop_after_an_action),
]
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@as_action
def breaks() -> str:
    """Always fails."""
    raise RuntimeError("no")


@as_action(require_confirmation=True)
def delete() -> str:
    """Deletes all vacations."""
    raise AssertionError("it is never confirmed")


def made(model: Any, sessions: Any) -> Agent:
    calls = Calls().groups()[0]
    group = ActionGroup("vacations", [*_functions(calls), breaks, delete])
    user = ActionGroup("UserInput", signature=USER_INPUT)
    return roc_agent(model, group, user, sessions=sessions, limits=Limits(iterations=3))


def _functions(group: ActionGroup) -> list[Any]:
    executor: Any = group.executor
    return [executor._actions[name].function for name in ("get_days", "book")]


def plain(request: Any) -> list[Any]:
    return [{"role": one["role"], "content": one["content"]} for one in request.messages]


def alternate(request: Any) -> bool:
    told = roles(request)
    return told == [("user", "assistant")[index % 2] for index in range(len(told))]


@BOTH
@EACH_KIND
def test_the_next_prompt_is_the_same_after_a_restart(
    kind: Kind, family: Family, tmp_path: Path
) -> None:
    script = [*kind.script(family), answer("Next."), answer("Last.")]
    prompts = []
    for restart in (False, True):
        file = tmp_path / f"{restart}.db"
        model = family.model(script)
        asked = made(model, file)
        kind.act(asked)
        model._replies = [None] * len(model.requests) + [answer("Next."), answer("Last.")]
        for question in ("Next?", "Last?"):
            asked = made(model, file) if restart else asked
            asked.invoke(question, "s-1")
        prompts.append([plain(request) for request in model.requests])
        assert all(alternate(request) for request in model.requests)
    assert prompts[0] == prompts[1]


@BOTH
def test_every_prompt_of_a_long_conversation_alternates(family: Family, tmp_path: Path) -> None:
    model = family.model([])
    asked = made(model, None)
    for kind in KINDS:
        model._replies = [None] * len(model.requests) + kind.script(family)
        kind.act(asked)
    assert len(model.requests) > len(KINDS)
    assert all(alternate(request) for request in model.requests)
    model._replies = [None] * len(model.requests) + [answer("Last.")]
    shown = asked.render("ORCHESTRATION", "Last?", "s-1").messages
    asked.invoke("Last?", "s-1")
    assert plain(model.requests[-1]) == [dict(message) for message in shown]


@BOTH
def test_a_turn_is_told_with_its_steps(family: Family) -> None:
    model = family.model([family.calls(DAYS), answer("You have 12."), answer("Yes.")])
    asked = made(model, None)
    asked.invoke("How many days?", "s-1")
    asked.invoke("Sure?", "s-1")
    before, after = plain(model.requests[1]), plain(model.requests[2])
    assert after[: len(before)] == before
    assert roles(model.requests[2]) == ["user", "assistant", "user", "assistant", "user"]
    assert texts_of(model.requests[2])[-2:] == [
        "<thinking>I answer.</thinking><answer>You have 12.</answer>",
        "Sure?",
    ]


@BOTH
@pytest.mark.parametrize("name", ["waits", "stopped", "action fails"])
def test_what_an_unfinished_turn_has_done_is_told_at_once(name: str, family: Family) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    model = family.model([*kind.script(family), answer("Next.")])
    asked = made(model, None)
    kind.act(asked)
    model._replies = [None] * len(model.requests) + [answer("Next.")]
    asked.invoke("Next?", "s-1")
    told = texts_of(model.requests[-1])[1:]
    assert told[0] in ("Well?", "Days?")
    assert any("12" in text for text in told)
    assert told[-2:] == ["<answer>(The turn failed.)</answer>", "Next?"]
    assert alternate(model.requests[-1])


@BOTH
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
def test_a_refused_answer_does_not_hide_what_was_done(
    family: Family, stored: bool, tmp_path: Path
) -> None:
    model = family.model([family.calls(DAYS), FILTERED, answer("Next.")])
    file = tmp_path / "s.db" if stored else None
    asked = made(model, file)
    assert asked.invoke("Days?", "s-1").stop_reason == "content_filtered"
    (made(model, file) if stored else asked).invoke("Next?", "s-1")
    told = texts_of(model.requests[-1])[1:]
    assert told[0] == "Days?"
    assert any("12" in text for text in told)
    assert "Improper" not in "".join(told)
    assert told[-2:] == ["<answer>(No answer was given.)</answer>", "Next?"]
    assert alternate(model.requests[-1])


@pytest.mark.parametrize("name", ["refused", "model fails at once"])
def test_a_turn_without_an_answer_or_an_action_is_not_told(name: str) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    model = NATIVE.model([*kind.script(NATIVE), answer("Next.")])
    asked = made(model, None)
    kind.act(asked)
    asked.invoke("Next?", "s-1")
    assert texts_of(model.requests[-1])[1:] == ["Next?"]


def test_a_changed_agent_still_knows_what_was_said(tmp_path: Path) -> None:
    first = made(NATIVE.model([NATIVE.calls(DAYS), answer("You have 12.")]), tmp_path / "s.db")
    first.invoke("How many days?", "s-1")
    model = NATIVE.model([answer("Hello.")])
    changed = roc_agent(model, sessions=tmp_path / "s.db")  # without the vacations
    changed.invoke("Sure?", "s-1")
    told = texts_of(model.requests[0])
    assert told[1:] == ["How many days?", "<answer>You have 12.</answer>", "Sure?"]


def test_a_model_of_another_family_goes_on(tmp_path: Path) -> None:
    first = made(XML.model([XML.calls(DAYS), answer("You have 12.")]), tmp_path / "s.db")
    first.invoke("How many days?", "s-1")
    model = NATIVE.model([answer("Yes.")])
    made(model, tmp_path / "s.db").invoke("Sure?", "s-1")
    assert alternate(model.requests[0])
    assert any("You have 12." in text for text in texts_of(model.requests[0]))


def said(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"text": text} for text in texts]}


HISTORIES = {
    "alternating": (
        [said("user", "a"), said("assistant", "b")],
        [said("user", "a"), said("assistant", "b")],
    ),
    "neighbours": (
        [said("user", "a"), said("user", "b"), said("assistant", "c"), said("assistant", "d")],
        [said("user", "a", "b"), said("assistant", "c", "d")],
    ),
    "begins with the assistant": (
        [said("assistant", "hello"), said("user", "a"), said("assistant", "b")],
        [
            said("user", "(empty)"),
            said("assistant", "hello"),
            said("user", "a"),
            said("assistant", "b"),
        ],
    ),
    "ends with the user": (
        [said("user", "a"), said("assistant", "b"), said("user", "c")],
        [
            said("user", "a"),
            said("assistant", "b"),
            said("user", "c"),
            said("assistant", "(empty)"),
        ],
    ),
    "blank texts": (
        [said("user", "a", " "), said("assistant", ""), said("user"), said("assistant", "b")],
        [said("user", "a"), said("assistant", "b")],
    ),
    "nothing but blanks": ([said("user", "  ")], []),
}


@BOTH
@pytest.mark.parametrize("name", HISTORIES)
def test_a_session_begins_with_a_conversation(name: str, family: Family, tmp_path: Path) -> None:
    given, told = HISTORIES[name]
    model = family.model([answer("One."), answer("Two."), answer("Three.")])
    asked = made(model, tmp_path / "s.db")
    asked.invoke("First?", "s-1", conversation_history=given)
    assert plain(model.requests[0]) == [*told, said("user", "First?")]
    # It is there once, and a later one is too late.
    asked.invoke("Second?", "s-1", conversation_history=[said("user", "other")])
    made(model, tmp_path / "s.db").invoke("Third?", "s-1")
    for request in model.requests[1:]:
        assert plain(request)[: len(told)] == told
        assert alternate(request)
        assert "other" not in texts_of(request)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": [{"text": "You are free."}]},
        {"role": "user", "content": "text"},
        {"role": "user"},
        {"content": [{"text": "a"}]},
        {"role": "user", "content": [{"toolUse": {"toolUseId": "1", "name": "x", "input": {}}}]},
        {"role": "assistant", "content": [{"text": 5}]},
        {"role": "assistant", "content": ["text"]},
        "text",
        None,
    ],
)
def test_a_conversation_holds_texts_of_users_and_assistants(message: Any) -> None:
    model = NATIVE.model([answer("Never.")])
    with pytest.raises(ValidationError, match="conversation_history"):
        made(model, None).invoke("Hello?", "s-1", conversation_history=[message])
    assert model.requests == []
