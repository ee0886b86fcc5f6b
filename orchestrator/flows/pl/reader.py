"""Reads a program of the workflow language, whole, before anything of it runs.

A text for the model goes on up to a line that ends in an arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from orchestrator.flows.expressions import FENCE, outside_quotes
from orchestrator.flows.pl.calls import read_call, read_expression, read_target
from orchestrator.flows.pl.lines import (
    ARROW,
    BREAKPOINT,
    CALL,
    ELSE,
    WRONG_ARROW,
    Lines,
    begins_statement,
    continues_condition,
    ends_block,
    is_comment,
    is_elif,
    is_for,
    is_if,
    is_incomplete,
    suggest_keyword,
)
from orchestrator.flows.pl.nodes import (
    Block,
    Branch,
    Breakpoint,
    If,
    Loop,
    Prompt,
    Statement,
    Target,
)
from orchestrator.flows.steps import Place
from orchestrator.support.spelling import did_you_mean

_OTHER_ARROWS = ("→", "⇒", "－>", "－＞", "-＞", "》》", "＞＞", "=>")


def read_prompt(lines: Lines, first: int) -> tuple[Prompt, int]:
    """Reads the text that begins in a line; it, and the line after it."""
    found: list[str] = []
    fenced = False
    for at in range(first, len(lines.lines)):
        line = lines.lines[at]
        if at > first and not fenced and begins_statement(line.strip()):
            break
        fenced ^= line.count(FENCE) % 2 == 1
        arrow = None if fenced else ARROW.search(line)
        found.append(line[: arrow.start()] if arrow else line)
        if arrow:
            text = _dedent(found, lines.indent(first))
            if not text:
                lines.fail(
                    lines.start(first),
                    "there is nothing to ask before the arrow",
                    "箭头之前没有内容",
                )
            place = lines.place(lines.begins(first))
            return Prompt(place, text, read_target(arrow) or Target("")), at + 1
    _refuse(lines, first, found)


def _refuse(lines: Lines, first: int, found: Sequence[str]) -> NoReturn:
    refuse_case(lines, first, first + len(found))
    for at, line in enumerate(found, first):
        named = WRONG_ARROW.search(line)
        if named and not ARROW.search(line):
            name = named["name"]
            lines.fail(
                lines.start(at) + named.start("name"),
                f"{name!r} is no variable name: letters a-z, digits and _, and no digit first",
                f"{name!r} 不是变量名：只能用字母、数字和 _，且不能以数字开头",
            )
    wrong = next((sign for sign in _OTHER_ARROWS for line in found if sign in line), "")
    lines.fail(
        lines.begins(first),
        "the text has no arrow; write -> and a variable at its end"
        + (f", and not {wrong!r}" if wrong else ""),
        "语句缺少 -> 或 >>，请在末尾写明变量名" + (f"（不是 {wrong}）" if wrong else ""),
    )


def refuse_case(lines: Lines, first: int, end: int) -> None:
    """Refuses a keyword in other letters, such as `ELSE:`, in the lines from `first` to `end`."""
    for at in range(first, end):
        if word := suggest_keyword(lines.lines[at]):
            lines.fail(
                lines.begins(at),
                f"write {word}: keywords are FOR, IF, elif, else and END, in these letters",
                f"请写 {word}：关键字区分大小写（FOR、IF、elif、else、END）",
            )


def wrong_arrows(text: str) -> Iterator[int]:
    """Lines of a text for the model, from 0, that end in an arrow whose variable's name is none.

    They belong to the text, which goes on with what was to be the next statement.
    """
    fenced = False
    for at, line in enumerate(text.split("\n")):
        fenced ^= line.count(FENCE) % 2 == 1
        if not fenced and WRONG_ARROW.search(line):
            yield at


def _dedent(lines: Sequence[str], indent: int) -> str:
    """A text without the indentation of its block."""
    dedented = []
    for line in lines:
        own = len(line) - len(line.lstrip())
        dedented.append(line[min(own, indent) :])
    return "\n".join(dedented).strip()


_FOR = re.compile(r"FOR[ \t]+(?P<name>\S+)(?P<in>[ \t]+in[ \t]+)?(?P<items>.*)$", re.DOTALL)
_PARALLEL = re.compile(r"(?<=[\s\])}\"'])PARALLEL(?:[ \t]+(?P<most>\d{1,9}))?[ \t]*$")
_LOOP_NAME = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*$")
_FOREIGN = re.compile(r"(?i:(?P<elif>else[ \t]*if\b)|end[ \t]*(?:if|for|while)$|(?:fi|done)$)")
_SINGLE = re.compile(r"(?<![=!<>])=(?!=)")
_BACKSLASH = re.compile(r"\\(?=[ \t]*\n)")
_DEEPEST = 50


def read_program(text: str, file: str | None = None) -> Block:
    """Reads a program; what is wrong in it is a `FlowError` with line and column."""
    return _Reader(Lines(text, file)).program()


class _Reader:
    """Reads statement by statement; `_at` is the line that comes next."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._at = 0
        self._text_ahead = -1  # up to this line, `#` begins a text and no comment

    def program(self) -> Block:
        body = self._block(0, 0)
        if self._at < len(self._lines.lines):
            word = re.split(r"[\s:：]", self._line())[0]
            meant = self._find_likely_header()
            more = (
                f": {meant!r} is text for the model: headers begin with FOR and IF" if meant else ""
            )
            more_zh = f"：{meant!r} 不是语句头" if meant else ""
            self._fail(
                f"{word!r} belongs to no FOR and no IF{more}",
                f"{word!r} 没有对应的 FOR 或 IF{more_zh}",
            )
        return body

    def _find_likely_header(self) -> str:
        """The line that was meant to begin the block that ends here, if one looks so."""
        for at in range(self._at - 1, -1, -1):
            line = self._lines.lines[at].strip()
            if line.endswith((":", "：")) and self._lines.indent(at) == self._indent():
                return "" if is_for(line) or is_if(line) or ends_block(line) else line
        return ""

    # Lines

    def _line(self) -> str:
        return self._lines.lines[self._at].strip()

    def _indent(self) -> int:
        return self._lines.indent(self._at)

    def _offset(self) -> int:
        return self._lines.begins(self._at)

    def _fail(self, message: str, message_zh: str) -> NoReturn:
        self._lines.fail(self._offset(), message, message_zh)

    def _skip(self) -> bool:
        """Passes over blank lines and comments; whether a line is left."""
        while self._at < len(self._lines.lines):
            if not self._line():
                self._at += 1
            elif not self._pass_comments():
                return True
        return False

    def _pass_comments(self) -> bool:
        """Passes over comments; whether there were any.

        `#` begins headings of texts, too: a comment precedes a statement.
        """
        lines, at = self._lines.lines, self._at
        if not is_comment(lines[at]) or at <= self._text_ahead:
            return False
        done = at
        while at < len(lines) and (not lines[at].strip() or is_comment(lines[at])):
            at += 1
            if ARROW.search(lines[at - 1]):  # a statement that somebody commented out
                done = at
        if at < len(lines) and not begins_statement(lines[at].strip()):
            self._text_ahead = at
            at = done
        passed = at > self._at
        self._at = at
        return passed

    # Blocks

    def _block(self, indent: int, depth: int) -> Block:
        """The statements that are indented by at least `indent`."""
        if depth > _DEEPEST:
            self._fail("the program is nested too deeply", "程序嵌套过深")
        found: list[Statement] = []
        while self._skip():
            if ends_block(self._line()):
                break
            if self._indent() < indent:
                self._refuse_foreign()
                refuse_case(self._lines, self._at, self._at + 1)
                self._fail(
                    f"the line is not indented as its block is; indent it by {indent} spaces, or "
                    "write END before it",
                    f"缩进不正确，应缩进 {indent} 个空格，或在此前写 END",
                )
            found.append(self._statement(depth))
        return tuple(found)

    def _refuse_foreign(self) -> None:
        """Refuses a keyword of other languages where a block should go on or end."""
        found = _FOREIGN.match(self._line())
        if found is not None:
            word = "elif" if found["elif"] else "END"
            self._fail(f"write {word}, and not {found[0]!r}", f"请写 {word}，而不是 {found[0]!r}")

    def _statement(self, depth: int) -> Statement:
        line = self._line()
        if BREAKPOINT.match(line):
            place = self._lines.place(self._offset())
            self._at += 1
            return Breakpoint(place)
        if is_for(line):
            return self._loop(depth)
        if is_if(line):
            return self._if(depth)
        if CALL.match(line):
            call, self._at = read_call(self._lines, self._offset())
            return call
        prompt, self._at = read_prompt(self._lines, self._at)
        return prompt

    def _end(self, header: Place, indent: int, word: str) -> None:
        if self._at >= len(self._lines.lines) or self._line() != "END":
            self._lines.fail(
                self._lines.start(header.line - 1) + header.column - 1,
                f"the {word} has no END; write one with the same indentation",
                f"{word} 缺少 END",
            )
        if self._indent() != indent:
            self._fail(
                f"this END is not indented as its {word} in line {header.line}",
                f"END 的缩进与第 {header.line} 行的 {word} 不一致",
            )
        self._at += 1

    def _body(self, indent: int, depth: int) -> Block:
        if not self._skip():
            return ()
        inner = self._indent()
        if inner <= indent and not ends_block(self._line()):
            self._fail(
                f"what stands in a block is indented more than its header ({indent} spaces)",
                "代码块内的语句必须缩进",
            )
        return self._block(inner, depth + 1)

    def _loop(self, depth: int) -> Loop:
        indent, offset = self._indent(), self._offset()
        place = self._lines.place(offset)
        parts = _FOR.match(self._header("FOR"))
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
        written, begins = parts["items"], offset + parts.start("items")
        side = _PARALLEL.search(written)
        most = None if side is None else int(side["most"] or 0)
        if side is not None:
            if side["most"] and most == 0:
                self._lines.fail(
                    begins + side.start(), "PARALLEL needs a number from 1", "PARALLEL 应为正整数"
                )
            written = written[: side.start()]
        before, _, last = written.rstrip().rpartition(" ")
        if side is None and before and last.isalpha() and did_you_mean(last, ["PARALLEL"]):
            self._lines.fail(
                begins + len(before) + 1,
                f"{last!r} is no keyword; did you mean PARALLEL?",
                f"{last!r} 不是关键字，是否应为 PARALLEL",
            )
        items = read_expression(self._lines, written, begins)
        body = self._body(indent, depth)
        self._end(place, indent, "FOR")
        return Loop(place, name[1:], items, body, most)

    def _if(self, depth: int) -> If:
        indent, place = self._indent(), self._lines.place(self._offset())
        branches = [self._branch("IF", indent, depth)]
        while self._skip() and is_elif(self._line()):
            self._same(indent, place, "elif")
            branches.append(self._branch("elif", indent, depth))
        if self._at < len(self._lines.lines) and ELSE.match(self._line()):
            self._same(indent, place, "else")
            branches.append(self._else(indent, depth))
        self._end(place, indent, "IF")
        return If(place, branches)

    def _else(self, indent: int, depth: int) -> Branch:
        place, line = self._lines.place(self._offset()), self._line()
        if line.endswith("："):
            self._full_width("else")
        if ELSE.fullmatch(line) is None:
            self._fail(
                "what is done belongs in the lines below else:", "else: 之后的语句请另起一行"
            )
        self._at += 1
        body = self._body(indent, depth)
        if self._skip() and (is_elif(self._line()) or ELSE.match(self._line())):
            self._fail(
                f"else in line {place.line} is the last branch of its IF",
                f"第 {place.line} 行的 else 必须是最后一个分支",
            )
        return Branch(place, None, body)

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
        for at, letter in outside_quotes(header, 0):
            if letter == "=" and _SINGLE.match(header, at):
                self._lines.fail(offset + at, "a comparison is written ==", "比较请写 ==")
        condition = read_expression(self._lines, header[len(word) :], offset + len(word))
        return Branch(place, condition, self._body(indent, depth))

    def _header(self, word: str) -> str:
        """The header that begins in this line, up to its colon; conditions may have more lines."""
        offset, text = self._offset(), self._lines.text
        depth = 0
        for at, letter in outside_quotes(text, offset):
            depth += (letter in "([{") - (letter in ")]}")
            if letter == ":" and depth == 0 and self._is_rest_blank(at + 1):
                self._at = self._lines.line_of(at) + 1
                # A backslash at a line's end is Python's way to go on.
                return _BACKSLASH.sub(" ", text[offset:at])
            if letter == "\n" and depth <= 0 and not self._goes_on(at):
                break
        if self._line().endswith("："):
            self._full_width(word)
        self._fail(f"the {word} has no colon at its end", f"{word} 语句末尾缺少冒号")

    def _goes_on(self, at: int) -> bool:
        """Whether a condition goes on behind the end of a line, at a place in the text."""
        text = self._lines.text
        line = text[text.rfind("\n", 0, at) + 1 : at]
        end = text.find("\n", at + 1)
        following = text[at + 1 : end if end >= 0 else None]
        return is_incomplete(line) or continues_condition(following)

    def _full_width(self, word: str) -> NoReturn:
        self._fail(
            f"the colon of {word} is a full-width sign; write ':'",
            f"{word} 的冒号是全角符号，请使用 ':'",
        )

    def _is_rest_blank(self, at: int) -> bool:
        end = self._lines.text.find("\n", at)
        return not self._lines.text[at : end if end >= 0 else None].strip()
