"""A worker that is killed in an action: `python undecided_worker.py URL SESSIONS LOG`."""

import os
import signal
import sys

from durable_support import CLAUDE, answer, call

from orchestrator import Agent
from orchestrator.actions import ActionGroup, ActionResult, action
from orchestrator.agent.durable import Worker
from orchestrator.models.base import ModelReply
from orchestrator.sessions import Sessions
from orchestrator.testing import ScriptedModel


class PayingModel(ScriptedModel):
    """Pays, then says so."""

    def complete(self, request):
        has_result = "toolResult" in str(request.messages[-1]["content"])
        if has_result:
            return ModelReply([{"text": answer("Paid.")}], "end_turn")
        return ModelReply(call("pay"), "tool_use")


class Bank:
    """Pays, and logs the key; or is killed before."""

    def __init__(self, log, dies):
        self._log, self._dies = log, dies

    def call(self, call, context):
        if self._dies:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self._log, "a") as file:
            file.write(f"{call.key}\n")
        return ActionResult("paid")


@action
def pay() -> str:
    """Pays."""
    raise AssertionError("the executor does it")


def make_agent(sessions, log, dies=False):
    return Agent(
        "shop",
        "You pay for people what they ask for.",
        PayingModel([], CLAUDE),
        action_groups=[ActionGroup("shop", [pay], Bank(log, dies))],
        sessions=Sessions.of(sessions),
    )


if __name__ == "__main__":
    url, sessions, log = sys.argv[1:]
    with Worker(url, [make_agent(sessions, log, dies=True)], lease=1.0):
        sys.stdin.read()
