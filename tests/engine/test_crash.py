"""A process is killed in the middle of a turn: what the next one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crashes import ANSWER, CALL, bank
from forking import forked
from whole_agents import NATIVE, answer, texts_of

from orchestrator import Agent, SessionConflict, ValidationError
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.testing import ScriptedModel

QUESTION = "Pay Ann."


SCRIPT = Path(__file__).with_name("crashes.py")


def command(folder: Path, point: str) -> list[str]:
    return [sys.executable, str(SCRIPT), str(folder), point, QUESTION]


def crash(folder: Path, point: str, *options: str, question: str = QUESTION) -> None:
    done = forked(SCRIPT, folder, point, question, *options)
    assert done.returncode == -signal.SIGKILL, done.stderr


def resumed(folder: Path, *script: Any, idempotent: bool = False) -> tuple[Agent, ScriptedModel]:
    model = NATIVE.model(list(script))
    return bank(folder, model, idempotent=idempotent), model


def effects(folder: Path) -> list[str]:
    file = folder / "effects.txt"
    return file.read_text().splitlines() if file.exists() else []


def journal(agent: Agent) -> list[str]:
    (info,) = agent.sessions.store.list()
    return [record["kind"] for record in agent.sessions.store.load(info.key)]


# What the next process still has to ask the model, by the point of the crash.
ONCE = {
    "after turn": [CALL, ANSWER],
    "in model call 1": [CALL, ANSWER],
    "before intent": [CALL, ANSWER],
    "after action": [ANSWER],
    "in model call 2": [ANSWER],
    "before end": [ANSWER],
}


@pytest.mark.parametrize(
    ("point", "question"),
    [*[(point, "") for point in ONCE], ("after turn", QUESTION), ("in model call 2", QUESTION)],
)
def test_the_turn_goes_on_and_the_action_is_carried_out_once(
    point: str, question: str, tmp_path: Path
) -> None:
    crash(tmp_path, point)
    agent, model = resumed(tmp_path, *ONCE[point])
    reply = agent.invoke(question, session_id="s-1")
    assert reply.text == "Paid."
    assert len(effects(tmp_path)) == 1
    assert len(model.requests) == len(ONCE[point])
    assert "paid ann" in texts_of(model.requests[-1])
    kinds = [kind for kind in journal(agent) if kind != "claim"]
    assert kinds == ["turn", "model", "intent", "action", "model", "end"]
    assert [part["trace"] for part in reply.trace]


@pytest.mark.parametrize(
    ("point", "took_effect"), [("after intent", 0), ("before effect", 0), ("after effect", 1)]
)
def test_an_unknown_outcome_is_reported_and_never_tried_again(
    point: str, took_effect: int, tmp_path: Path
) -> None:
    crash(tmp_path, point)
    agent, model = resumed(tmp_path, answer("I do not know."))
    with pytest.raises(ActionOutcomeUnknown) as unknown:
        agent.invoke(session_id="s-1")
    assert unknown.value.resource == "bank::pay"
    reply = unknown.value.reply
    assert reply is not None and reply.stop_reason == "undecided"
    assert len(effects(tmp_path)) == took_effect
    assert model.requests == []
    assert journal(agent) == ["turn", "model", "intent", "claim", "suspend"]
    with pytest.raises(ActionOutcomeUnknown) as unknown:
        agent.decide("s-1", give_up=["bank::pay"])
    reply = unknown.value.reply
    assert reply is not None
    assert reply.trace[-1]["trace"]["failureTrace"]["failureReason"] == unknown.value.message
    assert model.requests == []
    assert journal(agent)[4:] == ["suspend", "decided", "action", "end"]
    # The model knows of it when the next question comes.
    assert agent.invoke("Did you pay?", session_id="s-1").text == "I do not know."
    assert any(
        "whether it took effect is not known" in text for text in texts_of(model.requests[0])
    )
    assert len(effects(tmp_path)) == took_effect


@pytest.mark.parametrize(
    ("point", "times"), [("after intent", 1), ("before effect", 1), ("after effect", 2)]
)
def test_an_idempotent_operation_is_carried_out_again_with_the_same_key(
    point: str, times: int, tmp_path: Path
) -> None:
    crash(tmp_path, point, "idempotent")
    agent, model = resumed(tmp_path, ANSWER, idempotent=True)
    assert agent.invoke(session_id="s-1").text == "Paid."
    assert len(effects(tmp_path)) == times
    assert len(set(effects(tmp_path))) == 1
    assert len(model.requests) == 1


def test_of_two_calls_the_one_with_an_outcome_is_known(tmp_path: Path) -> None:
    crash(tmp_path, "after action", "two calls")
    agent, model = resumed(tmp_path, answer("I do not know."))
    with pytest.raises(ActionOutcomeUnknown):
        agent.invoke(session_id="s-1")
    assert len(effects(tmp_path)) == 1
    (undecided,) = agent.find_undecided("s-1")
    with pytest.raises(ActionOutcomeUnknown):
        agent.decide("s-1", give_up=[call.key for call in undecided.calls])
    agent.invoke("What did you do?", session_id="s-1")
    (told,) = [
        message
        for message in model.requests[0].messages
        if any("toolResult" in block for block in message["content"])
    ]
    results = [block["toolResult"]["content"][0]["text"] for block in told["content"]]
    assert results[0] == "paid ann"
    assert results[1].endswith("whether it took effect is not known.")


def test_a_turn_that_ended_is_not_run_again(tmp_path: Path) -> None:
    crash(tmp_path, "after end")
    agent, model = resumed(tmp_path, answer("I paid Ann."))
    with pytest.raises(ValidationError, match="the question is empty"):
        agent.invoke(session_id="s-1")
    assert agent.invoke("What did you do?", session_id="s-1").text == "I paid Ann."
    assert len(effects(tmp_path)) == 1
    told = texts_of(model.requests[0])
    assert "paid ann" in told and "<answer>Paid.</answer>" in told[-2]


@pytest.mark.parametrize("point", ["in model call 1", "after effect", "after action"])
def test_another_question_gives_the_turn_up(point: str, tmp_path: Path) -> None:
    crash(tmp_path, point)
    before = effects(tmp_path)
    agent, model = resumed(tmp_path, answer("Hello."))
    assert agent.invoke("Hello?", session_id="s-1").text == "Hello."
    assert effects(tmp_path) == before
    assert len(model.requests) == 1
    # The model is told what was done, or may have been.
    told = {
        "in model call 1": "",
        "after effect": "The turn was stopped",
        "after action": "paid ann",
    }
    shown = [text for text in texts_of(model.requests[0]) if text.startswith(told[point])]
    assert shown


@pytest.mark.exhaustive
def test_a_process_that_goes_on_may_be_killed_as_well(tmp_path: Path) -> None:
    crash(tmp_path, "in model call 2")
    crash(tmp_path, "in model call 1", "goes on")
    crash(tmp_path, "after claim", "goes on")
    agent, model = resumed(tmp_path, ANSWER)
    assert agent.invoke(QUESTION, session_id="s-1").text == "Paid."
    assert len(effects(tmp_path)) == 1
    assert len(model.requests) == 1


def test_the_prompt_after_a_crash_is_the_prompt_of_a_turn_without_one(tmp_path: Path) -> None:
    crash(tmp_path, "in model call 2")
    agent, model = resumed(tmp_path, ANSWER, answer("Yes."))
    agent.invoke(QUESTION, session_id="s-1")
    agent.invoke("Sure?", session_id="s-1")
    (tmp_path / "calm").mkdir()
    calm, calm_model = resumed(tmp_path / "calm", CALL, ANSWER, answer("Yes."))
    calm.invoke(QUESTION, session_id="s-1")
    calm.invoke("Sure?", session_id="s-1")

    def plain(request: Any) -> list[Any]:
        # Tool-use ids are the model's, and each process scripted its own.
        return [texts_of(request), [message["role"] for message in request.messages]]

    assert [plain(one) for one in model.requests] == [plain(one) for one in calm_model.requests[1:]]


def test_a_turn_of_a_living_process_is_a_conflict(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(tmp_path, "never dies"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        agent, model = resumed(tmp_path, answer("Hello."))
        for attempt in (
            lambda: agent.invoke(QUESTION, session_id="s-1"),
            lambda: agent.invoke("Hello?", session_id="s-1"),
            lambda: agent.invoke(session_id="s-1"),
            lambda: agent.end_session("s-1"),
        ):
            with pytest.raises(SessionConflict, match="busy in another process"):
                attempt()
        assert model.requests == []
        child.stdin.write("\n\n")
        child.stdin.flush()
        assert child.stdout.read() == "ready\nPaid.\n"
    assert agent.invoke("Hello?", session_id="s-1").text == "Hello."
    assert len(effects(tmp_path)) == 1


def test_a_dead_process_holds_no_session_even_before_its_parent_knows(tmp_path: Path) -> None:
    child = subprocess.Popen(command(tmp_path, "in model call 2"))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        agent, _ = resumed(tmp_path, ANSWER)
        assert agent.invoke(QUESTION, session_id="s-1").text == "Paid."
    finally:
        child.wait()
    assert len(effects(tmp_path)) == 1


def test_a_turn_of_another_host_is_free_when_its_lease_ends(tmp_path: Path) -> None:
    from orchestrator import Sessions
    from orchestrator.testing import FakeClock

    crash(tmp_path, "in model call 2")
    agent, _ = resumed(tmp_path, ANSWER)
    store = agent.sessions.store
    (info,) = store.list()
    holder = store.load(info.key)[0]
    moved = {"kind": "claim", "owner": "another.example:1:1", "until": holder["until"]}
    store.append(info.key, info.records, [moved])
    clock = FakeClock(holder["until"] - 1)
    agent.sessions = Sessions(store, clock=clock)
    with pytest.raises(SessionConflict):
        agent.invoke(QUESTION, session_id="s-1")
    clock.advance(1)
    assert agent.invoke(QUESTION, session_id="s-1").text == "Paid."
    assert len(effects(tmp_path)) == 1
