"""`python -m tests.mutants`: the share of a sample's mutants that the tests notice.

It runs in an environment of its own, and the tests in the project's. The project is copied for each
process, so that nothing is changed here. Survivors that `explained.toml` says cannot be noticed do
not count; of the others at most one in ten may survive, or the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Queue
from pathlib import Path
from tempfile import TemporaryDirectory

from .coverage_of_tests import Coverage, measure
from .sample import Mutant, sample
from .trial import Trial, copy_project, try_mutant

ROOT = Path(__file__).resolve().parents[2]
EXPLAINED = Path(__file__).with_name("explained.toml")
PROCESSES = 2
LEAST = 0.9


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", type=Path, default=ROOT / ".venv" / "bin" / "python")
    given = parser.parse_args()
    python = Path(os.path.abspath(given.python))  # a link to follow would leave the environment
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        copies = [Path(folder, str(number)) for number in range(PROCESSES)]
        for copy in copies:
            copy_project(ROOT, copy)
        print(f"seed {given.seed}: which tests run which lines ...", flush=True)
        coverage = measure(copies[0], python, PROCESSES)
        mutants = sample(copies[0], given.mutants, given.seed)
        trials = list(_tell(_tried(mutants, coverage, copies, python), len(mutants)))
    score = _report(trials)
    print(f"{(time.monotonic() - began) / 60:.0f} minutes")
    return 0 if score >= LEAST else 1


def _tried(
    mutants: Iterable[Mutant], coverage: Coverage, copies: list[Path], python: Path
) -> Iterator[Trial]:
    places: Queue[Path] = Queue()
    for copy in copies:
        places.put(copy)
    with ProcessPoolExecutor(len(copies), initializer=_enter, initargs=(places,)) as pool:
        pending = []
        for mutant in mutants:
            place = mutant.place
            lines = range(place.start[0], place.end[0] + 1)
            tests = coverage.tests_of(place.file, lines)
            pending.append(pool.submit(try_mutant, mutant, tests, python))
        for one in pending:
            yield one.result()


def _enter(places: Queue[Path]) -> None:
    os.chdir(places.get())


def _tell(trials: Iterator[Trial], count: int) -> Iterator[Trial]:
    for number, trial in enumerate(trials, 1):
        if not trial.killed:
            print(f"[{number}/{count}] survived: {_describe(trial)}", flush=True)
        yield trial


def _describe(trial: Trial) -> str:
    place = f"{trial.mutant.place.file}:{trial.mutant.place.start[0]} {trial.definition}"
    return f"{place}\n    - {trial.before}\n    + {trial.after}"


def _report(trials: list[Trial]) -> float:
    explained = {
        (it["file"], it["definition"], it["before"], it["after"])
        for it in tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["survivor"]
    }
    counted = [
        it
        for it in trials
        if it.killed or (it.mutant.place.file, it.definition, it.before, it.after) not in explained
    ]
    killed = sum(it.killed for it in counted)
    score = killed / len(counted) if counted else 1.0
    print(
        f"{len(trials)} mutants, {killed} noticed, {len(counted) - killed} survived, "
        f"{len(trials) - len(counted)} explained: {score:.1%}, at least {LEAST:.0%}"
    )
    return score


if __name__ == "__main__":
    sys.exit(main())
