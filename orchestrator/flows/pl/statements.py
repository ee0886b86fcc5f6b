"""Statements that have a value: what each asks for, how it reads the answer, and Python in them."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import evaluate_or_none
from orchestrator.flows.members import MOST
from orchestrator.flows.pl.agents import NEUTRAL, build_agent, build_user_message
from orchestrator.flows.pl.nodes import AgentCall, CodeBlock, FunctionCall, Judge, Prompt
from orchestrator.flows.pl.python import (
    PythonMistake,
    bind_variables,
    check_safe,
    find_paths,
    opens_files,
)
from orchestrator.flows.pl.values import ArgumentPool, BareVariable, Pool, as_text
from orchestrator.flows.steps import Ask, Code, Event, Place, ReadFile, Step
from orchestrator.flows.tree import Argument, ScriptError

if TYPE_CHECKING:
    from orchestrator.flows.pl.interpreter import Interpreter

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
NO_ANSWER = "no_answer"
"""What `@condition_judge` gives when the model names none of the classes."""

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
    reply = yield Ask(place, [build_user_message(text)], inference=NEUTRAL, tools=tools, last=last)
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
    arguments = [(one.name, _evaluate(run, statement, one, scope)) for one in statement.arguments]
    args = [value for name, value in arguments if not name]
    kwargs = {name: value for name, value in arguments if name}
    yield from run.warn(statement.place)
    value = yield from run.call(statement.place, statement.name, args, kwargs)
    yield from run.assign(statement.place, statement.target, value)


def _evaluate(
    run: Interpreter, statement: FunctionCall | AgentCall, argument: Argument, scope: ArgumentPool
) -> Any:
    """The value of an argument; what is wrong with it is in its own line."""
    try:
        return evaluate_or_none(argument.node, scope)
    except ScriptError as wrong:
        place = statement.place
        if argument.line:
            place = replace(place, line=place.line + argument.line, column=1)
        run.fail(place, wrong.message, wrong.message_zh)


def agent(run: Interpreter, statement: AgentCall) -> Steps:
    """Has a model work on a task, and makes a tool of it."""
    scope = ArgumentPool(run.pool)
    arguments = {one.name: _evaluate(run, statement, one, scope) for one in statement.arguments}
    yield from run.warn(statement.place)
    built = build_agent(statement.target.name, arguments, run.tools(), run.known.names)
    text = yield from built.run(run, statement.place)
    run.agents[statement.target.name] = built
    yield from run.assign(statement.place, statement.target, text)


def judge(run: Interpreter, statement: Judge) -> Steps:
    """Has the model sort a text into a class."""
    place, scope = statement.place, ArgumentPool(run.pool)
    content = evaluate_or_none(statement.content, scope)
    run.known.work.measure(content)
    content = as_text(content)
    classes = evaluate_or_none(statement.classes, scope)
    if not isinstance(classes, list) or not classes:
        run.fail(place, "the classes are a list of texts", "分类必须是非空列表")
    names = [as_text(one) for one in classes]
    yield from run.warn(place)
    reply = yield Ask(
        place,
        [build_user_message(content)],
        system=_JUDGE.format(classes="\n".join(f"- {name}" for name in names)),
        inference=NEUTRAL,
        choices=(*names, NO_ANSWER),
    )
    found = reply.text.strip()
    yield from run.assign(place, statement.target, found if found in names else NO_ANSWER)


def code(run: Interpreter, statement: CodeBlock) -> Steps:
    """JSON, Python, or words that the model makes Python of."""
    if statement.kind == "json":
        value: Any = _fill_data(run.pool, statement.data)
    elif statement.kind == "python":
        value = yield from _run_written_code(run, statement)
    else:
        value = yield from _run_generated_code(run, statement)
    yield from run.assign(statement.place, statement.target, value)


def _fill_data(pool: Pool, data: Any) -> Any:
    """JSON data with the values of its variables, and their texts in its texts."""
    if isinstance(data, BareVariable):
        return ArgumentPool(pool).variable(data.steps, data)
    if isinstance(data, str):
        return pool.fill(data) if "$" in data else data
    if isinstance(data, list):
        return [_fill_data(pool, one) for one in data]
    if isinstance(data, dict):
        return {name: _fill_data(pool, one) for name, one in data.items()}
    return data


def _run_written_code(run: Interpreter, statement: CodeBlock) -> Steps:
    """Python of the program itself; a mistake has the line of the program that it is in."""
    try:
        text, values, unknown = bind_variables(statement.text, run.pool.values)
        run.pool.unknown += unknown
        yield from run.warn(statement.place)
        return (
            yield from _run_python(run, statement.place, text, values, line=statement.begins.line)
        )
    except PythonMistake as mistake:
        line = statement.begins.line + mistake.line - 1
        place = replace(statement.place, line=line, column=1)
        run.fail(place, mistake.message, mistake.message_zh)


def _run_python(
    run: Interpreter,
    place: Place,
    text: str,
    values: Mapping[str, Any],
    names: Sequence[str] = ("python_res", "result"),
    line: int = 0,
) -> Steps:
    tree = check_safe(text, files=run.files and line > 0)
    files = None
    if opens_files(tree):
        files = yield from _read_files(run, place, find_paths(tree, values))
    yield Event("tool_call", place, {"name": "code", "args": [], "kwargs": {"code": text}})
    value = yield Code(place, text, values, names, line, files)
    yield Event("tool_result", place, {"name": "code", "value": value})
    return value


def _read_files(run: Interpreter, place: Place, paths: Sequence[str]) -> Steps:
    """The texts of the files that code may open, by their paths; what is no file is left out."""
    found: dict[str, str] = {}
    for path in paths:
        text = yield ReadFile(place, path)
        if isinstance(text, str):
            found[path] = text
            run.known.work.measure(text)
    if sum(map(len, found.values())) > MOST:
        run.fail(
            place,
            f"the files that the code opens have more than {MOST} characters together",
            f"代码打开的文件总计超过 {MOST} 个字符",
        )
    return found


def _run_generated_code(run: Interpreter, statement: CodeBlock) -> Steps:
    """Python that a model writes; after a failure it gets the error and may try again."""
    place = statement.place
    messages = [build_user_message(run.pool.fill(statement.text))]
    yield from run.warn(place)
    for left in reversed(range(_TRIES)):
        reply = yield Ask(place, messages, system=_CODER, inference=NEUTRAL)
        fenced = _FENCED.search(reply.text)
        written = (fenced[1] if fenced else reply.text).strip()
        try:
            return (yield from _run_python(run, place, written, {}, ("result",)))
        except (ScriptError, FlowError) as error:
            if not left:
                text = error.message
                run.fail(place, f"the model's code failed: {text}", f"生成的代码执行错误: {text}")
            problem = f"That failed: {error.message}\nWrite the whole program again, mended."
            messages = [*messages, reply.message, build_user_message(problem)]
    raise AssertionError
