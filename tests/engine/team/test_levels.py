"""Supervisors of supervisors: two and three levels, never four."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crew import Desk
from teams import agent, model_of
from trace_lines import find_problems, trace_lines

from orchestrator import ActionGroup, Agent, DefinitionError, Limits, ReturnControl, SQLiteStore

NOTE = [
    {
        "name": "note",
        "description": "Notes it.",
        "parameters": {"text": {"type": "string", "description": "What.", "required": True}},
    }
]
CALL = {"desk__note": {"text": "it"}}


def tower(levels: int, executor: Any, **options: Any) -> Agent:
    """Agents that lead one another; the lowest one acts."""
    low = agent(
        f"level{levels}",
        {"Do": [CALL, "It is noted."], "Again": ["As before."]},
        action_groups=[ActionGroup("desk", functions=NOTE, executor=executor)],
    )
    for level in range(levels - 1, 0, -1):
        below, kept = low, options if level == 1 else {}
        script = {
            "Do": [[(below.name, "Do it.")], f"Level {level} is done."],
            "Again": [[(below.name, "Again!")], f"Level {level} says the same."],
        }
        low = agent(f"level{level}", script, below, **kept)
    return low


@pytest.mark.parametrize("levels", [2, 3])
def test_each_level_is_one_deeper_in_the_trace(levels: int, tmp_path: Path) -> None:
    boss = tower(levels, Desk(tmp_path))
    reply = boss.invoke("Do it.", "s-1")
    assert (reply.text, find_problems(reply.trace)) == ("Level 1 is done.", [])
    lines = [line.replace(" boss ", " level1 ") for line in trace_lines(reply.trace)]
    assert {line.split()[0] for line in lines} == {str(level + 1) for level in range(levels)}
    # Recorded: parts of the third level carry the name and the session of the second one.
    assert all(line.split()[1] == f"level{min(int(line.split()[0]), 2)}" for line in lines)
    sessions = {len(part["callerChain"]): part["sessionId"] for part in reply.trace}
    assert sessions[levels] == sessions[2] != sessions[1] == "s-1"
    answers = [
        part["trace"]["orchestrationTrace"]["observation"]["agentCollaboratorInvocationOutput"]
        for part in reply.trace
        if "AGENT_COLLABORATOR" in str(part) and "observation" in str(part)
    ]
    # Recorded: the answer's id is the collaborator's own request's, which its trace ids begin with.
    requests = {
        part["trace"]["orchestrationTrace"]["modelInvocationInput"]["traceId"][:-2]
        for part in reply.trace
        if len(part["callerChain"]) > 1 and "modelInvocationInput" in str(part)
    }
    assert {one["metadata"]["clientRequestId"] for one in answers} == requests
    assert len(requests) == levels - 1
    depths = [len(part["callerChain"]) for part in reply.trace]
    # Down, through the lowest one's whole sequence, and up again.
    down = [depth for index, depth in enumerate(depths) if not index or depths[index - 1] != depth]
    assert down == [*range(1, levels + 1), *range(levels - 1, 0, -1)]
    assert trace_lines(boss.turns("s-1")[0].trace) == trace_lines(reply.trace)
    streamed = [it.part for it in boss.stream("Do it.", "s-2") if hasattr(it, "part")]
    assert trace_lines(streamed) == trace_lines(reply.trace)


@pytest.mark.parametrize("levels", [2, 3])
def test_a_hand_over_of_the_lowest_level_comes_up_and_goes_down(
    levels: int, tmp_path: Path
) -> None:
    boss = tower(levels, ReturnControl(), sessions=SQLiteStore(tmp_path / "s.db"))
    first = boss.invoke("Do it.", "s-1")
    control = first.return_control
    assert control is not None
    (call,) = control.invocation_inputs
    assert call["functionInvocationInput"]["collaboratorName"] == f"level{levels}"
    assert trace_lines(boss.turns("s-1")[0].trace) == trace_lines(first.trace)
    waits = [line for line in trace_lines(first.trace) if "RETURN_CONTROL:" in line]
    assert [line.split()[0] for line in waits] == [str(level) for level in range(levels, 0, -1)]
    again = tower(levels, ReturnControl(), sessions=SQLiteStore(tmp_path / "s.db"))
    second = again.invoke(session_id="s-1", results=control.answer("noted by hand"))
    assert (second.text, find_problems(second.trace)) == ("Level 1 is done.", [])
    lines = trace_lines(second.trace)
    asks = [line for line in lines if line.endswith("RETURN_CONTROL:")]
    assert [line.split()[0] for line in asks] == [str(level) for level in range(1, levels)]
    assert f"{levels} level2 0 observation ACTION_GROUP noted by hand" in lines
    assert f"{levels} level2 0 modelInvocationOutput" not in lines  # it was told before


def test_what_each_level_was_asked_is_in_its_own_history(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    tower(3, Desk(tmp_path), sessions=store).invoke("Do it.", "s-1")
    boss = tower(3, Desk(tmp_path), sessions=store)  # as another process would
    assert boss.invoke("Again!", "s-1").text == "Level 1 says the same."
    middle = boss.plan.collaborators["level2"].agent
    assert middle is not None
    low = middle.collaborators["level3"].agent
    assert low is not None
    for plan in (boss.plan, middle, low):
        texts = [
            block["text"]
            for message in plan.orchestration.model.requests[0].messages  # type: ignore[attr-defined]
            if message["role"] == "user"
            for block in message["content"]
            if "text" in block
        ]
        assert texts == ["Do it.", "Again!"]


def test_four_levels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="4 levels deep; the most are 3"):
        tower(4, Desk(tmp_path))


def test_agents_of_one_name_at_different_levels_do_not_share_a_history(tmp_path: Path) -> None:
    inner = agent("same", {"deep": ["I am deep."]})
    middle = agent("middle", {"Go": [[("same", "Go deep.")], "Deep."]}, inner)
    outer = agent("same", {"Go": ["I am outer."], "deep": ["wrong one"]})
    boss = agent("boss", {"Go": [[("middle", "Go."), ("same", "Go.")], "Both."]}, middle, outer)
    boss.invoke("Go!", "s-1")
    boss.invoke("Go again!", "s-1")
    for one, asked in ((inner, "Go deep."), (outer, "Go.")):
        last = model_of(one).requests[-1].messages
        said = [message["content"][0]["text"] for message in last if message["role"] == "user"]
        assert said == [asked, asked]


def test_two_levels_at_work_at_the_same_time_share_one_journal(tmp_path: Path) -> None:
    """Four agents below two supervisors write to it at once."""

    def half(side: str) -> Agent:
        workers = [
            agent(
                f"{side}{number}",
                {"Do": [{"desk__note": {"text": side}}] * 6 + ["Done."]},
                action_groups=[ActionGroup("desk", functions=NOTE, executor=Desk(tmp_path))],
            )
            for number in range(2)
        ]
        orders = [(one.name, "Do it.") for one in workers]
        return agent(side, {"Go": [orders, f"{side} is done."]}, *workers)

    halves = [half("left"), half("right")]
    orders = [(one.name, "Go!") for one in halves]
    store = SQLiteStore(tmp_path / "s.db")
    limits = Limits(model_calls=100)
    boss = agent("boss", {"Go": [orders, "All done."]}, *halves, sessions=store, limits=limits)
    reply = boss.invoke("Go!", "s-1")
    assert reply.text == "All done."
    assert len((tmp_path / "effects.txt").read_text().splitlines()) == 24
    assert find_problems(reply.trace) == []
    assert trace_lines(boss.turns("s-1")[0].trace) == trace_lines(reply.trace)
