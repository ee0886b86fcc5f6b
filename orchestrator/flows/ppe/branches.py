"""Branches of `$match` side by side (`allMatches=true, parallel=true`), each by itself.

A branch begins with the messages and the variables that were there before all of them, and knows
nothing of the others. What each has said and set is put together in their order, as if they had
run one after the other: it comes to the same unless one reads what another has written.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.flows.ppe.data import plain
from orchestrator.flows.ppe.dialogue import Dialogue, Said
from orchestrator.flows.ppe.nodes import Block, Match, Script
from orchestrator.flows.ppe.scope import Data
from orchestrator.flows.steps import Event, Place, Step, Together

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

__all__ = ["Branch", "dependent", "side_by_side"]

Steps = Generator[Step, Any, Any]


class Branch(NamedTuple):
    """A branch that is to run.

    Attributes:
        body: Its statements.
        scope: The variables that it has besides.
    """

    body: Block
    scope: Mapping[str, Any]


def dependent(branches: Sequence[Branch]) -> str:
    """A variable that one branch sets, and one behind it reads; empty for none."""
    from orchestrator.flows.ppe.uses import Uses

    always = Uses(Script("", None, {}, ())).given
    given: set[str] = set()
    for branch in branches:
        uses = Uses(Script("", None, {}, branch.body))
        if found := sorted(given & uses.names):
            return found[0]
        given |= uses.given.keys() - always.keys()
    return ""


def side_by_side(run: Interpreter, statement: Match, branches: Sequence[Branch]) -> Steps:
    """Runs branches at the same time.

    Raises:
        FlowError: One failed, or began a dialogue, or changed a message that was there before.
    """
    yield from run.rendering.messages()  # what waits is asked once, and not by each
    most = run.known.most
    inner = max(most // min(most, len(branches)), 1)
    works = [partial(_alone, run, statement.place, one, inner) for one in branches]
    for change in (yield Together(statement.place, works, most)):
        for role, text, values in change["messages"]:
            said = Said(role, None, statement.place, done=text, drawn=True, values=values)
            run.dialogue.messages.append(said)
        for name, value in change["runtime"].items():
            run.data.runtime[name] = value
            run.data.prompt.pop(name, None)
            yield Event("variable_set", statement.place, {"name": name, "value": value})
        run.data.prompt.update(change["prompt"])
        run.called = run.called or change["called"]
        run.result, run.data.last = change["result"], change["last"]
        run.said_last = change["said_last"]
        if change["left"]:
            raise run.ways_out[change["left"]]


def _alone(above: Interpreter, place: Place, branch: Branch, most: int) -> Steps:
    """A branch by itself; what it changed, as JSON data."""
    run = _within(above, branch, most)
    before, left = list(run.dialogue.messages), ""
    try:
        yield from run.block(branch.body)
    except tuple(run.ways_out.values()) as way:
        left = next(name for name, one in run.ways_out.items() if isinstance(way, one))
    yield from run.rendering.messages()
    messages = run.dialogue.messages
    same = all(one is other for one, other in zip(messages, before, strict=False))
    if (
        not same
        or len(messages) < len(before)
        or run.dialogue.separated != above.dialogue.separated
    ):
        run.fail(
            place,
            "a branch that runs beside others begins no dialogue, and changes no message that was "
            "there before; leave parallel=true out",
            "并行的分支不能开始新对话，也不能修改之前的消息；请去掉 parallel=true",
        )
    said = [[one.role, one.done, one.values] for one in messages[len(before) :]]
    changed: dict[str, Any] = plain(
        {
            "messages": said,
            "runtime": _changes(above.data.runtime, run.data.runtime),
            "prompt": _changes(above.data.prompt, run.data.prompt),
            "result": run.result,
            "last": run.data.last,
        }
    )
    return {**changed, "called": run.called, "said_last": run.said_last, "left": left}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: it for name, it in after.items() if name not in before or before[name] is not it}


def _within(above: Interpreter, branch: Branch, most: int) -> Interpreter:
    """A run like the one above, with messages and variables of its own."""
    run = copy(above)
    run.known = replace(above.known, most=most)
    run.shared = copy(above.shared)
    run.shared.replies = dict(above.shared.replies)
    run.parameters = dict(above.parameters)
    run.data = Data(dict(above.data.runtime), dict(above.data.prompt))
    run.data.scope, run.data.last = branch.scope, above.data.last
    run.dialogue = Dialogue()
    run.dialogue.prologue = list(above.dialogue.prologue)
    run.dialogue.messages = list(above.dialogue.messages)
    run.dialogue.separated = above.dialogue.separated
    run.furnish()
    run.listeners.take(above.listeners)
    return run
