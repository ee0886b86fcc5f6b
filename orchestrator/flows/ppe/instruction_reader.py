"""Reads instructions: what decides, what repeats, what calls, and what follows an arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from orchestrator.flows.expressions import (
    outside_quotes,
    parse_arguments,
    parse_expression,
    unwrap_templates,
)
from orchestrator.flows.ppe.data import Source, author_texts, data_of, map_of
from orchestrator.flows.ppe.nodes import (
    Block,
    Chain,
    For,
    If,
    Instruction,
    Link,
    Match,
    Statement,
    While,
)
from orchestrator.flows.ppe.patterns import read_pattern
from orchestrator.flows.ppe.texts import Style, Text, compile_text, is_rendered
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import (
    NAME,
    Argument,
    Node,
    ScriptError,
    calls_in,
    find_called_name,
)
from orchestrator.support import documents

INSTRUCTION = re.compile(
    rf"\$(?P<pipe>\|?)(?P<name>{NAME})(?:[ ]*(?P<brackets>\((?P<inner>.*)\)))?", re.S
)
"""How an instruction is written."""

DECIDING = ("if", "while", "for", "match")
"""The instructions that decide or repeat."""

PARTS = ("then", "else", "do", "as")
"""What stands below instructions."""

LISTENING = ("on", "once", "off")
"""Instructions whose `callback` is not evaluated, but stored as it is written."""

_LINK = re.compile(rf"(?P<dollar>\$?)(?P<name>{NAME}(?:[-.]\w+)*)(?:[ ]*\((?P<inner>.*)\))?", re.S)

ReadBlock = Callable[[documents.Node, Source, int], Block]


class InstructionReader:
    """Reads instructions, and the blocks in them."""

    def __init__(
        self,
        calls: list[Link],
        warnings: list[tuple[Place, str]],
        style: Style,
        block: ReadBlock,
    ) -> None:
        """Takes where to note what is called and doubtful, and what reads a block of statements."""
        self._calls = calls
        self._warnings = warnings
        self._style = style
        self._block = block

    def read_structured(
        self,
        found: re.Match[str],
        value: documents.Node,
        parts: dict[str, documents.Node],
        place: Place,
        source: Source,
        depth: int,
    ) -> Statement:
        """An instruction with a value, and with blocks."""
        name = found["name"]
        if name == "match":
            return self._match(found, value, place, source, depth)
        blocks = {
            part: self._block(node, source, depth + 1)
            for part, node in parts.items()
            if part != "as"
        }
        if name == "if":
            condition = self._condition(value, source)
            return If(place, condition, blocks.get("then", ()), blocks.get("else", ()))
        if name == "while":
            return While(place, self._condition(value, source), blocks.get("do", ()))
        if name == "for":
            names = data_of(parts["as"], source) if "as" in parts else {}
            return self._for(value, names, blocks.get("do", ()), place, source)
        return self.instruction(found, data_of(value, source), place, source)

    def _for(
        self, value: documents.Node, names: Any, body: Block, place: Place, source: Source
    ) -> For:
        named = names if isinstance(names, dict) else {"value": names}
        items: Any = data_of(value, source)
        if isinstance(items, list | dict):
            self._texts(items, source)
        else:
            items = self._expression(str(items), source.at(value), source)
        name = named.get("value")
        values = (str(name),) if name else ("item", "value")
        return For(place, items, values, str(named.get("index", "index")), body)

    def _match(
        self, found: re.Match[str], value: documents.Node, place: Place, source: Source, depth: int
    ) -> Match:
        arguments = self._arguments(found["inner"] or "", place, source)
        if not isinstance(value, documents.MapNode):
            source.fail(
                place,
                "$match(value) has patterns below it, each with what is to be done",
                "$match(值) 下须有模式及各自要执行的语句",
            )
        named = {one.name: one.node for one in arguments if one.name}
        placed = [one.node for one in arguments if not one.name]
        # `parallel` allows branches to run at the same time, and asks for nothing.
        every = named.get("allMatches", placed[1] if len(placed) > 1 else None)
        branches = []
        for key, body in value.value:
            try:
                pattern = read_pattern(str(key.value))
            except ScriptError as wrong:
                source.fail(source.at(key), wrong.message, wrong.message_zh)
            branches.append((pattern, self._block(body, source, depth + 1)))
        matched = named.get("condition", placed[0] if placed else None)
        is_every = every is not None and every.kind == "value" and every.value is True
        return Match(place, matched, is_every, branches)

    def _condition(self, node: documents.Node, source: Source) -> Node | Instruction:
        if isinstance(node, documents.ScalarNode):
            return self._expression(node.value, source.at(node), source)
        one = isinstance(node, documents.MapNode) and len(node.value) == 1
        key, value = node.value[0] if one else (None, None)
        found = INSTRUCTION.fullmatch(str(key.value).strip()) if key is not None else None
        if found is None:
            source.fail(
                source.at(node),
                "a condition is an expression, or one instruction",
                "条件须是表达式或单个指令",
            )
        instruction = self.instruction(found, data_of(value, source), source.at(node), source)
        if isinstance(instruction, Chain):
            source.fail(source.at(node), "a condition is no pipe", "条件不能是管道")
        return instruction

    def _expression(self, text: str, place: Place, source: Source) -> Node:
        try:
            node = parse_expression(unwrap_templates(text.removeprefix("?=")))
            self._note_calls(node, place)
            return node
        except ScriptError as wrong:
            source.fail(
                place,
                f"the expression {text[:80]!r}: {wrong.message}",
                f"表达式 {text[:80]!r} 有误: {wrong.message_zh}",
            )

    def instruction(
        self, found: re.Match[str], value: Any, place: Place, source: Source
    ) -> Instruction | Chain:
        """An instruction, or a pipe to one."""
        arguments = None
        if found["brackets"]:
            arguments = self._arguments(found["inner"] or "", place, source)
        name = found["name"]
        if name in LISTENING:
            for text in author_texts(value):
                if text.startswith("?="):
                    self._expression(text, text.place, source)
        elif name == "format":  # its template may be of another language than the script's
            members = map_of(value).items()
            self._texts([it for key, it in members if key != "template"], source)
        elif name != "get":
            self._texts(value, source)
        link = Link(place, name, True, arguments or ())
        self._calls.append(link)
        if name in LISTENING and name != "off":
            self._listens(value, place)
        if found["pipe"]:
            return Chain(place, [link])
        return Instruction(place, name, value, arguments)

    def _texts(self, value: Any, source: Source) -> None:
        """Reads the texts of an instruction: expressions, templates and calls."""
        for text in author_texts(value):
            if text.startswith("?="):
                self._expression(text, text.place, source)
            elif is_rendered(text):
                self.note_inlines(
                    compile_text(text, text.place, source.file, self._style, holes=False)
                )

    def note_inlines(self, text: Text) -> None:
        """Notes what a text calls, and why it stays as it is, if it should not."""
        if text.warning:
            self._warnings.append((text.place, text.warning))
        for it in text.inlines:
            if it.kind != "regex":
                named = it.kind == "instruction"
                self._calls.append(Link(it.place, it.name, named, it.arguments, text=True))
                self._note_argument_calls(it.arguments, it.place)

    def _note_calls(self, node: Node, place: Place) -> None:
        for one in calls_in(node):
            name = find_called_name(one)
            named = name.startswith("$")
            self._calls.append(Link(place, name.removeprefix("$"), named, one.value, text=True))

    def _note_argument_calls(self, arguments: Sequence[Argument], place: Place) -> None:
        for one in arguments:
            self._note_calls(one.node, place)

    def _listens(self, value: Any, place: Place) -> None:
        """Notes the function, or the script, that listens to an event."""
        name = map_of(value).get("callback")
        if isinstance(name, str) and not name.startswith("?="):
            self._calls.append(Link(place, name.removeprefix("$"), name.startswith("$")))

    def _arguments(self, inner: str, place: Place, source: Source) -> Sequence[Argument]:
        try:
            arguments = parse_arguments(unwrap_templates(inner), mixed=True)
            self._note_argument_calls(arguments, place)
            return arguments
        except ScriptError as wrong:
            source.fail(place, f"the arguments: {wrong.message}", f"参数有误: {wrong.message_zh}")

    def chain(self, text: str, place: Place, source: Source) -> Chain:
        """`-> name(arguments) -> ...`."""
        links = []
        for part in _targets(text):
            found = _LINK.fullmatch(part)
            if found is None:
                source.fail(
                    place,
                    f"{part!r} is no call; write -> name(arguments)",
                    f"{part!r} 不是调用；请写 -> 名称(参数)",
                )
            arguments = self._arguments(found["inner"] or "", place, source)
            links.append(Link(place, found["name"], bool(found["dollar"]), arguments))
        self._calls += links
        return Chain(place, links)


def _targets(text: str) -> list[str]:
    """What stands behind each arrow of a chain, without the comment at its end."""
    cuts, end = [], len(text)
    for at, letter in outside_quotes(text, 0):
        if letter == "-" and text.startswith("->", at):
            cuts.append(at)
        elif letter == "#" and text[at - 1 : at] in (" ", "\t"):
            end = at
            break
    return [text[a + 2 : b].strip() for a, b in pairwise([*cuts, end])]
