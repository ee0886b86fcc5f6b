"""A process is killed in an orchestrated turn: the next one goes on, and asks nothing twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from custom_support import LOOK, model, told
from forking import forked
from left_out import sampled
from orchestrated_crashes import ANSWER, staff

from orchestrator import SessionConflict

STATES = ["START", "MODEL_INVOKED", "TOOL_INVOKED", "MODEL_INVOKED"]
# What the model has still to be asked, and the handler's states, by the point of the crash. A
# record is written before the next thing that costs is begun.
POINTS = {
    "turn 1": ([LOOK, ANSWER], STATES),
    "orchestrated 1": ([LOOK, ANSWER], STATES[1:]),
    "model 1": ([ANSWER], STATES[1:]),
    "orchestrated 2": ([ANSWER], STATES[2:]),
    "action 1": ([ANSWER], STATES[2:]),
    "orchestrated 3": ([ANSWER], STATES[3:]),
    "model 2": ([], STATES[3:]),
}


def crash(folder: Path, point: str, kind: str) -> None:
    done = forked(Path(__file__).with_name("orchestrated_crashes.py"), folder, point, kind)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("point", sampled(it for it in POINTS if it != "orchestrated 2"))
def test_a_lambda_is_asked_only_what_is_not_known(point: str, tmp_path: Path) -> None:
    crash(tmp_path, point, "lambda")
    asked = tmp_path / "asked.txt"
    before = asked.read_text().split() if asked.exists() else []
    script, states = POINTS[point]
    again = model(*script)
    reply = staff(tmp_path, "lambda", again).invoke(session_id="s-1")
    assert reply.text == ANSWER
    assert len(again.requests) == len(script)
    assert (tmp_path / "effects.txt").read_text() == "7\n"
    assert asked.read_text().split()[len(before) :] == states
    assert told(reply)[-1] == "observation FINISH"


@pytest.mark.parametrize("point", ["turn 1", "orchestrated 1", "action 1"])
def test_a_python_loop_is_run_again_from_the_journal(point: str, tmp_path: Path) -> None:
    crash(tmp_path, point, "python")
    script, _ = POINTS[point]
    again = model(*script)
    reply = staff(tmp_path, "python", again).invoke(session_id="s-1")
    assert reply.text == ANSWER
    assert len(again.requests) == len(script)
    assert (tmp_path / "effects.txt").read_text() == "7\n"
    assert told(reply)[0] == "custom begin"


def test_another_orchestration_does_not_go_on_with_the_turn(tmp_path: Path) -> None:
    crash(tmp_path, "action 1", "lambda")
    with pytest.raises(SessionConflict, match="another version of this agent"):
        staff(tmp_path, "python", model(ANSWER)).invoke(session_id="s-1")
    # The one that began it still can.
    assert staff(tmp_path, "lambda", model(ANSWER)).invoke(session_id="s-1").text == ANSWER


def test_the_trace_of_a_kept_turn_is_read_without_asking_anything(tmp_path: Path) -> None:
    first = staff(tmp_path, "lambda", model(LOOK, ANSWER))
    reply = first.invoke("How many days?", session_id="s-1")
    again = staff(tmp_path, "lambda", model())
    (turn,) = again.turns("s-1")
    assert turn.trace == reply.trace
    assert (tmp_path / "asked.txt").read_text().split() == STATES
