"""A worker for `bench/durable.py`, until its standard input ends.

`python -m bench.durable_worker DATABASE QUEUE AT_ONCE SECONDS`: the model takes so many seconds.
"""

from __future__ import annotations

import sys
import time

from bench import subject
from orchestrator.agent.durable import Worker
from orchestrator.models import ModelReply, ModelRequest


class Slow(subject.Script):
    """A model that keeps its thread waiting."""

    def complete(self, request: ModelRequest) -> ModelReply:
        time.sleep(self.wait)
        return super().complete(request)


def main() -> None:
    url, queue, at_once, seconds = sys.argv[1:]
    agent = subject.engine(Slow(wait=float(seconds)), sessions=url)
    with Worker(url, [agent], queues=[queue], concurrency=int(at_once)):
        sys.stdin.read()


if __name__ == "__main__":
    main()
