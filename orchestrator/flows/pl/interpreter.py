"""Runs a program of the workflow language: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn, assert_never

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import UNDEFINED, evaluate
from orchestrator.flows.expressions import Node, Wrong
from orchestrator.flows.pl import agents
from orchestrator.flows.pl.code import bound, fenced, refuse_unsafe
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
from orchestrator.flows.pl.values import Kept, Pool, as_text
from orchestrator.flows.steps import (
    Ask,
    Call,
    Code,
    Event,
    Known,
    Outcome,
    Pause,
    Place,
    Running,
    Step,
)

__all__ = ["Interpreter"]

NO_ANSWER = "no_answer"
"""What `@condition_judge` gives when the model names none of the classes."""

_NEUTRAL: Mapping[str, Any] = {"temperature": 0}
_TRIES = 3

Steps = Generator[Step, Any, Any]


class _Ended(Exception):
    """`@exit` was reached."""


class Interpreter:
    """One run of a program."""

    def __init__(
        self, program: Block, file: str | None, arguments: Mapping[str, Any], known: Known
    ) -> None:
        self._program = program
        self._file = file
        self._known = known
        self._agents: dict[str, agents.Agent] = {}
        self._loops: dict[str, Loop] = {}  # by the variables that they assigned last
        self._stepping, self._next_runs = known.stepping, False
        self.pool = Pool(arguments)
        self.output: Any = None

    def run(self) -> Running:
        """Runs it.

        Raises:
            FlowError: A statement failed, with its place.
        """
        start = Place(1)
        yield Event("run_start", start)
        try:
            yield from self._block(self._program, last=True)
        except _Ended:
            pass
        yield Event("run_end", start, {"output": self.output})
        return Outcome(self.output, dict(self.pool.values))

    def fail(self, place: Place, message: str, message_zh: str) -> NoReturn:
        """Ends the run at a statement.

        Raises:
            FlowError: Always.
        """
        raise FlowError(
            message,
            file=self._file,
            line=place.line,
            column=place.column,
            statement=place.statement,
            message_zh=f"第 {place.line} 行：{message_zh}",
        )

    # Blocks

    def _block(self, block: Block, last: bool) -> Steps:
        """Runs a block; `last` says whether nothing comes after it."""
        for statement in block:
            yield from self._pause(statement)
            try:
                yield from self._statement(statement, last and statement is block[-1])
            except Wrong as wrong:
                self.fail(statement.place, wrong.message, wrong.message_zh)
            except FlowError as error:  # of a step, which may know no Chinese
                if error.message_zh:
                    raise
                self.fail(statement.place, error.reason, f"执行失败: {error.reason}")
            yield from self._warn(statement.place)

    def _pause(self, statement: Statement) -> Steps:
        """Waits at a breakpoint, and in `step` mode before each statement; headers only lead on."""
        if isinstance(statement, Breakpoint):
            yield from self._wait(statement.place)
            self._next_runs = self._stepping
        elif self._stepping and not isinstance(statement, Loop | If):
            if not self._next_runs:
                yield from self._wait(statement.place)
            self._next_runs = False

    def _wait(self, place: Place) -> Steps:
        yield Event("breakpoint", place)
        mode = yield Pause(place, self.output, dict(self.pool.values))
        self._stepping = mode == "step"

    def _statement(self, statement: Statement, last: bool) -> Steps:
        if isinstance(statement, Breakpoint):
            return
        yield Event("statement_start", statement.place)
        match statement:
            case Loop():
                yield from self._loop(statement, last)
            case If():
                yield from self._if(statement, last)
            case Exit():
                yield from self._exit(statement)
            case Prompt():
                yield from self._prompt(statement, last)
            case FunctionCall():
                yield from self._function(statement)
            case AgentCall():
                yield from self._agent(statement)
            case CodeBlock():
                yield from self._code(statement)
            case Judge():
                yield from self._judge(statement)
            case _:
                assert_never(statement)

    def _warn(self, place: Place) -> Steps:
        for written in self.pool.unknown:
            yield Event("warning", place, {"text": f"{written} is not defined"})
        self.pool.unknown.clear()

    def _loop(self, loop: Loop, last: bool) -> Steps:
        items = evaluate(loop.items, self.pool)
        if isinstance(items, str):
            items = list(items)
        elif isinstance(items, dict):
            items = list(items)
        if not isinstance(items, list):
            what = "undefined" if items is UNDEFINED else as_text(items)
            self.fail(
                loop.place, f"FOR needs a list, and this is {what}", f"FOR 需要列表，实际为 {what}"
            )
        if loop.name in self.pool.values and self._loops.get(loop.name) is not loop:
            told = {"text": f"FOR overwrites the variable ${loop.name}"}
            yield Event("warning", loop.place, told)
        for at, item in enumerate(tuple(items), 1):
            self._loops[loop.name] = loop
            yield from self._assign(loop.place, Target(loop.name), item, is_output=False)
            yield from self._block(loop.body, last and at == len(items))

    def _if(self, statement: If, last: bool) -> Steps:
        for branch in statement.branches:
            if branch.condition is None or self._holds(branch.condition, branch.place):
                yield from self._block(branch.body, last)
                return

    def _holds(self, condition: Node, place: Place) -> bool:
        try:
            return bool(evaluate(condition, self.pool))
        except Wrong as wrong:
            self.fail(place, wrong.message, f"条件表达式评估失败: {wrong.message_zh}")

    def _exit(self, statement: Exit) -> Steps:
        message = statement.message
        self.output = None if message is None else _value(message, Kept(self.pool))
        yield Event("exit", statement.place, {"text": self.output})
        raise _Ended

    # Statements that have a value

    def _assign(self, place: Place, target: Target, value: Any, *, is_output: bool = True) -> Steps:
        if is_output:
            self.output = value
            self._loops.pop(target.name, None)
        if target.name:
            self.pool.set(target.name, value, target.append)
            told = {"name": target.name, "value": self.pool.values[target.name]}
            yield Event("variable_set", place, told)

    def _prompt(self, statement: Prompt, last: bool) -> Steps:
        place, text = statement.place, self.pool.fill(statement.text)
        tools = list(self._tools().values())
        reply = yield Ask(place, [_said(text)], inference=_NEUTRAL, tools=tools, last=last)
        value: Any = reply.text
        if reply.calls:
            values = []
            for call in reply.calls:
                values.append((yield from self.call(place, call["name"], (), call["input"])))
            value = values[0] if len(values) == 1 else values
        yield from self._assign(place, statement.target, value)

    def _function(self, statement: FunctionCall) -> Steps:
        scope = Kept(self.pool)
        given = [(one.name, _value(one.node, scope)) for one in statement.arguments]
        args = [value for name, value in given if not name]
        kwargs = {name: value for name, value in given if name}
        value = yield from self.call(statement.place, statement.name, args, kwargs)
        yield from self._assign(statement.place, statement.target, value)

    def _tools(self) -> dict[str, Mapping[str, Any]]:
        """What models may call: what the run knows, and the program's agents so far."""
        return {**self._known.specs, **{name: one.spec for name, one in self._agents.items()}}

    def call(
        self, place: Place, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Generator[Step, Any, Any]:
        """Calls a function, or an agent of the program; its value.

        Raises:
            FlowError: There is none of that name, or it failed.
        """
        yield Event("tool_call", place, {"name": name, "args": list(args), "kwargs": dict(kwargs)})
        agent = self._agents.get(name)
        if agent is not None:
            given = [*args, *kwargs.values()]
            if len(given) != 1:
                self.fail(
                    place, f"the agent {name!r} takes one task", f"agent {name} 只接受一个任务"
                )
            value = yield from agent.again(as_text(given[0])).run(self, place)
        elif self._known.name_of(name):
            value = yield Call(place, name, list(args), dict(kwargs))
        else:
            known = ", ".join(self._tools()) or "none"
            self.fail(
                place,
                f"there is no function {name!r}; register it with tools={{{name!r}: ...}}; there "
                f"is {known}",
                f"未找到函数: {name}",
            )
        yield Event("tool_result", place, {"name": name, "value": value})
        return value

    def _agent(self, statement: AgentCall) -> Steps:
        scope = Kept(self.pool)
        given = {one.name: _value(one.node, scope) for one in statement.arguments}
        agent = agents.made(statement.target.name, given, self._tools(), self._known.names)
        text = yield from agent.run(self, statement.place)
        self._agents[statement.target.name] = agent
        yield from self._assign(statement.place, statement.target, text)

    def _judge(self, statement: Judge) -> Steps:
        place, scope = statement.place, Kept(self.pool)
        content = as_text(_value(statement.content, scope))
        classes = _value(statement.classes, scope)
        if not isinstance(classes, list) or not classes:
            self.fail(place, "the classes are a list of texts", "分类必须是非空列表")
        names = [as_text(one) for one in classes]
        reply = yield Ask(
            place,
            [_said(content)],
            system=_JUDGE.format(classes="\n".join(f"- {name}" for name in names)),
            inference=_NEUTRAL,
            choices=(*names, NO_ANSWER),
        )
        found = reply.text.strip()
        yield from self._assign(place, statement.target, found if found in names else NO_ANSWER)

    def _code(self, statement: CodeBlock) -> Steps:
        if statement.kind == "json":
            value: Any = statement.data
        elif statement.kind == "python":
            value = yield from self._python(statement)
        else:
            value = yield from self._words(statement)
        yield from self._assign(statement.place, statement.target, value)

    def _python(self, statement: CodeBlock) -> Steps:
        code, values = bound(statement.text, self.pool.values)
        refuse_unsafe(code)
        return (yield Code(statement.place, code, values))

    def _words(self, statement: CodeBlock) -> Steps:
        """Python that a model writes; it is told of a failure, and may try again."""
        place = statement.place
        messages = [_said(self.pool.fill(statement.text))]
        for left in reversed(range(_TRIES)):
            reply = yield Ask(place, messages, system=_CODER, inference=_NEUTRAL, live=False)
            code = fenced(reply.text)
            try:
                refuse_unsafe(code)
                return (yield Code(place, code, names=("result",)))
            except (Wrong, FlowError) as error:
                if not left:
                    text = error.message
                    self.fail(
                        place, f"the model's code failed: {text}", f"生成的代码执行错误: {text}"
                    )
                told = f"That failed: {error.message}\nWrite the whole program again, mended."
                messages = [*messages, reply.message, _said(told)]
        raise AssertionError


_JUDGE = """Say which one of these classes the user's text belongs to:
{classes}
Reply with the class alone, exactly as it is written above. If it belongs to none of them, reply \
no_answer."""

_CODER = """Write a Python program for the user's task. Put its result into the variable `result`. \
Use only the standard library's modules for calculations, dates and texts; no files, no network. \
Reply with the program alone, in a ```python fence."""


def _value(node: Node, scope: Kept) -> Any:
    value = evaluate(node, scope)
    return None if value is UNDEFINED else value


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}
