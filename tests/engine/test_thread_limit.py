"""Turns in a process that has as many threads as it may have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from whole_agents import NATIVE, agent, answer

from orchestrator import ActionGroup, Agent, DependencyFailed, Limits, Reply
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.support import threads
from orchestrator.support.threads import in_thread

WAIT = 30  # a bound for tests that hang, never a pause


def invoke(agent: Agent, question: str) -> Reply:
    return agent.invoke(question, "s-1")


def ainvoke(agent: Agent, question: str) -> Reply:
    return asyncio.run(agent.ainvoke(question, "s-1"))


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke])
Run = Callable[[Agent, str], Reply]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_places", {})
    monkeypatch.setattr(threads, "MOST_THREADS", 1)


def worker(do: Callable[..., Any]) -> ActionGroup:
    do.__name__ = "do"
    return ActionGroup("work", [do])


@EACH_WAY
def test_an_action_that_finds_no_thread_was_not_begun(run: Run) -> None:
    def do(n: int) -> str:
        raise AssertionError("there is no thread for it")

    free = threading.Event()
    busy = in_thread(lambda: free.wait(WAIT))
    model = NATIVE.model([NATIVE.calls(("work::do", {"n": 1})), answer("Next.")])
    asked = agent(model, [worker(do)], limits=Limits(action_seconds=0.05))
    with pytest.raises(DependencyFailed, match="was not begun: no thread was free") as failed:
        run(asked, "Do it.")
    assert not isinstance(failed.value, ActionOutcomeUnknown)
    free.set()
    busy.result(WAIT)
