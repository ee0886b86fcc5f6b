"""A worker that is killed at random places: `python killed_worker.py URL SESSIONS LOG SEED`.

The seed says after how many of the named points it kills itself; 0 is never.
"""

import os
import random
import signal
import sys

from durable_support import CLAUDE, answer, call

from orchestrator import Agent
from orchestrator.actions import ActionGroup, action
from orchestrator.agent.durable import Worker, steps
from orchestrator.models.base import ModelReply
from orchestrator.sessions import Sessions
from orchestrator.testing import ScriptedModel


class Kill:
    """Kills this process at the point whose number is up."""

    def __init__(self, seed):
        self._left = random.Random(seed).randint(5, 40) if seed else -1

    def __call__(self, point):
        self._left -= 1
        if self._left == 0:
            print(f"killed {point}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


class ShopModel(ScriptedModel):
    """Orders what the user asks for, then says so."""

    kill = staticmethod(lambda point: None)

    def complete(self, request):
        self.kill("before a model")
        has_result = "toolResult" in str(request.messages[-1]["content"])
        number = request.question.split()[-1]
        content = answer(f"Ordered {number}.") if has_result else call("order", number=number)
        content = [{"text": content}] if isinstance(content, str) else content
        self.kill("after a model")
        return ModelReply(content, "end_turn" if has_result else "tool_use")


def make_agent(sessions, log, kill=lambda point: None):
    @action(idempotent=True)
    def order(number: str) -> str:
        """Orders.

        Args:
            number: What.
        """
        kill("before an action")
        with open(log, "a") as file:
            file.write(f"{number}\n")
        kill("after an action")
        return f"{number} is ordered"

    model = ShopModel([], CLAUDE)
    model.kill = kill
    return Agent(
        "shop",
        "You order for people what they ask for.",
        model,
        action_groups=[ActionGroup("shop", actions=[order])],
        sessions=Sessions.of(sessions),
    )


def main(url, sessions, log, seed):
    kill = Kill(int(seed))
    agent = make_agent(sessions, log, kill)
    describe = steps.describe_outcome

    def kill_before_recording(effect, outcome):
        kill("before a step is recorded")
        return describe(effect, outcome)

    steps.describe_outcome = kill_before_recording
    with Worker(url, [agent], concurrency=4, lease=2.0):
        print("works", flush=True)
        sys.stdin.read()  # until whoever started it has what it wants


if __name__ == "__main__":
    main(*sys.argv[1:])
