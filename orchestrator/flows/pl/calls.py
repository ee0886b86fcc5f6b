"""Reads `@name(...)` of a program: functions, code, judgements, agents and the exit."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from orchestrator.flows.expressions import (
    FENCE,
    find_closing_bracket,
    parse_arguments,
    parse_expression,
)
from orchestrator.flows.pl.lines import CALL, Lines
from orchestrator.flows.pl.nodes import (
    AgentCall,
    CodeBlock,
    Exit,
    FunctionCall,
    Judge,
    Statement,
    Target,
)
from orchestrator.flows.pl.python import PythonMistake, check_python
from orchestrator.flows.pl.values import USE, BareVariable, steps_of
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument, Node, ScriptError, names_in
from orchestrator.support.safe_json import read_json

AGENT_TYPES = ("auto-decision", "bambo", "explore", "prompt-based")

_AFTER = re.compile(r"[ \t]*(?:(?P<arrow>->|>>)[ \t]*\$?(?P<name>[A-Za-z_]\w*)[ \t]*)?$", re.ASCII)
_WITH_ARROW = re.compile(r"[ \t]*(?:->|>>)[ \t]*\$?[A-Za-z_]\w*[ \t]*$", re.ASCII | re.MULTILINE)
_LANGUAGE = re.compile(r"[ \t]*(?P<name>python|py|json)(?:[ \t]*\n|[ \t]+)", re.IGNORECASE)
_AGENT_ARGUMENTS = ("type", "task", "roles", "tools")


def read_target(found: re.Match[str]) -> Target | None:
    """Where a value goes: the groups `arrow` and `name`; `None` when there is no arrow."""
    name, arrow = found["name"], found["arrow"]
    if arrow is None:
        return None
    return Target("" if name == "None" else name, arrow == ">>")


def read_expression(lines: Lines, text: str, offset: int) -> Node:
    """Reads an expression."""
    try:
        node = parse_expression(text)
        _refuse_names(node)
    except ScriptError as wrong:
        _refuse(lines, wrong, offset, text)
    return node


def _refuse(lines: Lines, wrong: ScriptError, offset: int, text: str) -> NoReturn:
    skipped = 0 if wrong.offset else len(text) - len(text.lstrip())
    lines.fail(offset + wrong.offset + skipped, wrong.message, wrong.message_zh)


def _refuse_names(node: Node) -> None:
    for one in names_in(node):
        if one.kind != "name":
            raise ScriptError(
                "members, calls, ?: and => are PPE's: write ${a.b} for a path, or use @code",
                "此处不支持成员访问、调用、?: 和 =>：路径请写 ${a.b}，或使用 @code",
                one.offset,
            )
        written = one.value
        raise ScriptError(
            f"{written!r} is no value: write ${written} for a variable, or quotes around a text",
            f"{written!r} 不是值：变量请写 ${written}，文本请加引号",
            one.offset,
        )


def read_call(lines: Lines, offset: int) -> tuple[Statement, int]:
    """Reads the call that begins at a place; it, and the line after it."""
    text = lines.text
    found = CALL.match(text, offset)
    if found is None:
        raise AssertionError("a call begins here")
    name, opened = found["name"], found.end() - 1
    if found["open"] != "(":
        lines.fail(
            opened,
            f"{found['open']!r} is a full-width sign; write '('",
            f"{found['open']!r} 是全角符号，请使用 '('",
        )
    closed = find_closing_bracket(text, opened)
    if closed < 0 and name == "code":
        closed = _end_of_words(text, opened)
    if closed < 0:
        lines.fail(
            opened,
            f"the bracket of @{name}(...) is not closed; is there a quote without its other?",
            f"@{name}(...) 的括号没有闭合，请检查引号",
        )
    target = _after(lines, name, offset, closed)
    inner = text[opened + 1 : closed]
    reader = _CallReader(lines, lines.place(offset), inner, opened + 1)
    return reader.read_statement(name, target), lines.line_of(closed) + 1


def _end_of_words(text: str, opened: int) -> int:
    """Where words for the model end that have a quote without its other, such as "what's".

    There, brackets count wherever they stand, up to one with an arrow behind it.
    """
    if text[opened + 1 :].lstrip().startswith(FENCE):
        return -1
    depth = 0
    for at in range(opened, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if text[at] == ")" and depth <= 0 and _WITH_ARROW.match(text, at + 1):
            return at
    return -1


def _after(lines: Lines, name: str, offset: int, closed: int) -> Target:
    end = lines.text.find("\n", closed)
    rest = lines.text[closed + 1 : end if end >= 0 else len(lines.text)]
    after = _AFTER.match(rest)
    if after is None:
        lines.fail(
            closed + 1,
            f"{rest.strip()!r} does not belong behind @{name}(...); write -> and a variable",
            f"@{name}(...) 之后只能写 -> 或 >> 和变量名",
        )
    target = read_target(after)
    if target is None and name != "exit":
        lines.fail(
            offset,
            f"@{name}(...) has no arrow; write -> and a variable, or -> None",
            f"@{name}(...) 缺少 -> 或 >>，没有返回值请写 -> None",
        )
    return target or Target("")


class _CallReader:
    """Reads what stands in the brackets of one call."""

    def __init__(self, lines: Lines, place: Place, inner: str, offset: int) -> None:
        self._lines = lines
        self._place = place
        self._inner = inner
        self._offset = offset

    def read_statement(self, name: str, target: Target) -> Statement:
        if name == "code":
            return self._code(target)
        arguments = self._arguments()
        if name == "exit":
            return self._exit(arguments)
        if name == "condition_judge":
            return self._judge(arguments, target)
        if name == "agent":
            return self._agent(arguments, target)
        return FunctionCall(self._place, name, arguments, target)

    def _fail(self, message: str, message_zh: str, further: int = 0) -> NoReturn:
        self._lines.fail(self._offset + further, message, message_zh)

    def _arguments(self) -> list[Argument]:
        try:
            arguments = parse_arguments(self._inner)
            for one in arguments:
                _refuse_names(one.node)
        except ScriptError as wrong:
            _refuse(self._lines, wrong, self._offset, self._inner)
        return arguments

    def _exit(self, arguments: Sequence[Argument]) -> Exit:
        if len(arguments) > 1 or any(one.name not in ("", "msg") for one in arguments):
            self._fail('@exit takes msg="..."', '@exit 只接受 msg="..."')
        return Exit(self._place, arguments[0].node if arguments else None)

    def _judge(self, arguments: Sequence[Argument], target: Target) -> Judge:
        if len(arguments) != 2 or any(one.name for one in arguments):
            self._fail(
                "@condition_judge takes what is judged and a list of classes",
                "@condition_judge 需要两个参数：内容和分类列表",
            )
        content, classes = (one.node for one in arguments)
        return Judge(self._place, content, classes, target)

    def _agent(self, arguments: Sequence[Argument], target: Target) -> AgentCall:
        named = {one.name: one.node for one in arguments}
        known = ", ".join(_AGENT_ARGUMENTS)
        for one in arguments:
            if one.name not in _AGENT_ARGUMENTS:
                what = repr(one.name) if one.name else "an argument without one"
                self._fail(
                    f"@agent takes {known} by name, and not {what}",
                    f"@agent 的参数是 {known}",
                    one.node.offset,
                )
        if "task" not in named:
            self._fail("@agent has no task", "@agent 缺少 task 参数")
        kind = named.get("type")
        if kind is not None and kind.kind == "text" and kind.value not in AGENT_TYPES:
            self._fail(
                f"there is no agent type {kind.value!r}; there are {', '.join(AGENT_TYPES)}",
                f"未知的Agent类型: {kind.value}",
                kind.offset,
            )
        if not target.name or target.append:
            self._fail("an agent needs a name: write -> name", "@agent 需要用 -> 指定名称")
        return AgentCall(self._place, arguments, target)

    def _code(self, target: Target) -> CodeBlock:
        body = self._inner.strip()
        if not body.startswith(FENCE):
            if not body:
                self._fail("@code has nothing to run", "@code 没有内容")
            return CodeBlock(self._place, "words", body, None, target)
        if not body.endswith(FENCE) or len(body) < 2 * len(FENCE):
            self._fail("the code fence is not closed", "代码块没有闭合")
        fenced = body[len(FENCE) : -len(FENCE)]
        found = _LANGUAGE.match(fenced)
        language = found["name"].lower() if found else fenced.partition("\n")[0].strip().lower()
        if found is None:
            self._fail(
                f"@code knows ```python and ```json, and not {language!r}",
                f"@code 只支持 ```python 和 ```json，不支持 {language!r}",
            )
        kind: Literal["json", "python"] = "json" if language == "json" else "python"
        text = fenced[found.end() :]
        begins = self._inner.index(FENCE) + len(FENCE) + found.end()
        data = self._json(text, begins) if kind == "json" else None
        code = textwrap.dedent(text.rstrip())
        line = self._lines.line_of(self._offset + begins)
        if kind == "python":
            self._check_python(code, line)
        place = self._lines.place(self._lines.begins(line))
        return CodeBlock(self._place, kind, code, data, target, place)

    def _check_python(self, code: str, line: int) -> None:
        try:
            check_python(code)
        except PythonMistake as mistake:
            at = min(line + mistake.line - 1, len(self._lines.lines) - 1)
            self._lines.fail(self._lines.begins(at), mistake.message, mistake.message_zh)

    def _json(self, text: str, begins: int) -> object:
        marked = _BARE.sub(_mark_bare, text)
        try:
            return read_json(marked, object_hook=_read_mark, parse_constant=_no_number)
        except json.JSONDecodeError as error:
            at = begins + min(_place_without_marks(text, error.pos), len(text))
            self._fail(f"no JSON: {error.msg}", f"JSON 解析错误: {error.msg}", at)
        except ValueError as error:  # a number of too many digits, or none
            self._fail(f"no JSON: {error}", f"JSON 解析错误: {error}", begins)
        except RecursionError:
            self._fail("the JSON is nested too deeply", "JSON 嵌套过深", begins)


# A text of JSON, closed or not, or a variable outside of texts
_BARE = re.compile(rf'"(?:[^"\\]|\\.)*+"?|(?P<use>{USE.pattern})', re.DOTALL)
_MARK = "\0"


def _mark_bare(found: re.Match[str]) -> str:
    """JSON that stands for a variable outside of texts; a text stays as it is."""
    return json.dumps({_MARK: found["use"]}) if found["use"] else found[0]


def _read_mark(members: dict[str, Any]) -> Any:
    if _MARK not in members:
        return members
    variable = BareVariable(members[_MARK])
    found = USE.fullmatch(variable)
    steps = steps_of(found) if found else None
    if steps is None:
        raise ValueError(f"{str(variable)!r} is no variable")
    variable.steps = steps
    return variable


def _place_without_marks(text: str, place: int) -> int:
    """Where a place of the marked text is in the text itself."""
    for found in _BARE.finditer(text):
        if place <= found.start():
            break
        place -= len(_mark_bare(found)) - len(found[0])
    return place


def _no_number(written: str) -> NoReturn:
    raise ValueError(f"{written} is no number")
