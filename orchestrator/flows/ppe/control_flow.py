"""Carries out what decides and repeats: `$if`, `$while`, `$for`, `$match`, and chains."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from orchestrator.flows.ppe.jinja_texts import value_text
from orchestrator.flows.ppe.nodes import Block, Chain, For, If, Instruction, Match, While
from orchestrator.flows.steps import Step
from orchestrator.flows.tree import Node
from orchestrator.flows.work import ROUND

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


MOST_ROUNDS = 10_000

MATCHED = "COND__"
"""The variable with what `$match` matched, in its branches."""

_RANGE = frozenset(("start", "end", "step"))

Steps = Generator[Step, Any, Any]


def to_named_arguments(value: Any) -> dict[str, Any]:
    """A value as arguments by name: a map is those, anything else is the `content`."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"content": value}


class Break(Exception):
    """`$break` was reached."""


class Continue(Exception):
    """`$continue` was reached."""


def run_if(run: Interpreter, statement: If) -> Steps:
    """`$if`."""
    holds = yield from _check_condition(run, statement.condition)
    yield from run.block(statement.then if holds else statement.otherwise)


def _check_condition(run: Interpreter, condition: Node | Instruction) -> Steps:
    if isinstance(condition, Node):
        return (yield from run.values.evaluate_node(condition))
    return (yield from run.calls.statement(condition))


def run_while(run: Interpreter, statement: While) -> Steps:
    """`$while`."""
    for _ in range(MOST_ROUNDS):
        if not (yield from _check_condition(run, statement.condition)):
            return
        if (yield from _run_round(run, statement.body)):
            return
    run.fail(
        statement.place, f"the loop went round {MOST_ROUNDS} times", f"循环超过 {MOST_ROUNDS} 次"
    )


def _run_round(run: Interpreter, body: Block) -> Generator[Step, Any, bool]:
    """Runs a loop's body once; whether the loop is left."""
    run.work.spend(ROUND)
    try:
        yield from run.block(body)
    except Break:
        return True
    except Continue:
        pass
    return False


def run_for(run: Interpreter, statement: For) -> Steps:
    """`$for`: over a list, a map, `{start, end, step}`, or the numbers from 1 to a number."""
    items = statement.items
    value: Any
    if isinstance(items, Node):
        value = yield from run.values.evaluate_node(items)
    else:
        value = yield from run.values.evaluate_data(items)
    pairs = _list_pairs(value)
    if pairs is None:
        text = value_text(value)
        run.fail(
            statement.place,
            f"$for needs a list, and this is {text!r}",
            f"$for 需要列表，而这里是 {text!r}",
        )
    if len(pairs) > MOST_ROUNDS:
        run.fail(
            statement.place,
            f"$for loops over more than {MOST_ROUNDS} items",
            f"$for 循环超过 {MOST_ROUNDS} 项",
        )
    outer = run.data.scope
    try:
        for index, item in pairs:
            named = dict.fromkeys(statement.values, item)
            run.data.scope = {**outer, **named, statement.index: index}
            if (yield from _run_round(run, statement.body)):
                return
    finally:
        run.data.scope = outer


def _list_pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """What is looped over: places, or keys, and values. One more than too many is enough."""
    if isinstance(value, dict):
        if "end" in value and value.keys() <= _RANGE and all(map(_whole, value.values())):
            step = value.get("step", 1)
            numbers = range(
                value.get("start", 1), value["end"] + (1 if step > 0 else -1), step or 1
            )
            return list(enumerate(numbers[: MOST_ROUNDS + 1]))
        return list(value.items())
    if _whole(value):
        return list(enumerate(range(1, min(value, MOST_ROUNDS + 1) + 1)))
    return list(enumerate(value)) if isinstance(value, list) else None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def run_match(run: Interpreter, statement: Match) -> Steps:
    """`$match`: the first branch that fits, or all of them, one after another."""
    if statement.value is None:
        value = yield from run.previous()
    else:
        value = yield from run.values.evaluate_node(statement.value)
    outer = run.data.scope
    run.work.measure(value)
    for pattern, body in statement.branches:
        named = pattern.fits(value, run.shared.searches)
        if named is None:
            continue
        run.data.scope = {**outer, MATCHED: value, **named}
        try:
            yield from run.block(body)
        finally:
            run.data.scope = outer
        if not statement.all:
            return


def run_chain(run: Interpreter, statement: Chain) -> Steps:
    """`-> name(arguments)`: each target is called with the result before it."""
    value = yield from run.previous()
    run.values.place = statement.place
    outer = run.data.scope
    for link in statement.links:
        # Arguments may name the result before: `content`, or the members of a map.
        run.data.scope = {**outer, **to_named_arguments(value)}
        try:
            args, named = yield from run.values.arguments(link.arguments, link)
        finally:
            run.data.scope = outer
        value = yield from run.calls.call_link(link, value, args, named)
    run.keep(value)
