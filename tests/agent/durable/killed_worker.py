"""A worker that is killed at random places: `python killed_worker.py URL SESSIONS LOG SEED`.

The seed says after how many of the named points it kills itself; 0 is never.
"""

import fcntl
import os
import random
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from durable_support import CLAUDE, answer, call

from orchestrator import Agent
from orchestrator.actions import ActionGroup, ActionResult, action
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


class Execution(NamedTuple):
    """A line of the log: one time that an action was carried out."""

    number: str  # what was ordered
    key: str  # the call's idempotency key
    process: str  # who did it
    living: str  # who had done the same before and still lived then; "none" is right


class Shop:
    """Carries orders out, and logs each. Safe for the threads and processes that share the log.

    A process is alive as long as it holds the lock on its file beside the log. The system frees
    that before anybody else can see that the process was killed.
    """

    def __init__(self, log, kill):
        self._log, self._kill = Path(log), kill
        self._process = f"{os.getpid()}-{os.urandom(4).hex()}"

    def open(self):
        """Takes the lock of this process, as long as it lives."""
        self._lock = self._open_lock(self._process, "x")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def call(self, call, context):
        earlier = {it.process for it in read_log(self._log) if it.key == call.key}
        living = ",".join(it for it in sorted(earlier) if self._lives(it)) or "none"
        self._kill("before an action")
        number = call.arguments["number"]
        with self._log.open("a") as file:
            file.write(f"{number} {call.key} {self._process} {living}\n")
        self._kill("after an action")
        return ActionResult(f"{number} is ordered")

    def _lives(self, process):
        with self._open_lock(process, "r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # others may ask as well
            except BlockingIOError:
                return True
        return False

    def _open_lock(self, process, mode):
        return self._log.with_name(f"lock-{process}").open(mode)


def read_log(log):
    return [Execution(*line.split()) for line in Path(log).read_text().splitlines()]


@action(idempotent=True)
def order(number: str) -> str:
    """Orders.

    Args:
        number: What.
    """
    raise AssertionError("the executor does it")


def make_agent(sessions, shop, kill=lambda point: None):
    model = ShopModel([], CLAUDE)
    model.kill = kill
    return Agent(
        "shop",
        "You order for people what they ask for.",
        model,
        action_groups=[ActionGroup("shop", [order], shop)],
        sessions=Sessions.of(sessions),
    )


def main(url, sessions, log, seed):
    kill = Kill(int(seed))
    shop = Shop(log, kill)
    shop.open()
    agent = make_agent(sessions, shop, kill)
    describe = steps.describe_outcome

    def kill_before_recording(effect, outcome):
        kill("before a step is recorded")
        return describe(effect, outcome)

    steps.describe_outcome = kill_before_recording
    with Worker(url, [agent], concurrency=4, lease=12.0):
        print("works", flush=True)
        sys.stdin.read()  # until whoever started it has what it wants


if __name__ == "__main__":
    main(*sys.argv[1:])
