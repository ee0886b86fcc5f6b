"""A worker that is killed in an action: `python undecided_worker.py KIND URL SESSIONS LOG`.

The kind is `agent`, or `flow` for the run of a script.
"""

import os
import signal
import sys

from durable_support import CLAUDE, answer, call

from orchestrator import Agent, Flow
from orchestrator.actions import ActionGroup, ActionResult, action
from orchestrator.agent.durable import DurableFlow, Worker
from orchestrator.message import text_of
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


class Echo(ScriptedModel):
    """Says what it was asked."""

    def complete(self, request):
        return ModelReply([{"text": text_of(request.messages[-1]["content"])}], "end_turn")


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


def make_flow(sessions, log, model=None, dies=False):
    return DurableFlow(
        Flow.from_text(
            "Whom to pay? -> who\n@pay() -> paid\nSay that $who was $paid. -> text", "pl"
        ),
        "bill",
        model=model or Echo([], CLAUDE),
        action_groups=[ActionGroup("bank", [pay], Bank(log, dies))],
        sessions=sessions,
    )


if __name__ == "__main__":
    kind, url, sessions, log = sys.argv[1:]
    agents, flows = [], []
    if kind == "flow":
        flows = [make_flow(sessions, log, ScriptedModel(["Ann"], CLAUDE), dies=True)]
    else:
        agents = [make_agent(sessions, log, dies=True)]
    with Worker(url, agents, flows=flows, lease=1.0):
        sys.stdin.read()
