"""One peer in a process of its own: reads what to measure, and answers with microseconds.

`python -m bench.peers.worker MODULE` runs in the peer's environment. A line of the input is a kind
(`turn` or `stream`), its size (calls or pieces) and how many of it; the answer is a line with the
CPU time of each.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable

from bench.harness import abatch, settle
from bench.peers.own import Engine, Floor, OnceFloor
from bench.peers.peer import Peer
from bench.script import ANSWER

_OURS: dict[str, Callable[[], Peer]] = {
    "floor": Floor,
    "once": OnceFloor,
    "orchestrator": Engine,
}


def open_peer(name: str) -> Peer:
    if name in _OURS:
        return _OURS[name]()
    peer: Peer = importlib.import_module(f"bench.peers.{name}").Peer()
    return peer


async def check(peer: Peer, kind: str, size: int) -> None:
    """Runs one work, which warms up, and sees whether it did what the script says."""
    if kind == "turn":
        (turn,) = peer.turns(size, 1)
        answer = await turn()
        assert ANSWER in answer, answer
    else:
        (stream,) = peer.streams(size, 1)
        seen = await stream()
        # A parser keeps the markup back, and may hold a piece until the next comes.
        assert seen >= 0.9 * size, seen


async def measure(peer: Peer, kind: str, size: int, count: int) -> float:
    works = peer.turns(size, count) if kind == "turn" else peer.streams(size, count)
    settle()
    return await abatch(works)


def main(name: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints is no answer
    peer = open_peer(name)
    checked = set()
    with asyncio.Runner() as loop:
        for line in sys.stdin:
            kind, size, count = line.split()
            if (kind, size) not in checked:
                loop.run(check(peer, kind, int(size)))
                checked.add((kind, size))
            took = loop.run(measure(peer, kind, int(size), int(count)))
            answers.write(f"{took}\n")


if __name__ == "__main__":
    main(sys.argv[1])
