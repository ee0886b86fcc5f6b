"""The bench runs: each cheap measure once, with as few rounds as it can have."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import find_programs

from bench.durable import find_steady_rate
from bench.harness import quiet_median
from bench.measures import MEASURES
from bench.page import write_rows
from bench.peers.__main__ import OURS, PEERS, Metric, find_python, measure_all

REPOSITORY = Path(__file__).resolve().parents[2]

# Measuring freezes what the garbage collector knows, so it has a process of its own.
CHEAP = {
    "turns.turn(2, 1)": ["turn, floor", "turn, `ainvoke`"],
    "turns.turn_blocking(2, 1)": ["turn, floor, blocking", "turn, `invoke`"],
    "turns.step(1, 1)": ["step of 50, floor", "step of 50"],
    "streams.stream((50,), 1)": ["token of 50, floor", "token of 50, `astream`"],
    "live.session(8, 1)": ["turn 5, memory, `ainvoke`", "turn 8, SQLite, `invoke`"],
    "live.concurrency(3, 2)": ["memory of a live session"],
}
# Sixteen threads write to one file, and wait for one another.
SLOW = {"stores.stores(16, 20, ('sqlite',))": ["sqlite: an append", "sqlite: turn 20"]}


def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=REPOSITORY
    )


@pytest.mark.parametrize(
    "measures", [CHEAP, pytest.param(SLOW, marks=pytest.mark.exhaustive)], ids=["cheap", "slow"]
)
def test_every_measure_gives_its_rows(measures):
    calls = ", ".join(measures)
    program = (
        f"import json\nfrom bench import live, stores, streams, turns\nprint(json.dumps([{calls}]))"
    )
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
    for rows, names in zip(json.loads(done.stdout), measures.values(), strict=True):
        assert {row[0] for row in rows} >= set(names)
        for name, value, unit, _, note in rows:
            assert value == pytest.approx(value), name  # not NaN
            assert isinstance(unit, str) and isinstance(note, str)


@pytest.mark.exhaustive
def test_submitted_turns_are_measured():
    if isinstance(programs := find_programs(), str):
        pytest.skip(programs)
    done = python(
        "-c", "import json\nfrom bench import durable\nprint(json.dumps(durable.durable(8, 2)))"
    )
    assert done.returncode == 0, done.stderr
    names = [name for name, value, *_ in json.loads(done.stdout) if value > 0]
    assert names == [
        "durable: turns of one worker",
        "durable: turns of two workers",
        "durable: two workers, a model of a second",
        "durable: an append",
    ]


def test_a_rate_is_that_of_the_time_in_which_all_workers_run():
    first = [("one", at) for at in range(0, 2001, 100)]
    second = [("two", at) for at in range(1000, 3001, 100)]
    assert find_steady_rate(first) == 10
    assert find_steady_rate([*first, *second]) == 20


@pytest.mark.exhaustive
def test_what_callgrind_counts_runs():
    program = (
        "import asyncio\nfrom bench.instructions import run\nbegun = []\n"
        "for side in ('floor', 'engine'):\n    for unit in ('turn', 'step', 'token'):\n"
        "        asyncio.run(run(side, unit, 12, lambda: begun.append(unit)))\nprint(len(begun))"
    )
    done = python("-c", program)
    assert (done.stdout, done.stderr) == ("6\n", "")


@pytest.mark.exhaustive
def test_unknown_measure_is_named_beside_those_there_are():
    done = python("-m", "bench", "turns")
    assert done.returncode == 2
    assert f"no measure 'turns'; there are {', '.join(MEASURES)}" in done.stderr


def test_only_the_quiet_half_is_told():
    assert quiet_median([5.0, 1.0, 9.0, 2.0, 3.0]) == 2.0


def test_rows_of_the_page_are_written_in_place(tmp_path: Path):
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n\n| measure | value |\n|---|---:|\n| a | 1 |\n| a b | 2 |\n\nEnd.\n")
    assert write_rows([("a", "9"), ("c", "3")], page) == ["c"]
    assert page.read_text() == (
        "# Speed\n\n| measure | value |\n|---|---:|\n| a | 9 |\n| a b | 2 |\n\nEnd.\n"
    )


def test_our_own_rows_beside_peers_come_from_workers():
    tiny = (
        Metric("turn", "turn", 1, 2, 1, "floor"),
        Metric("step", "turn", 3, 1, 3, "once"),
        Metric("token", "stream", 50, 1, 50, "floor"),
    )
    times = measure_all(list(OURS.values()), 1, tiny)
    assert set(times) == {(name, it.title) for name in OURS.values() for it in tiny}
    assert all(took > 0 for took in times.values())


def test_every_peer_has_pinned_requirements_and_a_module():
    folder = REPOSITORY / "bench" / "peers"
    assert {file.stem for file in folder.glob("*.txt")} == set(PEERS.values())
    for module in PEERS.values():
        assert "==" in (folder / f"{module}.txt").read_text(encoding="utf-8")
        assert (folder / f"{module}.py").is_file()


def test_peer_that_was_not_installed_has_no_interpreter(monkeypatch, tmp_path: Path):
    monkeypatch.setattr("bench.peers.__main__._ENVIRONMENTS", tmp_path)
    assert find_python("haystack") is None
    (tmp_path / "haystack").mkdir()
    (tmp_path / "haystack" / ".installed").touch()
    assert find_python("haystack") == str(tmp_path / "haystack" / "bin" / "python")
