"""A remote collaborator whose answer is lost: somebody decides what became of it.

The process was killed while it worked, or the connection to it broke.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore_shapes import problems
from forking import forked
from whole_agents import NATIVE, agent, answer, texts_of

from orchestrator import Agent, Collaborator, SQLiteStore
from orchestrator.agent.bedrock_agent import BedrockAgent
from orchestrator.engine.plan import RemoteReply
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

ARN = "arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID"
SEND = NATIVE.calls(
    ("AgentCommunication::sendMessage", {"recipient": "payer", "content": "Pay Ann."})
)


class Remote(BedrockAgent):
    """A remote agent that notes what it was asked, and then does something else."""

    def __init__(self, work: Callable[[], Any] = lambda: None) -> None:
        super().__init__(ARN)
        self.asked: list[str] = []
        self._work = work

    def invoke(self, message: str, *others: Any) -> RemoteReply:
        """See `RemoteAgent.invoke`."""
        self.asked.append(message)
        self._work()
        return RemoteReply("Paid.")


class Dying(ScriptedModel):
    """A model whose process is killed when its script ends."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """See `Model.complete`."""
        if self.requests:
            _die()
        return super().complete(request)


def build_boss(store: Path | None, remote: Remote, *script: Any, **options: Any) -> Agent:
    payer = Collaborator(remote, "Pays.", "payer")
    members = [payer, *options.pop("beside", ())]
    model = script[0] if isinstance(script[0], ScriptedModel) else NATIVE.model(list(script))
    sessions = store and SQLiteStore(store)
    return agent(model, collaborators=members, sessions=sessions, **options)


def leave_turn(store: Path, point: str) -> None:
    """Asks in another process, which is killed in the remote agent's work, or after it."""
    done = forked(Path(__file__), store, point)
    assert done.returncode == -signal.SIGKILL, done.stderr


def read_prompt(boss: Agent) -> str:
    model: Any = boss.plan.stages["ORCHESTRATION"].model
    return str(texts_of(model.requests[-1]))


def test_it_is_not_asked_again_before_somebody_decides(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "in")
    remote = Remote()
    boss = build_boss(store, remote, answer("It is paid."))
    (turn,) = boss.recover()
    assert turn.outcome == "undecided"
    (undecided,) = boss.find_undecided()
    assert undecided == turn.open_decision
    (call,) = undecided.calls
    assert call.name == "payer" and call.key.startswith(undecided.turn_id)
    assert call.input == {
        "functionInvocationInput": {
            "actionGroup": "AgentCommunication",
            "function": "sendMessage",
            "parameters": [
                {"name": "recipient", "type": "string", "value": "payer"},
                {"name": "content", "type": "string", "value": "Pay Ann."},
            ],
            "actionInvocationType": "USER_CONFIRMATION_AND_RESULT",
            "agentId": boss.plan.agent_id,
        }
    }
    with pytest.raises(ActionOutcomeUnknown, match=call.key):
        boss.invoke("Hello?", "s-1")
    (past,) = boss.turns("s-1")
    assert past.stop_reason == "undecided" and "Pay Ann." in str(past.trace)
    assert [problems(part) for part in past.trace] == [[]] * len(past.trace)
    assert remote.asked == []


@pytest.mark.parametrize(
    ("decision", "asked", "read"),
    [
        ({"happened": {"payer": "Ann has it."}}, [], "Ann has it."),
        ({"repeat": ["payer"]}, ["Pay Ann."], "Paid."),
    ],
    ids=["happened", "repeat"],
)
def test_the_decision_is_carried_out(
    tmp_path: Path, decision: Any, asked: list[str], read: str
) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "in")
    remote = Remote()
    boss = build_boss(store, remote, answer("It is paid."))
    boss.recover()
    results = boss.find_undecided()[0].answer(**decision)
    for _ in range(2):
        assert boss.invoke("", "s-1", results=results).text == "It is paid."
    assert remote.asked == asked and read in read_prompt(boss)
    (turn,) = boss.turns("s-1")
    assert turn.stop_reason == "end_turn" and read in str(turn.trace)
    assert [problems(part) for part in turn.trace] == [[]] * len(turn.trace)
    kinds = [step.kind for step in turn.steps()]
    assert kinds == ["model", "return_control", "decision", "agent", "model"]
    assert boss.find_undecided() == [] == boss.recover()


def test_a_message_is_given_up(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "in")
    remote = Remote()
    boss = build_boss(store, remote, answer("I do not know."))
    boss.recover()
    with pytest.raises(ActionOutcomeUnknown, match="nobody knows what the collaborator 'payer'"):
        boss.decide("s-1", give_up=["payer"])
    assert boss.invoke("Did you pay?", "s-1").text == "I do not know."
    assert remote.asked == []


def test_an_agent_may_end_such_turns_instead(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "in")
    remote = Remote()
    boss = build_boss(store, remote, answer("I do not know."), unknown_outcomes="end")
    (turn,) = boss.recover()
    assert turn.outcome == "unknown" and "nobody knows what the collaborator 'payer' did" in str(
        turn.error
    )
    assert isinstance(turn.error, ActionOutcomeUnknown)
    assert boss.invoke("Did you pay?", "s-1").text == "I do not know."
    assert remote.asked == []


class Breaking(Remote):
    """A remote agent whose answers are lost, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(self._break)
        self._left = times

    def _break(self) -> None:
        self._left -= 1
        if self._left >= 0:
            raise ActionOutcomeUnknown("its answer did not arrive", resource=ARN)


@pytest.mark.parametrize("durable", [True, False], ids=["sqlite", "memory"])
@pytest.mark.parametrize("awaits", [True, False], ids=["event loop", "threads"])
def test_a_connection_that_breaks(tmp_path: Path, durable: bool, awaits: bool) -> None:
    remote = Breaking(2)
    store = tmp_path / "s.sqlite" if durable else None
    boss = build_boss(store, remote, SEND, answer("It is paid."))

    def ask(*given: Any, **options: Any) -> Any:
        if awaits:
            return asyncio.run(boss.ainvoke(*given, **options))
        return boss.invoke(*given, **options)

    with pytest.raises(ActionOutcomeUnknown) as lost:
        ask("Pay it", "s-1")
    first = lost.value.undecided
    assert first is not None and first == boss.find_undecided("s-1")[0]
    with pytest.raises(ActionOutcomeUnknown) as lost:
        ask("", "s-1", results=first.answer(repeat=["payer"]))
    second = lost.value.undecided
    assert second is not None and second.calls == first.calls
    assert second.invocation_id != first.invocation_id
    assert ask("", "s-1", results=second.answer(repeat=["payer"])).text == "It is paid."
    assert remote.asked == ["Pay Ann."] * 3 and boss.find_undecided() == []


def test_a_connection_that_breaks_may_end_the_turn(tmp_path: Path) -> None:
    remote = Breaking(1)
    store = tmp_path / "s.sqlite"
    boss = build_boss(store, remote, SEND, answer("I do not know."), unknown_outcomes="end")
    with pytest.raises(ActionOutcomeUnknown, match="its answer did not arrive") as lost:
        boss.invoke("Pay it", "s-1")
    assert lost.value.undecided is None and boss.find_undecided() == []
    assert boss.invoke("Did you pay?", "s-1").text == "I do not know."


def test_others_end_their_work_first(tmp_path: Path) -> None:
    """And are not asked again when the decision has come."""
    both = NATIVE.calls(
        ("AgentCommunication::sendMessage", {"recipient": "payer", "content": "Pay Ann."}),
        ("AgentCommunication::sendMessage", {"recipient": "clerk", "content": "Write it down."}),
        ("AgentCommunication::sendMessage", {"recipient": "payer", "content": "Pay Bob."}),
    )
    clerk = Agent("clerk", "You write.", NATIVE.model([answer("Written.")]))
    remote = Breaking(2)
    beside = [Collaborator(clerk, "Writes.")]
    boss = build_boss(tmp_path / "s.sqlite", remote, both, answer("Done."), beside=beside)
    with pytest.raises(ActionOutcomeUnknown) as lost:
        boss.invoke("Pay them", "s-1")
    undecided = lost.value.undecided
    assert undecided is not None and len(undecided.calls) == 2
    ann, bob = sorted(
        undecided.calls, key=lambda it: str(it.input["functionInvocationInput"]["parameters"])
    )
    assert boss.decide("s-1", happened={ann.key: "Ann has it."}, repeat=[bob.key]).text == "Done."
    assert sorted(remote.asked) == ["Pay Ann.", "Pay Bob.", "Pay Bob."]
    assert all(it in read_prompt(boss) for it in ("Ann has it.", "Written.", "Paid."))


def test_one_that_a_collaborator_has_asked(tmp_path: Path) -> None:
    remote = Breaking(1)
    lead = build_boss(None, remote, SEND, answer("It is paid."))
    ask_lead = NATIVE.calls(
        ("AgentCommunication::sendMessage", {"recipient": "lead", "content": "Have it paid."})
    )
    boss = Agent(
        "boss",
        "You lead.",
        NATIVE.model([ask_lead, answer("Done.")]),
        collaborators=[Collaborator(lead, "Leads.", "lead")],
        sessions=SQLiteStore(tmp_path / "s.sqlite"),
    )
    with pytest.raises(ActionOutcomeUnknown):
        boss.invoke("Pay it", "s-1")
    (undecided,) = boss.find_undecided()
    (call,) = undecided.calls
    given = call.input["functionInvocationInput"]
    assert (call.name, given["collaboratorName"]) == ("lead/payer", "lead")
    assert boss.decide("s-1", happened={call.key: "Ann has it."}).text == "Done."
    assert remote.asked == ["Pay Ann."] and "Ann has it." in read_prompt(lead)


def test_another_question_gives_it_up(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "in")
    remote = Remote()
    boss = build_boss(store, remote, answer("Hello!"))
    assert boss.invoke("Hello?", "s-1").text == "Hello!"
    (first, _) = boss.turns("s-1")
    assert (first.stop_reason, remote.asked) == ("cancelled", [])


def test_an_answer_that_was_written_down_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "after")
    remote = Remote()
    boss = build_boss(store, remote, answer("It is paid."))
    (turn,) = boss.recover()
    assert turn.reply is not None and turn.reply.text == "It is paid."
    assert remote.asked == []


def test_a_whole_turn_asks_once(tmp_path: Path) -> None:
    remote = Remote()
    boss = build_boss(tmp_path / "s.sqlite", remote, SEND, answer("Done."))
    assert boss.invoke("Pay it", "s-1").text == "Done."
    assert remote.asked == ["Pay Ann."]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    place, where = sys.argv[1:]
    if where == "in":
        build_boss(Path(place), Remote(_die), SEND).invoke("Pay it", "s-1")
    else:  # the model is asked again after it
        build_boss(Path(place), Remote(), Dying([SEND], NATIVE.model_id)).invoke("Pay it", "s-1")
