"""`FOR`: item after item, or in parallel where the result is the same."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED, evaluate
from orchestrator.flows.pl.agents import Agent
from orchestrator.flows.pl.nodes import Loop, Target
from orchestrator.flows.pl.uses import statements_in
from orchestrator.flows.pl.values import RecordingPool, as_text
from orchestrator.flows.steps import Event, Parallel, Step

if TYPE_CHECKING:
    from orchestrator.flows.pl.interpreter import Interpreter


Steps = Generator[Step, Any, Any]


def run_loop(run: Interpreter, loop: Loop, last: bool) -> Steps:
    """Runs a loop; `last` says whether nothing comes after it.

    Raises:
        FlowError: It goes through no list, or an iteration failed.
    """
    items = _items(run, loop)
    if loop.name in run.pool.values and run.loops.get(loop.name) is not loop:
        data = {"text": f"FOR overwrites the variable ${loop.name}"}
        yield Event("warning", loop.place, data)
    most = yield from _count_parallel(run, loop, len(items))
    if most:
        yield from _run_in_parallel(run, loop, items, most)
        return
    for at, item in enumerate(items, 1):
        yield from _run_iteration(run, loop, item, last and at == len(items))


def _items(run: Interpreter, loop: Loop) -> Sequence[Any]:
    items = evaluate(loop.items, run.pool)
    if isinstance(items, str):  # its letters are hardly what is meant, and each is paid for
        run.fail(
            loop.place,
            f"FOR needs a list, and this is the text {items!r:.60}; an argument is a list when it "
            'is written as JSON: ["a", "b"]',
            f"FOR 需要列表，实际为文本 {items!r:.60}",
        )
    if isinstance(items, dict):
        items = list(items)
    if not isinstance(items, list):
        what = "undefined" if items is UNDEFINED else as_text(items)
        run.fail(
            loop.place, f"FOR needs a list, and this is {what}", f"FOR 需要列表，实际为 {what}"
        )
    return tuple(items)


def _run_iteration(run: Interpreter, loop: Loop, item: Any, last: bool) -> Steps:
    run.loops[loop.name] = loop
    yield from run.assign(loop.place, Target(loop.name), item, is_output=False)
    yield from run.block(loop.body, last)


def _count_parallel(run: Interpreter, loop: Loop, count: int) -> Generator[Step, Any, int]:
    """How many iterations run at the same time; 0 when they run one after the other.

    The same for the same program and data, wherever it runs: a journal is gone on with so.
    """
    known = run.known
    wanted = known.parallel is not False and (known.parallel or loop.parallel is not None)
    if not wanted or count < 2 or run.stepping:
        return 0
    why = run.dependent.get(loop.place)
    if why is None:
        return min(loop.parallel or known.most, known.most)
    if loop.place not in run.warned_dependent:
        run.warned_dependent.add(loop.place)
        data = {"text": f"this FOR runs one item after the other: {why.message}"}
        yield Event(
            "warning", loop.place, {**data, "text_zh": f"此 FOR 逐项执行：{why.message_zh}"}
        )
    return 0


def _run_in_parallel(run: Interpreter, loop: Loop, items: Sequence[Any], most: int) -> Steps:
    # What runs in an iteration at the same time is a part of what may run at all.
    inner = replace(run.known, most=max(most // min(most, len(items)), 1))
    works = [partial(_run_alone, run, loop, item, inner) for item in items]
    changes = yield Parallel(loop.place, works, most)
    loops = {it.name: it for it in statements_in(loop.body) if isinstance(it, Loop)}
    names: dict[str, None] = {}
    for change in changes:
        for name, values in change["variables"].items():
            names[name] = None
            for appended, value in values:
                run.pool.set(name, value, appended)
        run.agents |= {name: Agent(**one) for name, one in change["agents"].items()}
        if "output" in change:
            run.output = change["output"]
    run.loops = {name: it for name, it in run.loops.items() if name not in names}
    run.loops |= {name: it for name, it in {**loops, loop.name: loop}.items() if name in names}
    for name in names:
        yield Event("variable_set", loop.place, {"name": name, "value": run.pool.values[name]})


def _run_alone(above: Interpreter, loop: Loop, item: Any, known: Any) -> Steps:
    """An iteration by itself: with the variables as they were before the loop.

    Returns:
        What it changed, as JSON data.
    """
    run = above.for_iteration(known)
    changed = RecordingPool(run.pool.values)
    run.pool = changed
    before = dict(run.agents)
    yield from _run_iteration(run, loop, item, last=False)
    agents = {name: asdict(it) for name, it in run.agents.items() if before.get(name) is not it}
    result: dict[str, Any] = {"variables": changed.changes, "agents": agents}
    return {**result, "output": run.output} if run.has_output else result
