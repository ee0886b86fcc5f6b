"""Reads texts for the model, which go on up to a line that ends in an arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from orchestrator.flows.pl.calls import read_target
from orchestrator.flows.pl.lines import ARROW, WRONG_ARROW, Lines, begins_statement, suggest_keyword
from orchestrator.flows.pl.nodes import Prompt, Target
from orchestrator.flows.scanning import FENCE

_OTHER_ARROWS = ("→", "⇒", "－>", "－＞", "-＞", "》》", "＞＞", "=>")


def read_prompt(lines: Lines, first: int) -> tuple[Prompt, int]:
    """Reads the text that begins in a line; it, and the line after it.

    Raises:
        FlowError: It has no arrow, or nothing before it, with line and column.
    """
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
    """Refuses a keyword in other letters, which is no keyword: `ELSE:`, `for $x in ...`.

    Raises:
        FlowError: There is one.
    """
    for at in range(first, end):
        if word := suggest_keyword(lines.lines[at]):
            lines.fail(
                lines.begins(at),
                f"write {word}: keywords are FOR, IF, elif, else and END, in these letters",
                f"请写 {word}：关键字区分大小写（FOR、IF、elif、else、END）",
            )


def wrong_arrows(text: str) -> Iterator[int]:
    """Lines of a text for the model that end in an arrow whose variable's name is none.

    They belong to the text, which goes on with what was to be the next statement.

    Args:
        text: The text, without its own arrow.

    Yields:
        The line's number in the text, from 0.
    """
    fenced = False
    for at, line in enumerate(text.split("\n")):
        fenced ^= line.count(FENCE) % 2 == 1
        if not fenced and WRONG_ARROW.search(line):
            yield at


def _dedent(lines: Sequence[str], indent: int) -> str:
    """A text without the indentation of its block."""
    made = []
    for line in lines:
        own = len(line) - len(line.lstrip())
        made.append(line[min(own, indent) :])
    return "\n".join(made).strip()
