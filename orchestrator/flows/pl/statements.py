"""Statements of a program that have a value: what each asks for, and makes of the answer."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import UNDEFINED, evaluate
from orchestrator.flows.pl import agents
from orchestrator.flows.pl.code import bind_variables, extract_code, refuse_unsafe
from orchestrator.flows.pl.nodes import AgentCall, CodeBlock, FunctionCall, Judge, Prompt
from orchestrator.flows.pl.values import ArgumentPool, LenientPool, as_text
from orchestrator.flows.steps import Ask, Code, Event, Place, Step
from orchestrator.flows.tree import Node, ScriptError

if TYPE_CHECKING:
    from orchestrator.flows.pl.interpreter import Interpreter


NO_ANSWER = "no_answer"
"""What `@condition_judge` gives when the model names none of the classes."""

_NEUTRAL: Mapping[str, Any] = {"temperature": 0}
_TRIES = 3

Steps = Generator[Step, Any, Any]


_JUDGE = """Say which one of these classes the user's text belongs to:
{classes}
Reply with the class alone, exactly as it is written above. If it belongs to none of them, reply \
no_answer."""

_CODER = """Write a Python program for the user's task. Put its result into the variable `result`. \
Use only the standard library's modules for calculations, dates and texts; no files, no network. \
Reply with the program alone, in a ```python fence."""


def prompt(run: Interpreter, statement: Prompt, last: bool) -> Steps:
    """Sends a text to the model; a call that it makes is carried out, and is the value."""
    place, text = statement.place, run.pool.fill(statement.text)
    yield from run.warn(place)
    tools = list(run.tools().values())
    reply = yield Ask(
        place, [_build_user_message(text)], inference=_NEUTRAL, tools=tools, last=last
    )
    value: Any = reply.text
    if reply.calls:
        values = []
        for call in reply.calls:
            values.append((yield from run.call(place, call["name"], (), call["input"])))
        value = values[0] if len(values) == 1 else values
    yield from run.assign(place, statement.target, value)


def function(run: Interpreter, statement: FunctionCall) -> Steps:
    """Calls a function, or an agent of the program."""
    scope = ArgumentPool(run.pool)
    given = [(one.name, value_of(one.node, scope)) for one in statement.arguments]
    args = [value for name, value in given if not name]
    kwargs = {name: value for name, value in given if name}
    yield from run.warn(statement.place)
    value = yield from run.call(statement.place, statement.name, args, kwargs)
    yield from run.assign(statement.place, statement.target, value)


def agent(run: Interpreter, statement: AgentCall) -> Steps:
    """Has a model work on a task, and makes a tool of it."""
    scope = ArgumentPool(run.pool)
    given = {one.name: value_of(one.node, scope) for one in statement.arguments}
    yield from run.warn(statement.place)
    made = agents.build_agent(statement.target.name, given, run.tools(), run.known.names)
    text = yield from made.run(run, statement.place)
    run.agents[statement.target.name] = made
    yield from run.assign(statement.place, statement.target, text)


def judge(run: Interpreter, statement: Judge) -> Steps:
    """Has the model sort a text into a class."""
    place, scope = statement.place, ArgumentPool(run.pool)
    content = as_text(value_of(statement.content, scope))
    classes = value_of(statement.classes, scope)
    if not isinstance(classes, list) or not classes:
        run.fail(place, "the classes are a list of texts", "分类必须是非空列表")
    names = [as_text(one) for one in classes]
    yield from run.warn(place)
    reply = yield Ask(
        place,
        [_build_user_message(content)],
        system=_JUDGE.format(classes="\n".join(f"- {name}" for name in names)),
        inference=_NEUTRAL,
        choices=(*names, NO_ANSWER),
    )
    found = reply.text.strip()
    yield from run.assign(place, statement.target, found if found in names else NO_ANSWER)


def code(run: Interpreter, statement: CodeBlock) -> Steps:
    """JSON, Python, or words that the model makes Python of."""
    if statement.kind == "json":
        value: Any = statement.data
    elif statement.kind == "python":
        value = yield from _run_python(run, statement)
    else:
        value = yield from _run_generated_code(run, statement)
    yield from run.assign(statement.place, statement.target, value)


def _run_python(run: Interpreter, statement: CodeBlock) -> Steps:
    text, values = bind_variables(statement.text, run.pool.values)
    return (yield from _run(statement.place, text, values))


def _run(
    place: Place,
    text: str,
    values: Mapping[str, Any],
    names: Sequence[str] = ("python_res", "result"),
) -> Steps:
    refuse_unsafe(text)
    yield Event("tool_call", place, {"name": "code", "args": [], "kwargs": {"code": text}})
    value = yield Code(place, text, values, names)
    yield Event("tool_result", place, {"name": "code", "value": value})
    return value


def _run_generated_code(run: Interpreter, statement: CodeBlock) -> Steps:
    """Python that a model writes; it is told of a failure, and may try again."""
    place = statement.place
    messages = [_build_user_message(run.pool.fill(statement.text))]
    yield from run.warn(place)
    for left in reversed(range(_TRIES)):
        reply = yield Ask(place, messages, system=_CODER, inference=_NEUTRAL)
        written = extract_code(reply.text)
        try:
            return (yield from _run(place, written, {}, ("result",)))
        except (ScriptError, FlowError) as error:
            if not left:
                text = error.message
                run.fail(place, f"the model's code failed: {text}", f"生成的代码执行错误: {text}")
            told = f"That failed: {error.message}\nWrite the whole program again, mended."
            messages = [*messages, reply.message, _build_user_message(told)]
    raise AssertionError


def value_of(node: Node, scope: LenientPool) -> Any:
    """The value of an argument; `None` for what has none."""
    value = evaluate(node, scope)
    return None if value is UNDEFINED else value


def _build_user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}
