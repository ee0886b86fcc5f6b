"""The agents that are evaluated, and what one input to them comes to."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.checks import (
    Call,
    asked,
    calls_of,
    is_same_call,
    is_writing,
    puts_to_user,
    rationales,
    results_of,
    waiting_calls,
)
from orchestrator import Agent, ControlReturn, OrchestratorError, Reply
from orchestrator.models import Model, resolve_model

YES, NO = "Yes.", "No."
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def find_agent(name: str, folder: Path) -> Path | None:
    """The folder of the example `name`, else the agent's folder of this name in `folder`."""
    for place in (EXAMPLES / name, folder / name):
        if (place / "agent.yaml").is_file():
            return place
    return None


class Agents:
    """Agents by folder, each loaded once, all with one model. A context that closes them."""

    def __init__(self, model: str | Model) -> None:
        self._model = resolve_model(model)
        self._loaded: dict[Path, Agent] = {}

    def load(self, folder: Path) -> Agent:
        """The agent of a folder."""
        if folder not in self._loaded:
            self._loaded[folder] = Agent.load(folder, model=self._model)
        return self._loaded[folder]

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._loaded.values():
            agent.close()


@contextmanager
def open_scratch() -> Iterator[None]:
    """Gives the examples a new database and reminders file, until the end of the block."""
    names = {"HR_DATABASE": "hr.sqlite", "REMINDERS_FILE": "reminders.jsonl"}
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update({name: os.path.join(scratch, file) for name, file in names.items()})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@dataclass
class Exchange:
    """What an agent did with one input."""

    said: str
    reply: Reply | None = None
    answer: str = ""
    calls: list[Call] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    rationales: list[str] = field(default_factory=list)
    asked: bool = False
    error: str = ""
    seconds: float = 0.0


def exchange(
    agent: Agent, said: str, expected: Sequence[Call], session_id: str, **options: Any
) -> list[Exchange]:
    """Sends one input, and answers once where the agent asks before a call that changes something.

    The user says yes to calls that are expected and were not made, and no to any other.
    """
    first = send(agent, said, session_id, **options)
    left = [
        call
        for call in expected
        if is_writing(call["name"]) and not any(is_same_call(call, one) for one in first.calls)
    ]
    if first.reply is not None and first.reply.return_control is not None:
        return [first, _confirm(agent, first.reply.return_control, left, session_id)]
    if any(puts_to_user(first.answer, call) for call in left):
        return [first, send(agent, YES, session_id, **options)]
    return [first]


def _confirm(
    agent: Agent, control: ControlReturn, wanted: Sequence[Call], session_id: str
) -> Exchange:
    """Confirms what is wanted of the calls that wait for it (`requireConfirmation`)."""
    answers: dict[str, list[bool]] = {}
    for call in waiting_calls(control.invocation_inputs):
        confirmed = any(is_same_call(one, call) for one in wanted)
        answers.setdefault(call["name"].rpartition(" ")[2], []).append(confirmed)
    single = {name: some if len(some) > 1 else some[0] for name, some in answers.items()}
    said = " ".join(YES if one else NO for some in answers.values() for one in some)
    try:
        results = control.answer(single)
    except OrchestratorError as error:
        return Exchange(said, error=f"{type(error).__name__}: {error}")
    answered = send(agent, "", session_id, results=results)
    answered.said = said
    return answered


def send(agent: Agent, said: str, session_id: str, **options: Any) -> Exchange:
    """Sends one input, and reads from the reply's trace what was done; no error is raised."""
    exchange = Exchange(said)
    start = time.monotonic()
    try:
        exchange.reply = agent.invoke(said, session_id=session_id, **options)
    except OrchestratorError as error:
        exchange.error = f"{type(error).__name__}: {error}"
        reply = getattr(error, "reply", None)
        exchange.reply = reply if isinstance(reply, Reply) else None
    exchange.seconds = time.monotonic() - start
    if exchange.reply is not None:
        trace = exchange.reply.trace
        exchange.answer, exchange.asked = exchange.reply.text, asked(trace)
        exchange.calls, exchange.results = calls_of(trace), results_of(trace)
        exchange.rationales = rationales(trace)
    return exchange
