"""Session attributes and prompt session attributes: who sees them, and how long they live."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from engine_turns import roc_agent
from whole_agents import BOTH, NATIVE, Family, agent, answer, texts_of

from orchestrator import ActionGroup, Agent, LambdaHandler, Sessions, ValidationError
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.testing import FakeClock, ScriptedModel

LOOK = ("desk::look", {})
FUNCTIONS = [{"name": "look", "description": "Looks.", "parameters": {}}]


class Desk:
    """An executor that remembers what it was told, and returns what it is given to return."""

    def __init__(self, *results: ActionResult) -> None:
        self.results = list(results)
        self.seen: list[tuple[dict[str, str], dict[str, str]]] = []

    def call(self, call: Call, context: CallContext) -> ActionResult:
        self.seen.append(
            (dict(context.session_attributes), dict(context.prompt_session_attributes))
        )
        return self.results.pop(0) if self.results else ActionResult("seen")

    def groups(self) -> list[ActionGroup]:
        return [ActionGroup("desk", functions=FUNCTIONS, executor=self)]


def looks(family: Family, *per_turn: int) -> ScriptedModel:
    """A model that looks so many times in each turn, and then answers."""
    script: list[Any] = []
    for times in per_turn:
        script += [family.calls(LOOK) for _ in range(times)] + [answer("Done.")]
    return family.model(script)


@BOTH
def test_session_attributes_reach_actions_and_no_prompt(family: Family) -> None:
    desk, model = Desk(), looks(family, 1)
    asked = agent(model, desk.groups())
    reply = asked.invoke(
        "Look.",
        "s-1",
        session_attributes={"token": "canary-session"},
        prompt_session_attributes={"city": "canary-prompt"},
    )
    assert desk.seen == [({"token": "canary-session"}, {"city": "canary-prompt"})]
    shown = "".join("".join(texts_of(request)) for request in model.requests)
    assert "canary-session" not in shown
    assert "canary-session" not in str(reply.trace)
    assert all("canary-prompt" in "".join(texts_of(request)) for request in model.requests)


def test_session_attributes_live_as_long_as_the_session_and_the_others_one_turn() -> None:
    desk, model = Desk(), looks(NATIVE, 1, 1, 1)
    asked = agent(model, desk.groups())
    asked.invoke("Look.", "s-1", session_attributes={"a": "1", "b": "1"})
    asked.invoke(
        "Look.", "s-1", session_attributes={"b": "2"}, prompt_session_attributes={"city": "Rome"}
    )
    asked.invoke("Look.", "s-1")
    assert desk.seen == [
        ({"a": "1", "b": "1"}, {}),
        ({"a": "1", "b": "2"}, {"city": "Rome"}),
        ({"a": "1", "b": "2"}, {}),
    ]
    assert "Rome" not in "".join(texts_of(model.requests[-1]))


def test_what_an_action_returns_replaces_the_attributes() -> None:
    first = ActionResult(
        "ok", session_attributes={"b": "2"}, prompt_session_attributes={"city": "Oslo"}
    )
    desk, model = Desk(first), looks(NATIVE, 2, 1)
    asked = agent(model, desk.groups())
    asked.invoke(
        "Look.",
        "s-1",
        session_attributes={"a": "1"},
        prompt_session_attributes={"city": "Rome"},
    )
    asked.invoke("Look.", "s-1")
    assert desk.seen == [
        ({"a": "1"}, {"city": "Rome"}),
        ({"b": "2"}, {"city": "Oslo"}),
        ({"b": "2"}, {}),
    ]
    shown = ["".join(texts_of(request)) for request in model.requests]
    assert ["Rome" in text for text in shown] == [True, False, False, False, False]
    assert ["Oslo" in text for text in shown] == [False, True, True, False, False]


class Sets:
    """An executor that adds, changes and removes attributes; the first call ends last."""

    def __init__(self) -> None:
        self.later = threading.Event()

    def call(self, call: Call, context: CallContext) -> ActionResult:
        n = call.arguments["n"]
        if n == 0:
            assert self.later.wait(60)
        made = {**context.session_attributes, f"new-{n}": "1", "both": str(n)}
        del made[f"old-{n}"]
        prompt = {**context.prompt_session_attributes, f"new-{n}": "canary", "both": str(n)}
        del prompt[f"old-{n}"]
        if n == 1:
            self.later.set()
        return ActionResult("ok", session_attributes=made, prompt_session_attributes=prompt)


SETS = [
    {
        "name": "set",
        "description": "Sets.",
        "parameters": {"n": {"type": "integer", "description": "Which.", "required": True}},
    }
]


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_calls_together_lose_nothing_of_what_each_sets(
    way: str, stored: bool, tmp_path: Path
) -> None:
    model = NATIVE.model(
        [NATIVE.calls(("desk::set", {"n": 0}), ("desk::set", {"n": 1})), answer("Done.")]
    )
    groups = [ActionGroup("desk", functions=SETS, executor=Sets())]
    asked = agent(model, groups, sessions=tmp_path / "s.db" if stored else None)
    options: Any = {
        "session_attributes": {"old-0": "1", "old-1": "1", "kept": "1"},
        "prompt_session_attributes": {"old-0": "canary-old", "old-1": "canary-old"},
    }
    if way == "invoke":
        asked.invoke("Set.", "s-1", **options)
    else:
        asyncio.run(asked.ainvoke("Set.", "s-1", **options))
    session = asked.sessions.peek(f"{asked.plan.agent_id}/TSTALIASID/s-1")
    assert session.attributes == {"kept": "1", "new-0": "1", "new-1": "1", "both": "1"}
    shown = "".join(texts_of(model.requests[1]))
    assert "new-0" in shown and "new-1" in shown and "canary-old" not in shown


def test_an_action_may_empty_the_attributes() -> None:
    desk, model = Desk(ActionResult("ok", session_attributes={})), looks(NATIVE, 2)
    agent(model, desk.groups()).invoke("Look.", "s-1", session_attributes={"a": "1"})
    assert [seen for seen, _ in desk.seen] == [{"a": "1"}, {}]


def test_an_action_cannot_change_the_attributes_by_the_way() -> None:
    class Meddler(Desk):
        def call(self, call: Call, context: CallContext) -> ActionResult:
            result = super().call(call, context)
            with pytest.raises(TypeError):
                context.session_attributes["a"] = "2"  # type: ignore[index]
            with pytest.raises(TypeError):
                context.prompt_session_attributes["a"] = "2"  # type: ignore[index]
            return result

    desk, model = Meddler(), looks(NATIVE, 2)
    agent(model, desk.groups()).invoke("Look.", "s-1", session_attributes={"a": "1"})
    assert [seen for seen, _ in desk.seen] == [{"a": "1"}, {"a": "1"}]


HANDLER = """
def lambda_handler(event, context):
    counted = str(int(event["sessionAttributes"].get("count", "0")) + 1)
    event["sessionAttributes"]["count"] = counted
    event["promptSessionAttributes"]["seen"] = "number-" + counted
    response = {"actionGroup": event["actionGroup"], "function": event["function"],
                "functionResponse": {"responseBody": {"TEXT": {"body": counted}}}}
    return {"messageVersion": "1.0", "response": response,
            "sessionAttributes": event["sessionAttributes"],
            "promptSessionAttributes": event["promptSessionAttributes"]}
"""


def test_attributes_flow_through_a_lambda_handler(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    handler = LambdaHandler(tmp_path / "handler.py")
    groups = [ActionGroup("desk", functions=FUNCTIONS, executor=handler)]
    model = looks(NATIVE, 2, 1)
    asked = agent(model, groups, sessions=tmp_path / "s.db")
    asked.invoke("Look.", "s-1", session_attributes={"user": "ann"})
    assert "number-2" in "".join(texts_of(model.requests[2]))
    again = agent(model, groups, sessions=tmp_path / "s.db")
    again.invoke("Look.", "s-1")
    assert "3" in texts_of(model.requests[4])
    session = again.sessions.peek(f"{again.plan.agent_id}/TSTALIASID/s-1")
    assert session.attributes == {"user": "ann", "count": "3"}


def test_attributes_given_with_results_are_added() -> None:
    desk = Desk()
    light = NATIVE.calls(("house::light", {"on": True}))
    model = NATIVE.model([light, NATIVE.calls(LOOK), answer("On.")])
    asked = roc_agent(model, *desk.groups())
    control = asked.invoke(
        "Light.",
        "s-1",
        session_attributes={"a": "1"},
        prompt_session_attributes={"city": "Rome"},
    ).return_control
    assert control is not None
    asked.invoke(
        session_id="s-1",
        results=control.answer("on"),
        session_attributes={"b": "2"},
        prompt_session_attributes={"city": "Oslo"},
    )
    assert desk.seen == [({"a": "1", "b": "2"}, {"city": "Oslo"})]
    shown = ["".join(texts_of(request)) for request in model.requests]
    assert ["Rome" in text for text in shown] == [True, False, False]


def test_prompt_attributes_stay_while_the_turn_waits() -> None:
    model = NATIVE.model([NATIVE.calls(("house::light", {"on": True})), answer("On.")])
    asked = roc_agent(model)
    control = asked.invoke(
        "Light.", "s-1", prompt_session_attributes={"city": "Rome"}
    ).return_control
    assert control is not None
    asked.invoke(session_id="s-1", results=control.answer("on"))
    assert all("Rome" in "".join(texts_of(request)) for request in model.requests)


def idle(asked: Agent, clock: FakeClock) -> None:
    clock.advance(61)


def ended(asked: Agent, clock: FakeClock) -> None:
    asked.end_session("s-1")


def ended_with_its_turn(asked: Agent, clock: FakeClock) -> None:
    asked.invoke("Bye.", "s-1", end_session=True)


def ended_while_it_waits(asked: Agent, clock: FakeClock) -> None:
    asked.invoke("Light.", "s-1", end_session=True)


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("end", [idle, ended, ended_with_its_turn, ended_while_it_waits])
def test_a_session_that_ended_is_forgotten(end: Any, stored: bool, tmp_path: Path) -> None:
    clock = FakeClock()
    desk = Desk()
    look = NATIVE.calls(LOOK)
    middle: dict[Any, list[Any]] = {
        ended_with_its_turn: [answer("Bye.")],
        ended_while_it_waits: [NATIVE.calls(("house::light", {"on": True}))],
    }
    script = [look, answer("First."), *middle.get(end, []), look, answer("Second.")]
    model = NATIVE.model(script)
    sessions = Sessions.of(tmp_path / "s.db" if stored else None)
    sessions.clock = clock
    asked = roc_agent(model, *desk.groups(), sessions=sessions, idle_session_ttl=60)
    asked.invoke("Remember me?", "s-1", session_attributes={"a": "1"})
    end(asked, clock)
    asked.invoke("Do you?", "s-1")
    assert desk.seen == [({"a": "1"}, {}), ({}, {})]
    assert "Remember me?" not in "".join(texts_of(model.requests[-1]))


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
def test_a_session_that_is_to_end_does_not_while_its_turn_waits(
    stored: bool, tmp_path: Path
) -> None:
    desk = Desk()
    light, look = NATIVE.calls(("house::light", {"on": True})), NATIVE.calls(LOOK)
    script = [light, look, answer("On."), look, answer("Who are you?")]
    model = NATIVE.model(script)
    file = tmp_path / "s.db" if stored else None
    asked = roc_agent(model, *desk.groups(), sessions=file)
    control = asked.invoke(
        "Light.", "s-1", session_attributes={"a": "1"}, end_session=True
    ).return_control
    assert control is not None
    if stored:  # another process goes on, and is not told once more
        asked = roc_agent(model, *desk.groups(), sessions=file)
    assert asked.invoke(session_id="s-1", results=control.answer("on")).text == "On."
    asked.invoke("And now?", "s-1")
    assert desk.seen == [({"a": "1"}, {}), ({}, {})]
    assert "Light." not in "".join(texts_of(model.requests[-1]))


def test_a_session_lives_on_while_it_is_used() -> None:
    clock = FakeClock()
    desk, model = Desk(), looks(NATIVE, 1, 1, 1)
    asked = agent(model, desk.groups(), sessions=Sessions(clock=clock), idle_session_ttl=60)
    asked.invoke("One?", "s-1", session_attributes={"a": "1"})
    for question in ("Two?", "Three?"):
        clock.advance(60)
        asked.invoke(question, "s-1")
    assert [seen for seen, _ in desk.seen] == [{"a": "1"}] * 3


@pytest.mark.parametrize("name", ["session_attributes", "prompt_session_attributes"])
@pytest.mark.parametrize("value", [{"a": 1}, {1: "a"}, {"a": None}, ["a"], "a"])
def test_attributes_are_texts(name: str, value: Any) -> None:
    model = NATIVE.model([answer("Never.")])
    options: Any = {name: value}
    with pytest.raises(ValidationError, match=name):
        agent(model).invoke("Hello?", "s-1", **options)
    assert model.requests == []
