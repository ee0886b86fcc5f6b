"""Statements that have a value: what each asks for, how it reads the answer, and Python in them."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import UNDEFINED, evaluate_or_none
from orchestrator.flows.pl.agents import NEUTRAL, build_agent, build_user_message
from orchestrator.flows.pl.nodes import AgentCall, CodeBlock, FunctionCall, Judge, Prompt
from orchestrator.flows.pl.values import USE, ArgumentPool, as_text, value_of
from orchestrator.flows.steps import Ask, Code, Event, Place, Step
from orchestrator.flows.tree import ScriptError

if TYPE_CHECKING:
    from orchestrator.flows.pl.interpreter import Interpreter

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_STRING = re.compile(
    r"(\"\"\"|''')(?:[^\\]|\\.)*?\1|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#[^\n]*", re.DOTALL
)
_MODULES = frozenset(
    "bisect calendar collections copy csv datetime decimal difflib fractions functools heapq "
    "itertools json math operator random re statistics string textwrap unicodedata".split()
)
_NAMES = frozenset(
    "open eval exec compile input breakpoint globals locals vars getattr setattr delattr help "
    "memoryview".split()
)
_TAKEN = frozenset((*dir(builtins), *keyword.kwlist, *_NAMES))


def bind_variables(code: str, pool: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Code with names in place of its variables, and those names' values.

    A `$name` in a string or a comment of the code is left as it is: pasting a value there could end
    the string.
    """
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    def replace_variable(found: re.Match[str]) -> str:
        value = value_of(found, pool)
        if value is UNDEFINED:
            raise ScriptError(
                f"{found[0]!r} is not defined", f"变量 {found[0]} 未定义", found.start()
            )
        name = names.setdefault(found[0], _name(found["name"], len(names), code))
        values[name] = value
        return name

    pieces, at = [], 0
    for quoted in _STRING.finditer(code):
        pieces += [USE.sub(replace_variable, code[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    pieces.append(USE.sub(replace_variable, code[at:]))
    return "".join(pieces), values


def _name(name: str | None, count: int, code: str) -> str:
    """The name in Python of a variable: its own, unless Python or the code has it already."""
    if name and not (name in _TAKEN or name.startswith("__")):
        return name
    while (made := f"value_{count}") in code:
        count += 1
    return made


def refuse_unsafe(code: str) -> None:
    """Refuses what reaches out of the program, before the sandbox would, and what is no Python."""
    try:
        tree = ast.parse(code)
        list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None)
        where = f" (its line {line})" if line else ""
        raise ScriptError(
            f"no Python{where}: {getattr(error, 'msg', error)}", f"Python 代码有误: {error}"
        ) from None
    for node in ast.walk(tree):
        if found := _find_unsafe(node):
            raise ScriptError(f"the code may not use {found}", f"代码中不允许使用 {found}")


def _find_unsafe(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        wrong = [one.name for one in node.names if one.name.split(".")[0] not in _MODULES]
        return f"the module {wrong[0]!r}" if wrong else ""
    if isinstance(node, ast.ImportFrom):
        module = (node.module or "").split(".")[0]
        return "" if module in _MODULES and not node.level else f"the module {node.module!r}"
    if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        return f"the attribute {node.attr!r}"
    if isinstance(node, ast.Name) and (node.id in _NAMES or node.id.startswith("__")):
        return repr(node.id)
    return ""


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
    arguments = [(one.name, evaluate_or_none(one.node, scope)) for one in statement.arguments]
    args = [value for name, value in arguments if not name]
    kwargs = {name: value for name, value in arguments if name}
    yield from run.warn(statement.place)
    value = yield from run.call(statement.place, statement.name, args, kwargs)
    yield from run.assign(statement.place, statement.target, value)


def agent(run: Interpreter, statement: AgentCall) -> Steps:
    """Has a model work on a task, and makes a tool of it."""
    scope = ArgumentPool(run.pool)
    arguments = {one.name: evaluate_or_none(one.node, scope) for one in statement.arguments}
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
        value: Any = statement.data
    elif statement.kind == "python":
        text, values = bind_variables(statement.text, run.pool.values)
        value = yield from _run_python(statement.place, text, values)
    else:
        value = yield from _run_generated_code(run, statement)
    yield from run.assign(statement.place, statement.target, value)


def _run_python(
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
    """Python that a model writes; after a failure it gets the error and may try again."""
    place = statement.place
    messages = [build_user_message(run.pool.fill(statement.text))]
    yield from run.warn(place)
    for left in reversed(range(_TRIES)):
        reply = yield Ask(place, messages, system=_CODER, inference=NEUTRAL)
        fenced = _FENCED.search(reply.text)
        written = (fenced[1] if fenced else reply.text).strip()
        try:
            return (yield from _run_python(place, written, {}, ("result",)))
        except (ScriptError, FlowError) as error:
            if not left:
                text = error.message
                run.fail(place, f"the model's code failed: {text}", f"生成的代码执行错误: {text}")
            problem = f"That failed: {error.message}\nWrite the whole program again, mended."
            messages = [*messages, reply.message, build_user_message(problem)]
    raise AssertionError
