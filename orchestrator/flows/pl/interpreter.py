"""Runs a program of the workflow language: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NoReturn, assert_never

from orchestrator.errors import FlowError
from orchestrator.flows.call_resolver import describe_missing_function
from orchestrator.flows.evaluation import UNDEFINED, evaluate, evaluate_or_none
from orchestrator.flows.pl import statements
from orchestrator.flows.pl.agents import Agent, read_agent
from orchestrator.flows.pl.nodes import (
    AgentCall,
    Block,
    Breakpoint,
    CodeBlock,
    Exit,
    FunctionCall,
    If,
    Judge,
    Loop,
    Prompt,
    Statement,
    Target,
)
from orchestrator.flows.pl.uses import Dependence, statements_in
from orchestrator.flows.pl.values import LenientPool, Pool, RecordingPool, as_text
from orchestrator.flows.steps import (
    Call,
    CallCatalog,
    Event,
    Outcome,
    Parallel,
    Pause,
    Place,
    Running,
    Step,
)
from orchestrator.flows.tree import Node, ScriptError
from orchestrator.flows.work import ROUND

Steps = Generator[Step, Any, Any]


class _ExitReached(Exception):
    """`@exit` was reached."""


class Interpreter:
    """One run of a program, or of one iteration in it."""

    def __init__(
        self,
        program: Block,
        file: str | None,
        arguments: Mapping[str, Any],
        known: CallCatalog,
        dependent: Mapping[Place, Dependence],
        *,
        files: bool = False,
    ) -> None:
        self._program = program
        self._file = file
        self.files = files  # whether Python of the program may open files of its folder
        self._next_runs = False
        self.known = known
        self.dependent = dependent  # loops whose iterations depend on each other, and why
        self.warned_dependent: set[Place] = set()  # those that a warning was sent about
        self.pool = Pool(arguments, known.work)
        self.output: Any = None  # the value of the last statement that had one
        self.has_output = False
        self.agents: dict[str, Agent] = {}  # those that the program has made
        self.loops: dict[str, Loop] = {}  # the loops whose variables variables are, by name
        self.stepping = known.stepping

    def for_iteration(self, known: CallCatalog) -> Interpreter:
        """Another one that goes on from here by itself, with the variables as they are now."""
        inner = Interpreter(
            self._program, self._file, self.pool.values, known, self.dependent, files=self.files
        )
        inner.output = self.output
        inner.warned_dependent = set(self.warned_dependent)
        inner.agents, inner.loops = dict(self.agents), dict(self.loops)
        return inner

    def run(self, calls: Mapping[str, Place], doubts: Sequence[tuple[Place, str]] = ()) -> Running:
        """Runs it; a statement that fails is a `FlowError` with its place.

        Before anything is done, the functions that it `calls` must be known, and a warning is sent
        of each of its `doubts`.
        """
        start = Place(1)
        yield Event("run_start", start)
        for name, place in calls.items():
            if not self.stepping and not self.known.name_of(name):
                self._unknown(place, name)
        for place, text in doubts:
            yield Event("warning", place, {"text": text})
        try:
            yield from self.block(self._program, last=True)
        except _ExitReached:
            pass
        yield Event("run_end", start, {"output": self.output})
        return Outcome(self.output, dict(self.pool.values))

    def fail(self, place: Place, message: str, message_zh: str) -> NoReturn:
        """Ends the run at a statement."""
        raise place.error(message, message_zh, self._file)

    # Blocks

    def block(self, block: Block, last: bool) -> Steps:
        """Runs a block; `last` says whether nothing comes after it."""
        for statement in block:
            yield from self._pause(statement)
            try:
                yield from self._statement(statement, last and statement is block[-1])
            except ScriptError as wrong:
                self.fail(statement.place, wrong.message, wrong.message_zh)
            except FlowError as error:  # of a step, which may know no Chinese
                if error.message_zh:
                    raise
                self.fail(statement.place, error.reason, f"执行失败: {error.reason}")
            yield from self.warn(statement.place)

    def _pause(self, statement: Statement) -> Steps:
        """Waits at a breakpoint, and in `step` mode before each statement."""
        if isinstance(statement, Breakpoint):
            yield from self._wait(statement.place)
            self._next_runs = self.stepping
        elif self.stepping:
            if not self._next_runs:
                yield from self._wait(statement.place)
            self._next_runs = False

    def _wait(self, place: Place) -> Steps:
        yield Event("breakpoint", place)
        mode = yield Pause(place, self.output, dict(self.pool.values))
        self.stepping = mode == "step"

    def _statement(self, statement: Statement, last: bool) -> Steps:
        if isinstance(statement, Breakpoint):
            return
        yield Event("statement_start", statement.place)
        self.known.work.begin_statement(statement.place.line)
        match statement:
            case Loop():
                yield from _run_loop(self, statement, last)
            case If():
                yield from self._if(statement, last)
            case Exit():
                yield from self._exit(statement)
            case Prompt():
                yield from statements.prompt(self, statement, last)
            case FunctionCall():
                yield from statements.function(self, statement)
            case AgentCall():
                yield from statements.agent(self, statement)
            case CodeBlock():
                yield from statements.code(self, statement)
            case Judge():
                yield from statements.judge(self, statement)
            case _:
                assert_never(statement)

    def warn(self, place: Place) -> Steps:
        """Tells of undefined variables, before a statement spends anything on them."""
        for written in self.pool.unknown:
            yield Event("warning", place, {"text": f"{written} is not defined"})
        self.pool.unknown.clear()

    def _if(self, statement: If, last: bool) -> Steps:
        for branch in statement.branches:
            if branch.condition is None or self._holds(branch.condition, branch.place):
                yield from self.block(branch.body, last)
                return

    def _holds(self, condition: Node, place: Place) -> bool:
        try:
            return bool(evaluate(condition, self.pool))
        except ScriptError as wrong:
            self.fail(place, wrong.message, f"条件表达式评估失败: {wrong.message_zh}")

    def _exit(self, statement: Exit) -> Steps:
        message = statement.message
        self.output = None if message is None else evaluate_or_none(message, LenientPool(self.pool))
        yield Event("exit", statement.place, {"text": self.output})
        raise _ExitReached

    # What statements use

    def assign(self, place: Place, target: Target, value: Any, *, is_output: bool = True) -> Steps:
        """Takes the value of a statement."""
        if is_output:
            self.output, self.has_output = value, True
            self.loops.pop(target.name, None)
        if target.name:
            self.pool.set(target.name, value, target.append)
            data = {"name": target.name, "value": self.pool.values[target.name]}
            yield Event("variable_set", place, data)

    def tools(self) -> dict[str, Mapping[str, Any]]:
        """What models may call: what the run knows, and the program's agents so far."""
        return {**self.known.specs, **{name: one.spec for name, one in self.agents.items()}}

    def call(
        self, place: Place, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Generator[Step, Any, Any]:
        """Calls a function, or an agent of the program; its value."""
        yield Event("tool_call", place, {"name": name, "args": list(args), "kwargs": dict(kwargs)})
        agent = self.agents.get(name)
        if agent is not None:
            values = [*args, *kwargs.values()]
            if len(values) != 1:
                self.fail(
                    place, f"the agent {name!r} takes one task", f"agent {name} 只接受一个任务"
                )
            value = yield from replace(agent, task=as_text(values[0])).run(self, place)
        elif self.known.name_of(name):
            value = yield Call(place, name, list(args), dict(kwargs))
        else:
            self._unknown(place, name)
        yield Event("tool_result", place, {"name": name, "value": value})
        return value

    def _unknown(self, place: Place, name: str) -> NoReturn:
        known = self.known.all_names | self.agents.keys()
        self.fail(place, describe_missing_function(name, known), f"未找到函数: {name}")


def _run_loop(run: Interpreter, loop: Loop, last: bool) -> Steps:
    """Runs a loop: item after item, or in parallel where the result is the same."""
    items = _items(run, loop)
    if loop.name in run.pool.values and run.loops.get(loop.name) is not loop:
        text = f"FOR overwrites the variable ${loop.name}"
        yield Event("warning", loop.place, {"text": text})
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
    run.known.work.copy(items)
    return tuple(items)


def _run_iteration(run: Interpreter, loop: Loop, item: Any, last: bool) -> Steps:
    run.known.work.spend(ROUND)
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
        text = f"this FOR runs one item after the other: {why.message}"
        text_zh = f"此 FOR 逐项执行：{why.message_zh}"
        yield Event("warning", loop.place, {"text": text, "text_zh": text_zh})
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
        run.agents |= {name: read_agent(one) for name, one in change["agents"].items()}
        if "output" in change:
            run.output = change["output"]
    run.loops = {name: it for name, it in run.loops.items() if name not in names}
    run.loops |= {name: it for name, it in {**loops, loop.name: loop}.items() if name in names}
    for name in names:
        yield Event("variable_set", loop.place, {"name": name, "value": run.pool.values[name]})


def _run_alone(above: Interpreter, loop: Loop, item: Any, known: Any) -> Steps:
    """An iteration with the variables as before the loop; returns what it changed, as JSON data."""
    run = above.for_iteration(known)
    changed = RecordingPool(run.pool.values, run.known.work)
    run.pool = changed
    before = dict(run.agents)
    yield from _run_iteration(run, loop, item, last=False)
    agents = {name: asdict(it) for name, it in run.agents.items() if before.get(name) is not it}
    result: dict[str, Any] = {"variables": changed.changes, "agents": agents}
    return {**result, "output": run.output} if run.has_output else result
