"""The measures: each is a function without arguments that runs in a fresh process.

It returns rows of the table (`bench.harness.Row`). Its name is what the command line calls it.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.bedrock import bedrock
from bench.durable import durable
from bench.first_answer import first_answer
from bench.harness import Row
from bench.imports import imports, loading
from bench.instructions import instructions
from bench.invoke_agent import invoke_agent
from bench.live import concurrency, session
from bench.retrieval import retrieval
from bench.stores import stores
from bench.streams import stream
from bench.together import together
from bench.turns import step, steps, turn, turn_blocking

MEASURES: dict[str, Callable[[], list[Row]]] = {
    measure.__name__: measure
    for measure in (
        *(turn, turn_blocking, step, steps),
        *(stream, session, concurrency, stores, durable),
        *(invoke_agent, bedrock),
        *(imports, loading, instructions),
        *(retrieval, together, first_answer),
    )
}
