"""Orchestrations in Python: what they can have done, and what they may not do."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from custom_support import LOOK, model, told
from whole_agents import CLAUDE_3, INSTRUCTION, LOCAL, Calls, agent, roles, streamed, texts_of

from orchestrator import (
    ActionGroup,
    Collaborator,
    DefinitionError,
    Limits,
    ReturnControl,
    SQLiteStore,
    TextDelta,
    ValidationError,
)
from orchestrator.actions import USER_INPUT
from orchestrator.errors import DependencyFailed, LimitExceeded
from orchestrator.flows.custom import CustomTurn, ModelAnswer, ToolResults
from orchestrator.guardrails import Verdict
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel


def loop(turn: CustomTurn) -> Any:
    reply: ModelAnswer = yield from turn.model(turn.question, tools=True)
    while reply.calls:
        results: ToolResults = yield from turn.tools(reply)
        messages = [*reply.asked, reply.message, results.message]
        reply = yield from turn.model(messages, tools=True)
    return reply.text


def test_a_loop() -> None:
    asked, made = model(LOOK, "You have 12 days.", "I am."), Calls()
    hr = agent(asked, made.groups(), orchestration=loop)
    reply = hr.invoke("How many days?", session_id="s-1")
    assert reply.text == "You have 12 days."
    assert made.made == [("get_days", {"employee": "7", "year": 2026})]
    assert told(reply) == [
        *("modelInvocationInput", "modelInvocationOutput"),
        *("invocationInput", "observation ACTION_GROUP"),
        *("modelInvocationInput", "modelInvocationOutput", "observation FINISH"),
    ]
    first = asked.requests[0]
    assert first.system == INSTRUCTION
    assert first.tools is hr.plan.orchestration.tools  # backends cache them by identity
    assert "stopSequences" not in first.inference and first.inference["maximumLength"]
    assert reply.usage.calls == 2
    # What was said before goes ahead, without tools.
    assert hr.invoke("Sure?", session_id="s-1").text == "I am."
    assert texts_of(asked.requests[2])[1:] == ["How many days?", "You have 12 days.", "Sure?"]
    assert roles(asked.requests[2]) == ["user", "assistant", "user"]


def test_what_a_model_is_asked() -> None:
    def ask(turn: CustomTurn) -> Any:
        some = [spec for spec in turn.tool_specs if "book" in spec["toolSpec"]["name"]]
        messages = [{"role": "user", "content": [{"text": f"Of {turn.instruction}"}]}]
        reply = yield turn.model(
            messages, system="S", tools=some, inference={"temperature": 0.5}, history=False
        )
        assert reply.stop_reason == "end_turn" and reply.message["role"] == "assistant"
        return f"{reply.text} {dict(turn.prompt_session_attributes)}"

    asked = model("One.", "Two.")
    hr = agent(asked, Calls().groups(), orchestration=ask)
    hr.invoke("Hi", session_id="s-1")
    reply = hr.invoke("Hi", session_id="s-1", prompt_session_attributes={"a": "b"})
    assert reply.text == "Two. {'a': 'b'}"
    request = asked.requests[1]
    assert texts_of(request) == ["S", f"Of {INSTRUCTION}"]
    assert request.inference == {"temperature": 0.5}
    assert [it["toolSpec"]["name"] for it in request.tools] == ["vacations__book"]


def test_files_go_where_the_question_is() -> None:
    def ask(turn: CustomTurn) -> Any:
        plan = yield turn.model("Plan.", history=False)
        reply = yield turn.model(turn.question)
        last = yield turn.model([*reply.asked, reply.message, _user("Sure?")])
        assert turn.summaries == []
        return f"{plan.text} {last.text}"

    asked = model("A.", "B.", "C.", "D.", "E.", "F.")
    hr = agent(asked, orchestration=ask)
    file = {"name": "a.txt", "bytes": b"canary text", "use_case": "CHAT"}
    assert hr.invoke("What is in it?", session_id="s-1", files=[file]).text == "A. C."
    shown = [any("canary text" in it for it in texts_of(one)) for one in asked.requests]
    assert shown == [False, True, True]
    hr.invoke("And now?", session_id="s-1", previous_turns=0)
    assert texts_of(asked.requests[4])[1:] == ["And now?"]


def test_calls_of_its_own_several_at_once() -> None:
    def plan(turn: CustomTurn) -> Any:
        first = yield turn.tools(
            [
                {"name": "vacations::get_days", "input": {"employee": "1"}},
                {"name": "GET__x_amz_knowledgebase_HANDBOOK01__Search", "input": {"q": "days"}},
                {"name": "vacations__get_days", "input": {}},
                {"name": "nonsense"},
            ]
        )
        second = yield turn.tools([{"name": "vacations__get_days", "input": {"employee": "2"}}])
        return "|".join(f"{it.error}:{it.text}" for it in [*first, second[0]])

    made = Calls()
    bases = [FakeKnowledgeBase("HANDBOOK01", ["30 days a year"])]
    hr = agent(model(), made.groups(), orchestration=plan, knowledge_bases=bases)
    reply = hr.invoke("Hi", session_id="s-1")
    days, found, wrong, nonsense, later = reply.text.split("|")
    assert days == later == "False:12"
    assert found.startswith("False:") and "30 days a year" in found
    assert wrong.startswith("True:") and "employee" in wrong
    assert nonsense.startswith("True:")
    assert [given["employee"] for _, given in made.made] == ["1", "2"]
    (info,) = hr.sessions.store.list()
    ids = [it["id"] for it in hr.sessions.store.load(info.key) if it["kind"] == "action"]
    assert len(set(ids)) == 2


def test_a_hand_over_and_what_follows(tmp_path: Path) -> None:
    seen: list[str] = []

    def work(turn: CustomTurn) -> Any:
        seen.append("begun")
        reply = yield turn.model("Plan.")
        (result,) = yield turn.tools([{"name": "door__open", "input": {}}])
        return f"{reply.text} {result.text}"

    def open() -> str:
        """Opens."""
        raise AssertionError

    group = ActionGroup("door", [open], ReturnControl())
    store = tmp_path / "s.db"
    first = agent(model("Well:"), [group], orchestration=work, sessions=SQLiteStore(store))
    waits = first.invoke("Open", session_id="s-1").return_control
    assert waits is not None
    again = agent(model(), [group], orchestration=work, sessions=SQLiteStore(store))
    reply = again.invoke(session_id="s-1", results=waits.answer("opened"))
    assert reply.text == "Well: opened"


def test_asking_the_user() -> None:
    def ask(turn: CustomTurn) -> Any:
        if "Ann" in turn.question:
            return "Hello, Ann."
        if turn.question == "tool":
            yield turn.tools([{"name": "user__askuser", "input": {"question": "And who?"}}])
        return turn.ask_user("Who are you?")
        yield

    groups = [ActionGroup("UserInput", signature=USER_INPUT)]
    hr = agent(model(), groups, orchestration=ask)
    reply = hr.invoke("Hi", session_id="s-1")
    assert (reply.text, reply.stop_reason) == ("Who are you?", "ask_user")
    assert told(reply) == ["observation ASK_USER"]
    assert hr.invoke("tool", session_id="s-1").text == "And who?"
    assert hr.invoke("Ann", session_id="s-1").text == "Hello, Ann."


class Masks:
    id = "masks"

    def check(self, text: str, source: str) -> Verdict:
        masked = text.replace("Ann", "{NAME}")
        return Verdict("INTERVENED", masked) if masked != text else Verdict("NONE")


def test_guarding_and_tracing() -> None:
    def guard(turn: CustomTurn) -> Any:
        yield turn.trace("looking")
        one = yield turn.guard("to Ann", "OUTPUT")
        two = yield turn.guard("to Bob")
        assert one.intervened and not two.intervened and not one.blocked
        return f"{one.text}, {two.text}"

    hr = agent(model(), orchestration=guard, guardrail=Masks())
    reply = hr.invoke("Hi", session_id="s-1")
    assert reply.text == "to {NAME}, to Bob"
    assert told(reply) == [
        *("guardrailTrace", "custom looking"),
        *["guardrailTrace"] * 3,
        "observation FINISH",
    ]


def test_a_live_answer_streams() -> None:
    def live(turn: CustomTurn) -> Any:
        plan = yield turn.model("Plan.")
        reply = yield turn.model([*plan.asked, plan.message, _user("Go on.")], live=True)
        return reply.text

    asked = ScriptedModel(["plan", "the answer"], CLAUDE_3, chunk=4)
    events, error = streamed(agent(asked, orchestration=live), "Hi", session_id="s-1")
    assert error is None
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert deltas == ["the ", "answ", "er"]


def test_the_embedded_model_is_told_its_tools_and_answers_without_a_tag() -> None:
    def twice(turn: CustomTurn) -> Any:
        call = [{"name": "vacations__get_days", "input": {"employee": "7"}}]
        one = yield turn.tools(call)
        two = yield turn.tools(call)
        some = [spec for spec in turn.tool_specs if "get_days" in spec["toolSpec"]["name"]]
        reply = yield turn.model(f"{one[0].text} {two[0].text}", tools=some, live=True)
        return reply.text

    asked = LOCAL.model(["<answer>12 days.</answer>"], chunk=3)
    hr = agent(asked, Calls().groups(), orchestration=twice)
    events, error = streamed(hr, "How many?", session_id="s-1")
    assert error is None and events[-1].reply.text == "12 days."
    assert "".join(event.text for event in events if isinstance(event, TextDelta))[:8] == "12 days."
    system, question = texts_of(asked.requests[0])
    assert question == "12 12"
    assert system.startswith(f"{INSTRUCTION}\n\n<tools>") and "<tool_call>" in system
    assert "vacations__get_days" in system and "vacations__book" not in system


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def test_an_asynchronous_turn() -> None:
    hr = agent(model(LOOK, "12."), Calls().groups(), orchestration=loop)
    assert asyncio.run(hr.ainvoke("How many?", session_id="s-1")).text == "12."


def test_a_collaborator_with_an_orchestration_of_its_own() -> None:
    helper = agent(model(LOOK, "12 days."), Calls().groups(), orchestration=loop)
    message = {"recipient": "helper", "content": "How many?"}

    def lead(turn: CustomTurn) -> Any:
        call = {"name": "AgentCommunication__sendMessage", "input": message}
        (result,) = yield turn.tools([call])
        return f"It says: {result.text}"

    team = [Collaborator(helper, "Knows vacations.", "helper")]
    boss = agent(model(), orchestration=lead, collaborators=team)
    reply = boss.invoke("How many?", session_id="s-1")
    assert reply.text == "It says: 12 days."
    named = [part.get("collaboratorName") for part in reply.trace]
    assert named.count("helper") == 7 and named[0] is None


def test_a_function_that_yields_nothing() -> None:
    hr = agent(model(), orchestration=lambda turn: turn.question.upper())
    assert hr.invoke("Hi", session_id="s-1").text == "HI"


def raises(turn: CustomTurn) -> Any:
    yield turn.trace("x")
    raise RuntimeError("canary")


def leaves(turn: CustomTurn) -> Any:
    yield turn.trace("x")
    sys.exit("canary")


def loses(turn: CustomTurn) -> Any:
    yield turn.trace("x")
    raise asyncio.CancelledError("canary")


def yields_text(turn: CustomTurn) -> Any:
    yield "canary"


def returns_nothing(turn: CustomTurn) -> Any:
    yield turn.trace("x")


def guards_nothing(turn: CustomTurn) -> Any:
    yield turn.guard("x")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (raises, r"'raises' raised RuntimeError at test_python_orchestrations.py:\d+"),
        (leaves, r"'leaves' raised SystemExit at test_python_orchestrations.py:\d+"),
        (loses, r"'loses' raised CancelledError at test_python_orchestrations.py:\d+"),
        (yields_text, "'yields_text' yielded a str; yield what turn.model"),
        (returns_nothing, "'returns_nothing' returned a NoneType; return the answer's text"),
        (guards_nothing, "agent 'hr' has no guardrail"),
    ],
)
def test_what_it_may_not_do(function: Any, text: str) -> None:
    with pytest.raises(DependencyFailed, match=text) as failed:
        agent(model(), orchestration=function).invoke("Hi", session_id="s-1")
    assert "canary" not in failed.value.message
    assert failed.value.reply is not None
    assert told(failed.value.reply)[-1] == "failureTrace"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "'messages' is empty"),
        ([{"role": "user"}], "'messages[0].content' is missing"),
        (["Hi"], "'messages[0]' is a text, not an object"),
        (7, "not iterable"),
    ],
)
def test_messages_that_are_none(messages: Any, text: str) -> None:
    def ask(turn: CustomTurn) -> Any:
        yield turn.model(messages)

    with pytest.raises(ValidationError, match=re.escape(text)):
        agent(model("x"), orchestration=ask).invoke("Hi", session_id="s-1")


def test_a_call_without_a_name() -> None:
    def ask(turn: CustomTurn) -> Any:
        yield turn.tools([{"input": {}}])

    with pytest.raises(ValidationError, match="a call is"):
        agent(model(), orchestration=ask).invoke("Hi", session_id="s-1")


def test_a_failure_ends_the_turn_whatever_the_function_would_do() -> None:
    def stubborn(turn: CustomTurn) -> Any:
        try:
            yield turn.model("Hi")
        except Exception:
            return "went on"
        return "answered"

    hr = agent(model(DependencyFailed("no")), orchestration=stubborn)
    with pytest.raises(DependencyFailed, match=r"^no$"):
        hr.invoke("Hi", session_id="s-1")
    limited = agent(model("x"), orchestration=endless, limits=Limits(iterations=1))
    with pytest.raises(LimitExceeded):
        limited.invoke("Hi", session_id="s-1")


def endless(turn: CustomTurn) -> Any:
    while True:
        yield turn.model("Hi")


async def waits(turn: CustomTurn) -> str:
    return "x"


@pytest.mark.parametrize("given", [waits, 7])
def test_what_is_no_orchestration(given: Any) -> None:
    with pytest.raises(DefinitionError, match="orchestration"):
        agent(model(), orchestration=given)
