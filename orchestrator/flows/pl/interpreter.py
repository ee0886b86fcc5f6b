"""Runs a program of the workflow language: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn, assert_never

from orchestrator.errors import FlowError
from orchestrator.flows.call_resolver import describe_missing_function
from orchestrator.flows.evaluation import evaluate
from orchestrator.flows.pl import agents, statements
from orchestrator.flows.pl.loops import run_loop
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
from orchestrator.flows.pl.uses import Dependence
from orchestrator.flows.pl.values import LenientPool, Pool, as_text
from orchestrator.flows.steps import Call, CallCatalog, Event, Outcome, Pause, Place, Running, Step
from orchestrator.flows.tree import Node, ScriptError

Steps = Generator[Step, Any, Any]


class _ExitReached(Exception):
    """`@exit` was reached."""


class Interpreter:
    """One run of a program, or of one iteration in it.

    Attributes:
        known: What it may call, and how.
        dependent: Loops whose iterations depend on each other, and why.
        warned_dependent: Those of them that a warning was sent about.
        pool: The variables.
        output: The value of the last statement that had one.
        has_output: Whether there was one.
        agents: The agents that the program has made, by name.
        loops: The loops whose variables variables are, by name.
        stepping: Whether it waits before each statement.
    """

    def __init__(
        self,
        program: Block,
        file: str | None,
        arguments: Mapping[str, Any],
        known: CallCatalog,
        dependent: Mapping[Place, Dependence],
    ) -> None:
        self._program = program
        self._file = file
        self._next_runs = False
        self.known = known
        self.dependent = dependent
        self.warned_dependent: set[Place] = set()
        self.pool = Pool(arguments)
        self.output: Any = None
        self.has_output = False
        self.agents: dict[str, agents.Agent] = {}
        self.loops: dict[str, Loop] = {}
        self.stepping = known.stepping

    def for_iteration(self, known: CallCatalog) -> Interpreter:
        """Another one that goes on from here by itself, with the variables as they are now."""
        inner = Interpreter(self._program, self._file, self.pool.values, known, self.dependent)
        inner.output = self.output
        inner.warned_dependent = set(self.warned_dependent)
        inner.agents, inner.loops = dict(self.agents), dict(self.loops)
        return inner

    def run(self, calls: Mapping[str, Place], doubts: Sequence[tuple[Place, str]] = ()) -> Running:
        """Runs it.

        Args:
            calls: The functions that it calls, which must be known before anything is done.
            doubts: What is warned of before anything is done, and where.

        Raises:
            FlowError: A statement failed, with its place.
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
        """Ends the run at a statement.

        Raises:
            FlowError: Always.
        """
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
        match statement:
            case Loop():
                yield from run_loop(self, statement, last)
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
        self.output = (
            None if message is None else statements.argument_value(message, LenientPool(self.pool))
        )
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
        """Calls a function, or an agent of the program; its value.

        Raises:
            FlowError: There is none of that name, or it failed.
        """
        yield Event("tool_call", place, {"name": name, "args": list(args), "kwargs": dict(kwargs)})
        agent = self.agents.get(name)
        if agent is not None:
            values = [*args, *kwargs.values()]
            if len(values) != 1:
                self.fail(
                    place, f"the agent {name!r} takes one task", f"agent {name} 只接受一个任务"
                )
            value = yield from agent.again(as_text(values[0])).run(self, place)
        elif self.known.name_of(name):
            value = yield Call(place, name, list(args), dict(kwargs))
        else:
            self._unknown(place, name)
        yield Event("tool_result", place, {"name": name, "value": value})
        return value

    def _unknown(self, place: Place, name: str) -> NoReturn:
        known = self.known.all_names | self.agents.keys()
        self.fail(place, describe_missing_function(name, known), f"未找到函数: {name}")
