"""Reads a program of the workflow language, whole, before anything of it runs."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Literal

from orchestrator.flows.expressions import (
    Argument,
    Node,
    Wrong,
    names_in,
    parse_arguments,
    parse_expression,
)
from orchestrator.flows.pl.lines import FENCE, Lines, closing, outside_quotes
from orchestrator.flows.pl.nodes import (
    AgentCall,
    Block,
    Branch,
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
from orchestrator.flows.steps import Place

__all__ = ["read_program"]

_ARROW = re.compile(r"(?P<arrow>->|>>)[ \t]*\$?(?P<name>[A-Za-z_]\w*)[ \t]*$", re.ASCII)
_AFTER = re.compile(r"[ \t]*(?:(?P<arrow>->|>>)[ \t]*\$?(?P<name>[A-Za-z_]\w*))?[ \t]*$", re.ASCII)
_CALL = re.compile(r"@(?P<name>[^\W\d]\w*)[ \t]*\(")
_BREAKPOINT = re.compile(r"@?\((?:bp)\)\s*$")
_FOR = re.compile(r"FOR[ \t]+(?P<name>\S+)(?P<in>[ \t]+in[ \t]+)?(?P<items>.*)$", re.DOTALL)
_LOOP_NAME = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*$")
_WORDS = ("IF", "elif", "else:", "END", "FOR")
_NONE = "None"
_DEEPEST = 50
_AGENT_ARGUMENTS = ("type", "task", "roles", "tools")
_AGENT_TYPES = ("auto-decision", "bambo", "prompt-based")


def read_program(text: str, file: str | None = None) -> Block:
    """Reads a program.

    Raises:
        FlowError: It is wrong, with line and column.
    """
    return _Reader(Lines(text, file)).program()


class _Reader:
    """Reads statement by statement; `_at` is the line that comes next."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._at = 0

    def program(self) -> Block:
        body = self._block(0, 0)
        if self._at < len(self._lines.lines):
            word = self._line().split(":")[0].split()[0]
            self._fail(f"{word!r} belongs to no FOR and no IF", f"{word!r} 没有对应的 FOR 或 IF")
        return body

    # Lines

    def _line(self) -> str:
        return self._lines.lines[self._at].strip()

    def _indent(self) -> int:
        line = self._lines.lines[self._at].expandtabs(4)
        return len(line) - len(line.lstrip())

    def _offset(self) -> int:
        line = self._lines.lines[self._at]
        return self._lines.start(self._at) + len(line) - len(line.lstrip())

    def _fail(self, message: str, message_zh: str) -> None:
        self._lines.fail(self._offset(), message, message_zh)

    def _skip(self) -> bool:
        """Passes over blank lines and comments; whether a line is left."""
        lines = self._lines.lines
        while self._at < len(lines):
            if self._line() and not self._is_comment():
                return True
            self._at += 1
        return False

    def _is_comment(self) -> bool:
        # `#` begins a heading of a prompt, too: a comment is followed by a statement.
        lines = self._lines.lines
        at = self._at
        while at < len(lines) and (not lines[at].strip() or _hash(lines[at])):
            at += 1
        return _hash(lines[self._at]) and (at == len(lines) or _begins(lines[at].strip()))

    # Blocks

    def _block(self, indent: int, depth: int) -> Block:
        """The statements that are indented by at least `indent`."""
        if depth > _DEEPEST:
            self._fail("the program is nested too deeply", "程序嵌套过深")
        found: list[Statement] = []
        while self._skip():
            line = self._line()
            if line in ("END", "else:") or _is_elif(line):
                break
            if self._indent() < indent:
                self._fail(
                    f"the line is not indented as its block is; indent it by {indent} spaces, or "
                    "write END before it",
                    f"缩进不正确，应缩进 {indent} 个空格，或在此前写 END",
                )
            found.append(self._statement(depth))
        return tuple(found)

    def _statement(self, depth: int) -> Statement:
        line = self._line()
        if _BREAKPOINT.match(line):
            place = self._lines.place(self._offset())
            self._at += 1
            return Breakpoint(place)
        if line.startswith("FOR ") and (line.endswith(":") or line.startswith("FOR $")):
            return self._loop(depth)
        if _is_if(line):
            return self._if(depth)
        if _CALL.match(line):
            return self._call()
        return self._prompt()

    def _end(self, header: Place, indent: int, word: str) -> None:
        if self._at >= len(self._lines.lines) or self._line() != "END":
            self._lines.fail(
                self._start_of(header),
                f"the {word} has no END; write one with the same indentation",
                f"{word} 缺少 END",
            )
        if self._indent() != indent:
            self._fail(
                f"this END is not indented as its {word} in line {header.line}",
                f"END 的缩进与第 {header.line} 行的 {word} 不一致",
            )
        self._at += 1

    def _start_of(self, place: Place) -> int:
        return self._lines.start(place.line - 1) + place.column - 1

    def _body(self, indent: int, depth: int) -> Block:
        if not self._skip():
            return ()
        inner = self._indent()
        line = self._line()
        if inner <= indent and not (line in ("END", "else:") or _is_elif(line)):
            self._fail(
                f"what stands in a block is indented more than its header ({indent} spaces)",
                "代码块内的语句必须缩进",
            )
        return self._block(inner, depth + 1)

    def _loop(self, depth: int) -> Loop:
        indent, offset = self._indent(), self._offset()
        place = self._lines.place(offset)
        header = self._header("FOR")
        parts = _FOR.match(header)
        if parts is None or parts["in"] is None:
            self._lines.fail(
                offset,
                "the FOR has no 'in'; write FOR $item in $list:",
                "FOR循环语法错误：缺少 'in' 关键字",
            )
        name = parts["name"]
        if not _LOOP_NAME.match(name):
            self._lines.fail(
                offset + parts.start("name"),
                f"{name!r} is no variable; write FOR $item in $list:",
                f"无效的循环变量名: {name}",
            )
        items = self._expression(parts["items"], offset + parts.start("items"))
        body = self._body(indent, depth)
        self._end(place, indent, "FOR")
        return Loop(place, name[1:], items, body)

    def _if(self, depth: int) -> If:
        indent, place = self._indent(), self._lines.place(self._offset())
        branches = [self._branch("IF", indent, depth)]
        while self._skip() and _is_elif(self._line()):
            self._same(indent, place, "elif")
            branches.append(self._branch("elif", indent, depth))
        if self._at < len(self._lines.lines) and self._line() == "else:":
            self._same(indent, place, "else")
            at = self._lines.place(self._offset())
            self._at += 1
            branches.append(Branch(at, None, self._body(indent, depth)))
        self._end(place, indent, "IF")
        return If(place, branches)

    def _same(self, indent: int, header: Place, word: str) -> None:
        if self._indent() != indent:
            self._fail(
                f"this {word} is not indented as its IF in line {header.line}",
                f"{word} 的缩进与第 {header.line} 行的 IF 不一致",
            )

    def _branch(self, word: str, indent: int, depth: int) -> Branch:
        offset = self._offset()
        place = self._lines.place(offset)
        header = self._header(word)
        condition = self._expression(header[len(word) :], offset + len(word))
        return Branch(place, condition, self._body(indent, depth))

    def _header(self, word: str) -> str:
        """The header that begins in this line, up to its colon; conditions may have more lines."""
        offset, text = self._offset(), self._lines.text
        depth = 0
        for at, letter in outside_quotes(text, offset):
            depth += (letter in "([{") - (letter in ")]}")
            if letter == ":" and depth == 0 and _ends_line(text, at + 1):
                self._at = self._lines.line_of(at) + 1
                return text[offset:at]
            if letter == "\n" and depth <= 0:
                break
        self._fail(f"the {word} has no colon at its end", f"{word} 语句末尾缺少冒号")
        raise AssertionError

    def _expression(self, text: str, offset: int) -> Node:
        try:
            node = parse_expression(text)
            _refuse_names(node)
        except Wrong as wrong:
            self._wrong(wrong, offset, text)
        return node

    def _wrong(self, wrong: Wrong, offset: int, text: str) -> None:
        skipped = 0 if wrong.offset else len(text) - len(text.lstrip())
        self._lines.fail(offset + wrong.offset + skipped, wrong.message, wrong.message_zh)

    # Calls

    def _call(self) -> Statement:
        offset, text = self._offset(), self._lines.text
        found = _CALL.match(text, offset)
        if found is None:
            raise AssertionError("the line begins a call")
        name, opened = found["name"], found.end() - 1
        closed = closing(text, opened)
        if closed < 0:
            self._lines.fail(
                opened,
                f"the bracket of @{name}(...) is not closed; is there a quote without its other?",
                f"@{name}(...) 的括号没有闭合，请检查引号",
            )
        end = text.find("\n", closed)
        rest = text[closed + 1 : end if end >= 0 else len(text)]
        after = _AFTER.match(rest)
        if after is None:
            self._lines.fail(
                closed + 1,
                f"{rest.strip()!r} does not belong behind @{name}(...); write -> and a variable",
                f"@{name}(...) 之后只能写 -> 或 >> 和变量名",
            )
        place = self._lines.place(offset)
        inner = text[opened + 1 : closed]
        self._at = self._lines.line_of(closed) + 1
        target = _target(after)
        if target is None and name != "exit":
            self._lines.fail(
                offset,
                f"@{name}(...) has no arrow; write -> and a variable, or -> None",
                f"@{name}(...) 缺少 -> 或 >>，没有返回值请写 -> None",
            )
        return self._made(name, place, inner, opened + 1, target or Target(""))

    def _made(self, name: str, place: Place, inner: str, offset: int, target: Target) -> Statement:
        if name == "code":
            return self._code(place, inner, offset, target)
        arguments = self._arguments(inner, offset)
        if name == "exit":
            return self._exit(place, arguments, offset)
        if name == "condition_judge":
            return self._judge(place, arguments, offset, target)
        if name == "agent":
            return self._agent(place, arguments, offset, target)
        return FunctionCall(place, name, arguments, target)

    def _arguments(self, inner: str, offset: int) -> list[Argument]:
        try:
            arguments = parse_arguments(inner)
            for one in arguments:
                _refuse_names(one.node)
        except Wrong as wrong:
            self._wrong(wrong, offset, inner)
        return arguments

    def _exit(self, place: Place, arguments: Sequence[Argument], offset: int) -> Exit:
        if len(arguments) > 1 or any(one.name not in ("", "msg") for one in arguments):
            self._lines.fail(offset, '@exit takes msg="..."', '@exit 只接受 msg="..."')
        return Exit(place, arguments[0].node if arguments else None)

    def _judge(
        self, place: Place, arguments: Sequence[Argument], offset: int, target: Target
    ) -> Judge:
        if len(arguments) != 2 or any(one.name for one in arguments):
            self._lines.fail(
                offset,
                "@condition_judge takes what is judged and a list of classes",
                "@condition_judge 需要两个参数：内容和分类列表",
            )
        content, classes = (one.node for one in arguments)
        return Judge(place, content, classes, target)

    def _agent(
        self, place: Place, arguments: Sequence[Argument], offset: int, target: Target
    ) -> AgentCall:
        named = {one.name: one.node for one in arguments}
        wrong = next((name for name in named if name not in _AGENT_ARGUMENTS), None)
        if wrong is not None:
            known = ", ".join(_AGENT_ARGUMENTS)
            what = f"@agent takes {known} by name, and not {wrong or 'an argument without one'!r}"
            self._lines.fail(offset, what, f"@agent 的参数是 {known}")
        if "task" not in named:
            self._lines.fail(offset, "@agent has no task", "@agent 缺少 task 参数")
        kind = named.get("type")
        if kind is not None and kind.kind == "text" and kind.value not in _AGENT_TYPES:
            self._lines.fail(
                offset + kind.offset,
                f"there is no agent type {kind.value!r}; there are {', '.join(_AGENT_TYPES)}",
                f"未知的Agent类型: {kind.value}",
            )
        if not target.name or target.append:
            self._lines.fail(
                offset, "an agent needs a name: write -> name", "@agent 需要用 -> 指定名称"
            )
        return AgentCall(place, arguments, target)

    def _code(self, place: Place, inner: str, offset: int, target: Target) -> CodeBlock:
        body = inner.strip()
        if not body.startswith(FENCE):
            if not body:
                self._lines.fail(offset, "@code has nothing to run", "@code 没有内容")
            return CodeBlock(place, "words", body, None, target)
        if not body.endswith(FENCE) or len(body) < 2 * len(FENCE):
            self._lines.fail(offset, "the code fence is not closed", "代码块没有闭合")
        head, _, text = body[len(FENCE) : -len(FENCE)].partition("\n")
        language = head.strip().lower()
        if language not in ("python", "py", "json"):
            self._lines.fail(
                offset,
                f"@code knows ```python and ```json, and not {language!r}",
                f"@code 只支持 ```python 和 ```json，不支持 {language!r}",
            )
        kind: Literal["json", "python"] = "json" if language == "json" else "python"
        data = self._json(text, inner, offset) if kind == "json" else None
        return CodeBlock(place, kind, textwrap.dedent(text.rstrip()), data, target)

    def _json(self, text: str, inner: str, offset: int) -> object:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            at = offset + inner.index(text) + min(error.pos, len(text))
            self._lines.fail(at, f"no JSON: {error.msg}", f"JSON 解析错误: {error.msg}")
        except RecursionError:
            self._lines.fail(offset, "the JSON is nested too deeply", "JSON 嵌套过深")
        raise AssertionError

    # Texts for the model

    def _prompt(self) -> Prompt:
        first, indent = self._at, self._indent()
        place = self._lines.place(self._offset())
        lines: list[str] = []
        fenced = False
        while self._at < len(self._lines.lines):
            line = self._lines.lines[self._at]
            if self._at > first and not fenced and _begins(line.strip()):
                break
            fenced ^= line.count(FENCE) % 2 == 1
            self._at += 1
            arrow = None if fenced else _ARROW.search(line)
            lines.append(line[: arrow.start()] if arrow else line)
            if arrow:
                target = _target(arrow) or Target("")
                return Prompt(place, _unindented(lines, indent), target)
        self._at = first
        self._fail(
            "the text has no arrow; write -> and a variable at its end",
            "语句缺少 -> 或 >>，请在末尾写明变量名",
        )
        raise AssertionError


def _hash(line: str) -> bool:
    return line.strip().startswith("#")


def _is_if(line: str) -> bool:
    if not re.match(r"IF[ \t(]", line):
        return False
    return line.endswith((":", "(", "and", "or", ",")) or _ARROW.search(line) is None


def _is_elif(line: str) -> bool:
    return re.match(r"elif[ \t(]", line) is not None


def _begins(line: str) -> bool:
    """Whether a line begins a statement that is no text for the model."""
    if line in ("END", "else:") or _BREAKPOINT.match(line) or _CALL.match(line):
        return True
    return line.endswith(":") and line.startswith(("FOR $", "IF ", "elif "))


def _ends_line(text: str, at: int) -> bool:
    end = text.find("\n", at)
    return not text[at : end if end >= 0 else len(text)].strip()


def _target(found: re.Match[str]) -> Target | None:
    name, arrow = found["name"], found["arrow"]
    if arrow is None:
        return None
    return Target("" if name == _NONE else name, arrow == ">>")


def _unindented(lines: Sequence[str], indent: int) -> str:
    """A text without the indentation of its block."""
    made = []
    for line in lines:
        own = len(line) - len(line.lstrip())
        made.append(line[min(own, indent) :])
    return "\n".join(made).strip()


def _refuse_names(node: Node) -> None:
    for one in names_in(node):
        written = one.value if one.kind == "name" else "this"
        raise Wrong(
            f"{written!r} is no value: write ${written} for a variable, or quotes around a text",
            f"{written!r} 不是值：变量请写 ${written}，文本请加引号",
            one.offset,
        )
