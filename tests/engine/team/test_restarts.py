"""A team's process is killed in the middle of a turn; another one goes on with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crew import ANSWER, BOOKED, ONE_AT_A_TIME, QUESTION, crew, label, play, waiting
from forking import forked
from left_out import sampled
from trace_lines import find_problems, trace_lines

from orchestrator import Agent
from orchestrator.errors import ActionOutcomeUnknown, ValidationError

CALLS = 12
"""Model calls of the whole turn when nothing happens to it."""


def crash(folder: Path, point: str) -> None:
    done = forked(Path(__file__).with_name("crew.py"), folder, point)
    assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr)


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The trace of the turn that nothing happened to."""
    agent = crew(tmp_path_factory.mktemp("calm"), limits=ONE_AT_A_TIME)
    assert play(agent) == ANSWER
    return trace_lines(agent.turns("s-1")[0].trace)


# Where the process dies, and how many model calls are made in vain: those whose reply no journal
# had yet. The supervisor's records have no branch; 0.0 is its first step's first message.
POINTS = {
    "after turn": 0,
    "in boss 0": 1,
    "before model": 1,
    "after model": 0,
    "in claims 0": 1,
    "before intent@0.0": 1,
    "after action@0.0": 0,
    "in claims 1": 1,
    "before branch@0.0": 1,
    "after branch@0.0": 0,
    "in billing 0": 1,
    "after action@0.1": 0,
    "in billing 1": 1,
    "after branch@0.1": 0,
    "in boss 1": 1,
    "in visits 0": 1,
    "after model@1.0": 0,
    "before suspend": 0,
    "after suspend": 0,
    "while it waits": 0,
    "before returned@1.0": 0,
    "after returned@1.0": 0,
    "in visits 1": 1,
    "after branch@1.0": 0,
    "before intent@2.0": 1,
    "after action@2.0": 0,
    "after branch@2.0": 0,
    "in boss 3": 1,
    "before end": 1,
}


@pytest.mark.parametrize("point", sampled(POINTS))
def test_another_process_goes_on_where_the_first_one_died(
    point: str, calm: list[str], tmp_path: Path
) -> None:
    crash(tmp_path, point)
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    assert play(agent) == ANSWER
    assert effects(tmp_path) == ["open_claim", "credit", "note"]
    assert lines(tmp_path / "asked.txt") == CALLS + POINTS[point]
    (turn,) = agent.turns("s-1")
    assert trace_lines(turn.trace) == calm
    assert find_problems(turn.trace) == []
    assert waiting(agent) is None


@pytest.mark.exhaustive
def test_a_process_that_goes_on_may_be_killed_as_well(calm: list[str], tmp_path: Path) -> None:
    points = ["in claims 1", "in billing 0", "while it waits", "in visits 1", "in boss 3"]
    for point in points:
        crash(tmp_path, point)
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    assert play(agent) == ANSWER
    assert effects(tmp_path) == ["open_claim", "credit", "note"]
    assert trace_lines(agent.turns("s-1")[0].trace) == calm


@pytest.mark.parametrize(
    ("point", "action", "took_effect"),
    [
        # What was asked of another agent at the same time is seen to all the same.
        ("after intent@0.0", "open_claim", ["credit"]),
        ("before open_claim", "open_claim", ["credit"]),
        ("after open_claim", "open_claim", ["open_claim", "credit"]),
        ("before action@0.0", "open_claim", ["open_claim", "credit"]),
        ("after credit", "credit", ["open_claim", "credit"]),
        ("after note", "note", ["open_claim", "credit", "note"]),
    ],
)
def test_an_action_whose_outcome_nobody_knows_is_not_tried_again(
    point: str, action: str, took_effect: list[str], tmp_path: Path
) -> None:
    crash(tmp_path, point)
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    with pytest.raises(ActionOutcomeUnknown, match=action) as unknown:
        play(agent)
    assert effects(tmp_path) == took_effect
    assert unknown.value.reply is not None and find_problems(unknown.value.reply.trace) == []
    (call,) = unknown.value.undecided.calls
    with pytest.raises(ActionOutcomeUnknown, match=action) as unknown:
        agent.decide("s-1", give_up=[call.key])
    assert effects(tmp_path) == took_effect
    # The agent that had begun it fails, and with it the one that had sent it to work.
    reply = unknown.value.reply
    assert reply is not None and find_problems(reply.trace) == []
    failures = [line for line in trace_lines(reply.trace) if "failureTrace" in line]
    who = "billing" if action == "credit" else "claims"
    assert failures == [f"2 {who} failureTrace", "1 boss failureTrace"]
    lived, whole = trace_lines(reply.trace), trace_lines(agent.turns("s-1")[0].trace)
    assert whole[1 - len(lived) :] == lived[1:]


@pytest.mark.parametrize(
    ("point", "took_effect"),
    [("before open_claim", False), ("after open_claim", True), ("after note", True)],
)
def test_somebody_says_what_became_of_a_collaborators_action(
    point: str, took_effect: bool, calm: list[str], tmp_path: Path
) -> None:
    crash(tmp_path, point)
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    with pytest.raises(ActionOutcomeUnknown) as unknown:
        play(agent)
    (call,) = unknown.value.undecided.calls
    given = call.input["functionInvocationInput"]
    assert given["collaboratorName"] == "claims" and given["function"] in point
    decided: dict[str, Any] = {"happened": {call.key: "done"}}
    if not took_effect:
        decided = {"repeat": [call.key]}
    reply = agent.decide("s-1", **decided)
    if reply.return_control is not None:
        results = reply.return_control.answer(BOOKED)
        reply = agent.invoke(session_id="s-1", results=results)
    assert reply.text == ANSWER
    assert sorted(effects(tmp_path)) == ["credit", "note", "open_claim"]
    assert agent.find_undecided() == []


def prompts(agent: Agent, name: str) -> list[str]:
    """The texts of every prompt of a collaborator in this process."""
    plan = agent.plan.collaborators[name].agent
    assert plan is not None
    return [str(request.messages) for request in plan.orchestration.model.requests]  # type: ignore[attr-defined]


@pytest.mark.parametrize("point", ["in visits 0", "while it waits", "after returned@1.0"])
def test_a_collaborator_knows_what_it_did_before_the_crash(point: str, tmp_path: Path) -> None:
    """`claims` is asked a second time, in another process, within the same turn."""
    crash(tmp_path, point)
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    play(agent)
    (tmp_path / "calm").mkdir()
    calm = crew(tmp_path / "calm", limits=ONE_AT_A_TIME)
    play(calm)
    assert prompts(agent, "claims") == prompts(calm, "claims")[2:]
    # And in the next turn, of whichever process.
    for one in (agent, crew(tmp_path, limits=ONE_AT_A_TIME)):
        play(one)
    assert len(prompts(one, "claims")[0]) > len(prompts(agent, "claims")[-1])


def test_an_ended_turn_is_not_run_again(calm: list[str], tmp_path: Path) -> None:
    crash(tmp_path, "after end")
    agent = crew(tmp_path)
    (turn,) = agent.turns("s-1")
    assert (turn.text, turn.stop_reason) == (ANSWER, "end_turn")
    assert trace_lines(turn.trace) == calm
    with pytest.raises(ValidationError, match="the question is empty"):
        agent.invoke(session_id="s-1")
    assert lines(tmp_path / "asked.txt") == CALLS


def test_the_same_results_after_the_end_give_the_same_reply(tmp_path: Path) -> None:
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    control = agent.invoke(QUESTION, "s-1").return_control
    assert control is not None
    first = agent.invoke(session_id="s-1", results=control.answer(BOOKED))
    again = crew(tmp_path).invoke(session_id="s-1", results=control.answer(BOOKED))
    assert again.text == first.text == ANSWER
    assert trace_lines(again.trace) == trace_lines(first.trace)
    assert effects(tmp_path) == ["open_claim", "credit", "note"]


def test_a_turn_that_waits_is_told_by_another_process_as_it_was(tmp_path: Path) -> None:
    reply = crew(tmp_path, limits=ONE_AT_A_TIME).invoke(QUESTION, "s-1")
    other = crew(tmp_path)
    (turn,) = other.turns("s-1")
    assert turn.stop_reason == "return_control"
    assert trace_lines(turn.trace) == trace_lines(reply.trace)
    assert (
        trace_lines(turn.trace)[-1]
        == "1 boss 1 observation AGENT_COLLABORATOR visits:RETURN_CONTROL:"
    )
    assert find_problems(turn.trace) == []


def test_agents_at_work_at_the_same_time_lose_nothing_of_one_another(tmp_path: Path) -> None:
    """`billing` has begun to act when the process dies, which `claims` has survived."""
    script = f"""
import sys, threading
sys.path.insert(0, {str(Path(__file__).parent)!r})
import crew
from pathlib import Path

begun = threading.Event()

class Desk(crew.Desk):
    def call(self, call, context):
        if call.operation.name == "credit":
            begun.set()
            threading.Event().wait()
        begun.wait()
        return super().call(call, context)

crew.Desk = Desk
crew.play(crew.crew(Path({str(tmp_path)!r}), "after branch@0.0"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    agent = crew(tmp_path)
    with pytest.raises(ActionOutcomeUnknown, match="credit") as unknown:
        play(agent)
    assert effects(tmp_path) == ["open_claim"]
    # What claims had done is told, and neither done nor asked again.
    assert unknown.value.reply is not None
    lived = trace_lines(unknown.value.reply.trace)
    assert "1 boss 0 observation AGENT_COLLABORATOR claims:TEXT:Claim C-1 is open." in lived
    asked = (tmp_path / "asked.txt").read_text().splitlines()
    assert sorted(asked) == ["billing 0", "boss 0", "claims 0", "claims 1"]


def test_the_journal_is_one_and_names_its_branches(tmp_path: Path) -> None:
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    play(agent)
    (info,) = agent.sessions.store.list()
    records = agent.sessions.store.load(info.key)
    assert [label(record) for record in records] == [
        *("turn", "model"),
        *("model@0.0", "intent@0.0", "action@0.0", "model@0.0", "branch@0.0"),
        *("model@0.1", "intent@0.1", "action@0.1", "model@0.1", "branch@0.1"),
        *("model", "model@1.0", "suspend", "returned@1.0", "model@1.0", "branch@1.0"),
        *("model", "model@2.0", "intent@2.0", "action@2.0", "model@2.0", "branch@2.0"),
        *("model", "end"),
    ]
