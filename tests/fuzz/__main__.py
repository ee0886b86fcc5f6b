"""`python -m tests.fuzz`: two processes go through all targets for as long as they are told.

Each target has an equal share of the time. Everything follows from the seed, which is printed
first. A failure is printed with its seed, its smallest input and the command that repeats it; then
the exit code is 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from .batch import INPUTS, Failure, command, run_batch
from .targets import TARGETS

PROCESSES = 2
MEMORY = 6 * 2**30
# A batch that takes longer hangs in a way that no alarm ends: the process says where, and ends.
HANGS = 1200


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--target", action="append", choices=list(TARGETS), dest="targets")
    parser.add_argument("--property", help="one property only, for one batch of this very seed")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="inputs of a batch")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(2**32)
    given.targets = given.targets or list(TARGETS)
    if given.property:
        return _repeat(given)
    if given.process is not None:
        _work(given)
        return 0
    return _run_all(given)


def _repeat(given: argparse.Namespace) -> int:
    with TARGETS[given.targets[0]]() as properties:
        one = next(it for it in properties if it.name == given.property)
        count, failure = run_batch(given.targets[0], one, given.seed, given.inputs)
    print(failure or f"{count} inputs, and none fails")
    return 1 if failure else 0


# One process


def _work(given: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.addaudithook(_only_loopback)
    targets = given.targets[given.process :] + given.targets[: given.process]
    share = given.minutes * 60 / len(targets)
    for target in targets:
        end = time.monotonic() + share
        seeds = random.Random(f"{given.seed} {given.process} {target}")
        for turn in itertools.count():
            if time.monotonic() >= end:
                break
            _run_one(target, turn, seeds.randrange(2**32), given.inputs)


def _only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """No input makes this program ask another machine."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        if arguments[1][0] not in ("127.0.0.1", "::1", "localhost"):
            raise PermissionError("only loopback is allowed")
    elif event == "socket.getaddrinfo" and arguments[0] not in (None, "127.0.0.1", "localhost"):
        raise PermissionError("only loopback is allowed")


_seen: set[str] = set()


def _run_one(target: str, turn: int, seed: int, inputs: int) -> None:
    faulthandler.dump_traceback_later(HANGS, exit=True)
    began = time.monotonic()
    with TARGETS[target]() as properties:
        one = properties[turn % len(properties)]
        _tell(begun=[target, one.name, seed])
        # What has failed once at a place is not minimised again.
        count, failure = run_batch(target, one, seed, inputs, shrink=one.name not in _seen)
    if failure is not None:
        _seen.add(one.name)
        _tell(failure=asdict(failure))
    _tell(count=[target, count, time.monotonic() - began])
    faulthandler.cancel_dump_traceback_later()


def _tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


# All processes


class _Results:
    """What all processes have told."""

    def __init__(self) -> None:
        self.inputs: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.places: set[tuple[str, str]] = set()

    def take(self, line: dict[str, Any]) -> None:
        if "count" in line:
            target, count, seconds = line["count"]
            self.inputs[target] += count
            self.seconds[target] += seconds
        elif "failure" in line:
            failure = Failure(**line["failure"])
            self.failures[failure.target] += 1
            if (failure.property, failure.place) not in self.places:
                self.places.add((failure.property, failure.place))
                print(failure, flush=True)

    def table(self) -> Iterator[str]:
        yield f"{'target':<14}{'inputs':>10}{'per second':>12}{'failures':>10}"
        for target, count in self.inputs.items():
            rate = count / (self.seconds[target] or 1)
            yield f"{target:<14}{count:>10,}{rate:>12,.0f}{self.failures[target]:>10}"


def _run_all(given: argparse.Namespace) -> int:
    print(f"seed {given.seed}, {given.minutes:g} minutes, {', '.join(given.targets)}", flush=True)
    results = _Results()
    with ThreadPoolExecutor(PROCESSES) as pool:
        ended = list(pool.map(lambda number: _follow(given, number, results), range(PROCESSES)))
    print("\n".join(results.table()))
    return 0 if all(ended) and not results.failures else 1


def _follow(given: argparse.Namespace, number: int, results: _Results) -> bool:
    """Runs a process to its end; whether it ended well."""
    arguments = [sys.executable, "-m", "tests.fuzz", "--process", str(number)]
    for name in ("minutes", "seed", "inputs"):
        arguments += [f"--{name}", str(getattr(given, name))]
    for target in given.targets:
        arguments += ["--target", target]
    begun: list[Any] = []
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            line = json.loads(text)
            begun = line.get("begun", begun)
            results.take(line)
    if process.returncode:
        target, name, seed = begun or ["?", "?", 0]
        print(
            f"FAILURE of {target}, property {name}: the process ended with {process.returncode}\n"
            f"  again: {command(target, name, seed, given.inputs)}"
        )
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
