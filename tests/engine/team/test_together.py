"""Agents of a team that work at the same time: what one does to another, and what they share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from crew import asked
from teams import agent, model_of
from trace_lines import find_problems, trace_lines
from whole_agents import NATIVE, answer

from orchestrator import ActionGroup, Agent, LimitExceeded, Limits, ReturnControl, SQLiteStore
from orchestrator.actions import ActionResult, Call
from orchestrator.errors import ThrottlingError
from orchestrator.support import threads
from orchestrator.testing import FakeKnowledgeBase

BOTH = [("left", "Do it."), ("right", "Do it.")]
DO = [{"name": "do", "description": "Does it."}]


class Meeting:
    """An executor whose calls only go on together; each adds a session attribute."""

    def __init__(self, parties: int) -> None:
        self.barrier = Barrier(parties, timeout=60)
        self.seen: list[dict[str, str]] = []

    def call(self, call: Call, context: Any) -> ActionResult:
        known = dict(context.session_attributes)
        self.seen.append(known)
        self.barrier.wait()
        group = call.operation.group
        return ActionResult(f"{group} did", session_attributes={**known, group: "was here"})


class Noting:
    """An executor that notes the session attributes that it may know."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def call(self, call: Call, context: Any) -> ActionResult:
        self.seen.append(dict(context.session_attributes))
        return ActionResult("noted")


def pair(executor: Any, boss: Any, noting: Any = None, **options: Any) -> Agent:
    """A supervisor of `left` and `right`, which each have one action."""
    sides = [
        agent(
            name,
            {"Do it": [{f"{name}__do": {}}, f"{name} is done."]},
            action_groups=[ActionGroup(name, functions=DO, executor=executor)],
        )
        for name in ("left", "right")
    ]
    groups = [ActionGroup("own", functions=DO, executor=noting)] if noting else []
    return agent("boss", {"Go": boss}, *sides, action_groups=groups, **options)


def ways(boss: Agent, question: str = "Go!") -> list[Any]:
    return [
        lambda: boss.invoke(question, "s-1"),
        lambda: asyncio.run(boss.ainvoke(question, "s-2")),
        lambda: list(boss.stream(question, "s-3"))[-1].reply,
    ]


@pytest.mark.parametrize("way", range(3))
def test_they_do_work_at_the_same_time(way: int) -> None:
    boss = pair(Meeting(2), [BOTH, "Both are done."])
    reply = ways(boss)[way]()  # the barrier would break if one waited for the other
    assert reply.text == "Both are done."
    assert find_problems(reply.trace) == []


@pytest.mark.parametrize("way", range(3))
def test_they_end_in_a_process_that_has_no_more_threads(
    way: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_places", {})
    monkeypatch.setattr(threads, "MOST_THREADS", 1)
    noting = Noting()
    boss = pair(noting, [BOTH, "Both are done."])
    assert ways(boss)[way]().text == "Both are done."
    assert len(noting.seen) == 2


@pytest.mark.parametrize("kept", ["in memory", "in a file"])
def test_session_attributes_of_all_of_them_reach_the_supervisors_actions(
    kept: str, tmp_path: Path
) -> None:
    noting, meeting = Noting(), Meeting(2)
    sessions = None if kept == "in memory" else SQLiteStore(tmp_path / "s.db")
    script = [BOTH, {"own__do": {}}, "Done."]
    boss = pair(meeting, script, noting, sessions=sessions)
    boss.invoke("Go!", "s-1", session_attributes={"user": "u-1"})
    assert meeting.seen == [{"user": "u-1"}] * 2
    everything = {"user": "u-1", "left": "was here", "right": "was here"}
    assert noting.seen == [everything]
    if sessions is not None:  # and another process knows them, too
        again = pair(Meeting(2), script, noting, sessions=SQLiteStore(tmp_path / "s.db"))
        again.invoke("Go on with your own: Go", "s-1")
        assert noting.seen[-1] == everything


def test_one_that_fails_fails_the_turn_when_the_other_has_ended() -> None:
    meeting = Meeting(1)
    fine = agent(
        "fine",
        {"Do it": [{"fine__do": {}}, "It is done."]},
        action_groups=[ActionGroup("fine", functions=DO, executor=meeting)],
    )
    throttled = ThrottlingError("slow down")
    broken = agent("broken", {"Do it": [throttled]})
    told_later = {"What": ["It was done all the same."]}
    script = {"Go": [[("broken", "Do it."), ("fine", "Do it.")]], **told_later}
    boss = agent("boss", script, broken, fine)
    with pytest.raises(ThrottlingError) as failed:
        boss.invoke("Go!", "s-1")
    assert "slow down" in failed.value.message
    assert len(meeting.seen) == 1
    reply = failed.value.reply
    assert reply is not None and find_problems(reply.trace) == []
    lines = trace_lines(reply.trace)
    assert "2 broken failureTrace" in lines and lines[-1] == "1 boss failureTrace"
    assert "1 boss 0 observation AGENT_COLLABORATOR fine:TEXT:It is done." in lines
    assert trace_lines(boss.turns("s-1")[0].trace) == lines
    # The supervisor knows what was done when it is asked next.
    boss.invoke("What was that?", "s-1")
    results = [
        block["toolResult"]["content"][0]["text"]
        for message in model_of(boss).requests[-1].messages
        for block in message["content"]
        if "toolResult" in block
    ]
    unfinished = "This agent did not finish its work. What it had done before is not undone."
    assert results == [unfinished, "It is done."]


def test_a_collaborators_error_is_raised_again_for_the_same_results() -> None:
    roc = [ActionGroup("left", functions=DO, executor=ReturnControl())]
    left = agent("left", {"Do it": [{"left__do": {}}, ThrottlingError("slow")]}, action_groups=roc)
    boss = agent("boss", {"Go": [[("left", "Do it.")]]}, left)
    control = boss.invoke("Go!", "s-1").return_control
    assert control is not None
    messages = []
    for _ in range(2):
        with pytest.raises(ThrottlingError) as failed:
            boss.invoke(session_id="s-1", results=control.answer("done"))
        messages.append(failed.value.message)
        assert failed.value.reply is not None
        assert trace_lines(failed.value.reply.trace)[-1] == "1 boss failureTrace"
    assert messages[0] == messages[1] and "slow" in messages[0]


def test_two_that_hand_calls_over_are_answered_one_after_the_other(tmp_path: Path) -> None:
    boss = pair(ReturnControl(), [BOTH, "Both are done."], sessions=SQLiteStore(tmp_path / "s.db"))
    names, traces = [], []
    reply = boss.invoke("Go!", "s-1")
    while reply.return_control is not None:
        (call,) = reply.return_control.invocation_inputs
        names.append(call["functionInvocationInput"]["collaboratorName"])
        traces.append(trace_lines(reply.trace))
        assert find_problems(reply.trace) == []
        assert trace_lines(boss.turns("s-1")[0].trace)
        results = reply.return_control.answer(f"{names[-1]} done by hand")
        boss = pair(ReturnControl(), [BOTH, "Both are done."], sessions=boss.sessions.store)
        reply = boss.invoke(session_id="s-1", results=results)
    traces.append(trace_lines(reply.trace))
    assert (names, reply.text) == (["left", "right"], "Both are done.")
    first, second, third = traces
    asks = "invocationInput ACTION_GROUP RETURN_CONTROL:do"
    assert [line for line in first if asks in line] == [f"2 left 0 {asks}", f"2 right 0 {asks}"]
    waits = "1 boss 0 observation AGENT_COLLABORATOR {}:RETURN_CONTROL:"
    assert waits.format("left") in first and waits.format("right") not in first
    assert second == [
        "1 boss 0 invocationInput AGENT_COLLABORATOR left:RETURN_CONTROL:",
        "2 left 0 observation ACTION_GROUP left done by hand",
        "2 left 1 modelInvocationInput ORCHESTRATION",
        "2 left 1 modelInvocationOutput",
        "2 left 1 observation FINISH left is done.",
        "1 boss 0 observation AGENT_COLLABORATOR left:TEXT:left is done.",
        waits.format("right"),
    ]
    assert third[:3] == [
        "1 boss 0 invocationInput AGENT_COLLABORATOR right:RETURN_CONTROL:",
        "2 right 0 observation ACTION_GROUP right done by hand",
        "2 right 1 modelInvocationInput ORCHESTRATION",
    ]
    assert len([line for line in third if line.startswith("2 left")]) == 0


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(model_calls=3), "model_calls"),
        (Limits(tokens=40), "tokens"),
    ],
)
def test_a_collaborator_cannot_spend_more_than_is_left(limits: Limits, limit: str) -> None:
    plan = {"Do it": [{"left__do": {}}] * 9}
    group = ActionGroup("left", functions=DO, executor=Noting())
    left = agent("left", plan, action_groups=[group])
    boss = agent("boss", {"Go": [[("left", "Do it.")]]}, left, limits=limits)
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.limit == limit
    assert len(model_of(boss).requests) + len(model_of(left).requests) == 3


def test_a_collaborators_own_budget_holds_too() -> None:
    group = ActionGroup("left", functions=DO, executor=Noting())
    left = agent(
        "left", {"Do it": [{"left__do": {}}] * 9}, action_groups=[group], limits=Limits(actions=2)
    )
    boss = agent("boss", {"Go": [[("left", "Do it.")]]}, left)
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.limit == "actions"


def test_what_is_left_is_shared_among_those_at_work_together() -> None:
    """None of seven calls is spent twice: one is the supervisor's, each side has three."""
    boss = pair(Noting(), [BOTH], limits=Limits(model_calls=7))
    for name in ("left", "right"):
        side = boss.plan.collaborators[name].agent
        assert side is not None
        side.orchestration.model.plan = {"Do it": [{f"{name}__do": {}}] * 9}  # type: ignore[attr-defined]
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.limit == "model_calls"
    asked_for = [
        len(one.agent.orchestration.model.requests)  # type: ignore[attr-defined, union-attr]
        for one in boss.plan.collaborators.values()
    ]
    assert asked_for == [3, 3]


MESSAGE = ("AgentCommunication::sendMessage", {"recipient": "left", "content": "Do it."})


def test_a_collaborator_has_no_action_that_the_same_reply_has_used() -> None:
    own, noting = Noting(), Noting()
    group = ActionGroup("left", functions=DO, executor=noting)
    left = agent("left", {"Do it": [{"left__do": {}}, "Done."]}, action_groups=[group])
    boss = agent(
        "boss",
        {},
        left,
        model=NATIVE.model([NATIVE.calls(("own::do", {}), MESSAGE)]),
        action_groups=[ActionGroup("own", functions=DO, executor=own)],
        limits=Limits(actions=2),  # the message is one, too
    )
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.limit == "actions"
    assert (len(own.seen), len(noting.seen)) == (1, 0)


def test_a_collaborator_has_no_model_call_that_a_search_of_the_same_reply_has_used() -> None:
    base = FakeKnowledgeBase("KB12345678", ["The rules."])
    left = agent("left", {"Do it": ["Done."]})
    search = (f"GET::x_amz_knowledgebase_{base.id}::Search", {"searchQuery": "rules"})
    boss = agent(
        "boss",
        {},
        left,
        model=NATIVE.model([NATIVE.calls(search, MESSAGE), answer("The rules.")]),
        knowledge_bases=[base],
        prompts={"KNOWLEDGE_BASE_RESPONSE_GENERATION": {"promptState": "ENABLED"}},
        limits=Limits(model_calls=2),
    )
    with pytest.raises(LimitExceeded) as stopped:
        boss.invoke("Go!", "s-1")
    assert stopped.value.limit == "model_calls"
    assert model_of(left).requests == []


def test_what_a_collaborator_spent_is_the_supervisors_too() -> None:
    left = agent("left", {"Do it": ["Done."]})
    script = [[("left", "Do it.")]] * 3 + ["All done."]
    boss = agent("boss", {"Go": script}, left, limits=Limits(model_calls=6))
    with pytest.raises(LimitExceeded):
        boss.invoke("Go!", "s-1")
    assert len(model_of(boss).requests) + len(model_of(left).requests) == 6


def test_questions_are_told_apart_by_their_words() -> None:
    """The scripted models of this folder answer what they were asked, in every process."""
    left = agent("left", {"Do it": ["Done."]})
    agent("boss", {"Go": [[("left", "Do it.")], "Fine."]}, left).invoke("Go!", "s-1")
    assert asked(model_of(left).requests[0]) == ("Do it.", 0)
