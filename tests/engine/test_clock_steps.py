"""A system's clock that is set to another time in the middle of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from whole_agents import NATIVE, Calls, agent, answer

from orchestrator import Agent, Collaborator, Limits, Sessions
from orchestrator.errors import LimitExceeded
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

HOUR = 3_600_000_000_000
LOOK = ("vacations::get_days", {"employee": "7"})


class System:
    """What `time` has; each look at a clock takes a millisecond."""

    def __init__(self) -> None:
        self.gone_on, self.set_to = 0, 1_700_000_000_000_000_000

    def monotonic_ns(self) -> int:
        self.gone_on += 1_000_000
        return self.gone_on

    def time_ns(self) -> int:
        return self.set_to + self.monotonic_ns()


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    made.time_ns = made.time_ns  # type: ignore[method-assign]  # one object, as of a module
    monkeypatch.setattr("orchestrator.sessions.sessions.time", made)
    return made


class Setting(ScriptedModel):
    """Does something to the clock whenever it is asked."""

    def __init__(self, do: Callable[[], None], *script: Any) -> None:
        super().__init__(script, NATIVE.model_id)
        self.do = do

    def complete(self, request: ModelRequest) -> ModelReply:
        self.do()
        return super().complete(request)


def subject(system: System, do: Callable[[], None]) -> Agent:
    sessions, limits = Sessions(clock=system.time_ns), Limits(seconds=60)
    model = Setting(do, NATIVE.calls(LOOK), answer("Twelve."))
    return agent(model, Calls().groups(), sessions=sessions, limits=limits)


def invoke(hr: Agent) -> Any:
    return hr.invoke("How many days?", "s-1")


def ainvoke(hr: Agent) -> Any:
    return asyncio.run(hr.ainvoke("How many days?", "s-1"))


def stream(hr: Agent) -> Any:
    return list(hr.stream("How many days?", "s-1"))[-1].reply  # type: ignore[union-attr]


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke, stream])


def find_durations(value: Any) -> Iterator[int]:
    """Everything in a trace that is called a time in milliseconds."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name in ("totalTimeMs", "operationTotalTimeMs"):
                yield one
            yield from find_durations(one)
    elif isinstance(value, list):
        for one in value:
            yield from find_durations(one)


@EACH_WAY
@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_turn_takes_as_long_as_it_takes(system: System, run: Any, step: int) -> None:
    def set_clock() -> None:
        system.set_to += step

    hr = subject(system, set_clock)
    reply = run(hr)
    assert reply.text == "Twelve."
    durations = list(find_durations(reply.trace))
    assert len(durations) >= 3
    assert all(0 <= one < 1000 for one in durations)
    (info,) = hr.sessions.store.list()
    records = hr.sessions.store.load(info.key)
    times = [record[name] for record in records for name in ("began", "ended") if name in record]
    assert times == sorted(times)
    # The session is idle from the end on, by the clock as it is set now.
    assert abs(records[-1]["at"] - system.time_ns()) < HOUR // 2


@EACH_WAY
def test_a_collaborator_has_the_clock_of_its_turn(system: System, run: Any) -> None:
    def set_clock() -> None:
        system.set_to += HOUR

    desk = agent(NATIVE.model([answer("Twelve.")]), limits=Limits(seconds=600))
    sends = ("AgentCommunication::sendMessage", {"recipient": "desk", "content": "Days?"})
    model = Setting(set_clock, NATIVE.calls(sends), answer("Twelve."))
    team = [Collaborator(desk, "Knows vacations.", "desk")]
    sessions, limits = Sessions(clock=system.time_ns), Limits(seconds=60)
    hr = agent(model, collaborators=team, sessions=sessions, limits=limits)
    assert run(hr).text == "Twelve."


@EACH_WAY
def test_a_time_limit_holds_on_a_clock_that_is_set_back(system: System, run: Any) -> None:
    def hang() -> None:
        system.set_to -= HOUR
        system.gone_on += 100_000_000_000

    with pytest.raises(LimitExceeded) as caught:
        run(subject(system, hang))
    assert caught.value.limit == "seconds"
