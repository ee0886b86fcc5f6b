"""A process that is killed while a remote collaborator works: it is not asked a second time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whole_agents import NATIVE, agent, answer

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


def build_boss(store: Path, remote: Remote, *script: Any) -> Agent:
    payer = Collaborator(remote, "Pays.", "payer")
    model = script[0] if isinstance(script[0], ScriptedModel) else NATIVE.model(list(script))
    return agent(model, collaborators=[payer], sessions=SQLiteStore(store))


def leave_turn(store: Path, point: str) -> None:
    """Asks in another process, which is killed in the remote agent's work, or after it."""
    command = [sys.executable, __file__, str(store), point]
    path = os.pathsep.join([*sys.path, str(Path(__file__).parents[3])])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=120)
    assert done.returncode == -signal.SIGKILL


def test_it_is_not_asked_again(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    leave_turn(store, "in")
    remote = Remote()
    boss = build_boss(store, remote, answer("I do not know."))
    (turn,) = boss.recover()
    assert turn.outcome == "unknown" and "nobody knows what the collaborator 'payer' did" in str(
        turn.error
    )
    assert isinstance(turn.error, ActionOutcomeUnknown)
    assert boss.invoke("Did you pay?", "s-1").text == "I do not know."
    assert remote.asked == []


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
