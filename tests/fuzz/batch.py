"""A batch: inputs of one property from one seed, each in bounded time; a failure is minimised."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy

INPUTS = 100
"""Inputs of a batch."""

SECONDS = 20.0
"""What checking one input may compute; it may wait six times as long, on a busy machine too."""


class Property(NamedTuple):
    """What must hold for each input: `check` raises when it does not."""

    name: str
    inputs: SearchStrategy[Any]
    check: Callable[[Any], None]


Target = Callable[[], AbstractContextManager[list[Property]]]
"""Opens its properties, and whatever they need, for one batch."""


class TooSlow(Exception):
    """An input took longer than `SECONDS`."""


@dataclass
class Failure:
    """An input for which a property does not hold."""

    target: str
    property: str
    seed: int
    inputs: int
    smallest: str
    error: str
    place: str
    """Where it was raised: failures of one place are taken for one."""

    def __str__(self) -> str:
        again = command(self.target, self.property, self.seed, self.inputs)
        return (
            f"FAILURE of {self.target}, property {self.property}, seed {self.seed}\n"
            f"  minimised input: {self.smallest}\n  again:           {again}\n"
            + "".join(f"  | {line}\n" for line in self.error.splitlines())
        )


def command(target: str, name: str, number: int, inputs: int) -> str:
    """What runs a batch again, typed where this program was started."""
    return (
        f"{os.path.relpath(sys.executable)} -m tests.fuzz --target {target} --property {name} "
        f"--seed {number} --inputs {inputs}"
    )


class Checked:
    """A property's check, which counts its inputs and bounds the time of each.

    Attributes:
        count: How many inputs were checked.
        last: The last one; after a batch that failed, hypothesis has left the smallest here.
    """

    def __init__(self, check: Callable[[Any], None]) -> None:
        self._check = check
        self.count = 0
        self.last: Any = None

    def __call__(self, value: Any) -> None:
        self.count += 1
        self.last = value
        with _alarm():
            self._check(value)


@contextmanager
def _alarm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    rang = False
    message = f"it computed for more than {SECONDS:g} seconds, or took six times as long"
    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, SECONDS),
        (signal.ITIMER_REAL, signal.SIGALRM, 6 * SECONDS),
    )

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal rang
        rang = True
        raise TooSlow(message)

    before = [signal.signal(number, ring) for _, number, _ in timers]
    for timer, _, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
    if rang:  # and what was checked took the alarm for an error of its own
        raise TooSlow(message)


def run_batch(
    target: str, one: Property, number: int, inputs: int, *, shrink: bool = True
) -> tuple[int, Failure | None]:
    """How many inputs were checked, and the smallest that fails."""
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    checked = Checked(one.check)

    @seed(number)
    @settings(
        max_examples=inputs,
        phases=phases,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(one.inputs)
    def hold(value: Any) -> None:
        checked(value)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)  # of inputs that are long to print
            hold()
    except Exception as error:
        return checked.count, _failure(target, one.name, number, inputs, checked.last, error)
    return checked.count, None


def _failure(
    target: str, name: str, number: int, inputs: int, smallest: Any, error: Exception
) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    frame = frames[-1]
    error.__notes__ = []  # where hypothesis repeats the input
    text = _shortened("".join(traceback.format_exception(error, limit=-6)))
    place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
    return Failure(target, name, number, inputs, _shortened(repr(smallest)), text, place)


def _shortened(text: str, most: int = 4000) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"
