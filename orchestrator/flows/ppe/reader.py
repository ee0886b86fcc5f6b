"""Reads a script, whole, before anything of it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import yaml

from orchestrator.flows.expressions import (
    NAME,
    Node,
    Wrong,
    parse_arguments,
    parse_expression,
)
from orchestrator.flows.ppe.data import Author, Source, data_of, refused_tag, yaml_text
from orchestrator.flows.ppe.dialects import dialect_of
from orchestrator.flows.ppe.entries import SEPARATOR, entries, split_front_matter
from orchestrator.flows.ppe.nodes import (
    Block,
    Chain,
    Edit,
    For,
    If,
    Instruction,
    Link,
    Match,
    Say,
    Script,
    Separate,
    Statement,
    While,
)
from orchestrator.flows.ppe.styles import STYLES
from orchestrator.flows.ppe.texts import STRATEGIES, Style, Text, compile_text
from orchestrator.flows.scanning import outside_quotes
from orchestrator.flows.steps import Place

__all__ = ["read_script"]

_INSTRUCTION = re.compile(
    rf"\$(?P<pipe>\|?)(?P<name>{NAME})(?:[ ]*(?P<brackets>\((?P<inner>.*)\)))?", re.S
)
_LINK = re.compile(rf"(?P<dollar>\$?)(?P<name>{NAME}(?:[-.]\w+)*)(?:[ ]*\((?P<inner>.*)\))?", re.S)
_CHAT = re.compile(rf"{NAME}[ ]*\[[ ]*@")
_EDIT = re.compile(
    r"#(?P<kind>[:+])(?:\[(?P<at>-?\d{1,6})?(?::(?P<role>\w+))?\])?(?P<text>.*)", re.S
)
_SCALAR = "tag:yaml.org,2002:"
_DEEPEST = 40
_PARTS = ("then", "else", "do", "as")
_UNSUPPORTED = {
    "completion_delimiter": "replies are as the model gives them",
    "export": "scripts beside one another are found by their names",
    "shouldThink": "set thinking with the model's own settings",
    "tools": "models of these scripts are given no tools; call functions with $name",
}


def read_script(text: str, id: str = "", file: str | None = None) -> Script:
    """Reads a script.

    Raises:
        FlowError: It is wrong, with line and column.
    """
    front_source, body = split_front_matter(text, file)
    front: Any = {}
    if front_source is not None:
        node = front_source.compose()
        front = data_of(node, front_source) if node is not None else {}
        if not isinstance(front, dict):
            front_source.fail(front_source.place(0), "the front matter is a mapping")
        _refuse_imports(front, front_source)
    source = front_source or body
    reader = _Reader(file, _style(front, source))
    reader.warnings += _unsupported(front, source)
    statements = reader.front_messages(front, source) + tuple(reader.body(body))
    return Script(id, file, front, statements, reader.calls, reader.warnings)


def _style(front: dict[str, Any], source: Source) -> Style:
    templates = str(front.get("templateFormat", "hf"))
    strategy = str(front.get("formatStringStrategy", "Deferred"))
    if templates not in STYLES:
        source.fail(
            source.place(0),
            f"there is no templateFormat {templates!r}; there are {', '.join(STYLES)}",
        )
    if strategy not in STRATEGIES:
        source.fail(
            source.place(0),
            f"there is no formatStringStrategy {strategy!r}; there are {', '.join(STRATEGIES)}",
        )
    try:
        dialect = dialect_of(front.get("dialect"))
    except Wrong as wrong:
        source.fail(source.place(0), wrong.message)
    return Style(templates, strategy, dialect, front.get("lenient") is True)


def _unsupported(front: dict[str, Any], source: Source) -> list[tuple[Place, str]]:
    """What the front matter asks for and does not get."""
    if isinstance(front.get("roles"), dict):
        source.fail(
            source.place(0),
            "group chats (roles) are not supported; call the role's script: [[@script(...)]]",
        )
    return [
        (source.place(0), f"{name!r} has no effect: {why}")
        for name, why in _UNSUPPORTED.items()
        if front.get(name) not in (None, False, "off")
    ]


def _refuse_imports(front: dict[str, Any], source: Source) -> None:
    imports = front.get("import")
    for one in imports if isinstance(imports, list) else [imports] if imports else []:
        place = getattr(one, "place", source.place(0))
        source.fail(
            place,
            f"{str(one)!r} is a JavaScript package, and is not run; register Python functions "
            "with tools={'name': function}",
        )


class _Reader:
    """Reads statements.

    Attributes:
        calls: The scripts and functions that they name.
        warnings: What is doubtful, and where.
    """

    def __init__(self, file: str | None, style: Style) -> None:
        self._file = file
        self._style = style
        self.calls: list[Link] = []
        self.warnings: list[tuple[Place, str]] = []

    def front_messages(self, front: dict[str, Any], source: Source) -> Block:
        prompt = front.get("prompt")
        messages = prompt.get("messages") if isinstance(prompt, dict) else None
        if messages is None:
            return ()
        if not isinstance(messages, list):
            source.fail(source.place(0), "prompt.messages is a list of messages")
        made = []
        for one in messages:
            if not isinstance(one, dict) or "role" not in one:
                source.fail(
                    source.place(0), "a message of prompt.messages has a role and a content"
                )
            content = one.get("content", "")
            place = getattr(content, "place", source.place(0))
            made.append(Say(place, str(one["role"]), self._text(_content(content), place)))
        return tuple(made)

    def body(self, body: Source) -> Iterator[Statement]:
        for entry in entries(body):
            source = entry.source
            if entry.separator:
                yield Separate(source.place(0))
            elif source.text.startswith("->"):
                yield self._chain(source.text, source.place(0), source)
            else:
                node = source.compose()
                if node is not None:
                    yield from self._block(node, source, 0)

    # Nodes

    def _block(self, node: yaml.Node, source: Source, depth: int) -> Block:
        """What stands where statements do: a list, a mapping, or one text."""
        if depth > _DEEPEST:
            source.fail(source.at(node), "the script is nested too deeply")
        if isinstance(node, yaml.SequenceNode) and not node.flow_style:
            return tuple(it for one in node.value for it in self._block(one, source, depth + 1))
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            return tuple(self._members(node, source, depth))
        return (self._item(node, source),)

    def _item(self, node: yaml.Node, source: Source) -> Statement:
        place = source.at(node)
        if node.tag.startswith("!"):
            source.fail(place, refused_tag(node.tag))
        if not isinstance(node, yaml.ScalarNode):
            return Say(place, "user", self._text(yaml_text(data_of(node, source)), place))
        text = node.value
        if node.style is None:
            if SEPARATOR.match(text):
                return Separate(place)
            if text.startswith("->"):
                return self._chain(text, place, source)
            found = _INSTRUCTION.fullmatch(text.strip())
            if found is not None:
                return self._instruction(found, None, place, source)
        edit = _EDIT.fullmatch(text)
        if edit is not None and self._style.dialect.edits:
            return self._edit(edit, place)
        return Say(place, "user", self._text(text, place))

    def _edit(self, found: re.Match[str], place: Place) -> Edit:
        text = self._text(found["text"], place)
        if found["kind"] == ":":
            return Edit(place, None, found["role"] or "", text)
        at = int(found["at"]) if found["at"] else 1_000_000
        return Edit(place, at, found["role"] or "user", text)

    def _members(self, node: yaml.MappingNode, source: Source, depth: int) -> Iterator[Statement]:
        pairs = list(node.value)
        at = 0
        while at < len(pairs):
            key, value = pairs[at]
            at += 1
            place = source.at(key)
            if key.tag.startswith("!"):
                source.fail(place, refused_tag(key.tag))
            if not isinstance(key, yaml.ScalarNode):
                source.fail(place, "a role, or an instruction, is a text")
            found = _INSTRUCTION.fullmatch(key.value.strip())
            if found is None:
                self._refuse_role(key.value, place, source)
                yield self._say(key.value, value, source)
                continue
            parts: dict[str, yaml.Node] = {}
            while at < len(pairs) and pairs[at][0].value in _PARTS:
                parts[pairs[at][0].value] = pairs[at][1]
                at += 1
            yield self._structured(found, value, parts, place, source, depth)

    def _refuse_role(self, role: str, place: Place, source: Source) -> None:
        if role in _PARTS:
            source.fail(place, f"{role!r} belongs below $if, $while or $for, and there is none")
        if _CHAT.match(role):
            source.fail(
                place,
                f"group chats ({role!r}) are not supported; call the role's script: "
                "[[@script(...)]]",
            )

    def _say(self, role: str, value: yaml.Node, source: Source) -> Say:
        place = source.at(value)
        if value.tag.startswith("!"):
            source.fail(place, refused_tag(value.tag))
        if isinstance(value, yaml.ScalarNode):
            text = "" if value.tag == f"{_SCALAR}null" and not value.style else value.value
        else:
            text = yaml_text(data_of(value, source))
        made = self._text(text, place)
        if role == "system" and made.names:
            told = f"[[{made.names[0]}]] is in a system message: the model speaks for the system"
            self.warnings.append((place, told))
        return Say(place, role, made)

    def _text(self, text: str, place: Place) -> Text:
        made = compile_text(text, place, self._file, self._style)
        if made.warning:
            self.warnings.append((place, made.warning))
        for inline in made.inlines:
            if inline.kind != "regex":
                link = Link(
                    inline.place, inline.name, inline.kind == "instruction", inline.arguments
                )
                self.calls.append(link)
        return made

    # Instructions

    def _structured(
        self,
        found: re.Match[str],
        value: yaml.Node,
        parts: dict[str, yaml.Node],
        place: Place,
        source: Source,
        depth: int,
    ) -> Statement:
        name = found["name"]
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
        if name == "match":
            return self._match(found, value, place, source, depth)
        return self._instruction(found, data_of(value, source), place, source)

    def _for(self, value: yaml.Node, names: Any, body: Block, place: Place, source: Source) -> For:
        named = names if isinstance(names, dict) else {"value": names}
        items: Any = data_of(value, source)
        if not isinstance(items, list):
            items = self._expression(str(items), source.at(value), source)
        return For(
            place, items, str(named.get("value", "item")), str(named.get("index", "index")), body
        )

    def _match(
        self, found: re.Match[str], value: yaml.Node, place: Place, source: Source, depth: int
    ) -> Match:
        arguments = self._arguments(found["inner"] or "", place, source)
        if not arguments or not isinstance(value, yaml.MappingNode):
            source.fail(place, "$match(value) has patterns below it, each with what is to be done")
        branches = [
            (str(key.value), self._block(body, source, depth + 1)) for key, body in value.value
        ]
        every = any(_is_true(it.node) for it in arguments[1:] if it.name in ("", "allMatches"))
        return Match(place, arguments[0].node, every, branches)

    def _condition(self, node: yaml.Node, source: Source) -> Node:
        if not isinstance(node, yaml.ScalarNode):
            source.fail(source.at(node), "a condition is an expression")
        return self._expression(node.value, source.at(node), source)

    def _expression(self, text: str, place: Place, source: Source) -> Node:
        try:
            return parse_expression(text.removeprefix("?="))
        except Wrong as wrong:
            source.fail(place, f"the expression {text!r}: {wrong.message}")

    def _instruction(
        self, found: re.Match[str], value: Any, place: Place, source: Source
    ) -> Instruction | Chain:
        arguments = None
        if found["brackets"]:
            arguments = self._arguments(found["inner"] or "", place, source)
        name = found["name"]
        self._check(value, source)
        link = Link(place, name, True, arguments or ())
        self.calls.append(link)
        if found["pipe"]:
            return Chain(place, [link])
        return Instruction(place, name, value, arguments)

    def _check(self, value: Any, source: Source) -> None:
        """Checks the expressions in an instruction's value."""
        if isinstance(value, Author) and value.startswith("?="):
            self._expression(value, value.place, source)
        for one in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            self._check(one, source)

    def _arguments(self, inner: str, place: Place, source: Source) -> Sequence[Any]:
        try:
            return parse_arguments(inner)
        except Wrong as wrong:
            source.fail(place, f"the arguments: {wrong.message}")

    def _chain(self, text: str, place: Place, source: Source) -> Chain:
        links = []
        for part in _targets(text):
            found = _LINK.fullmatch(part)
            if found is None:
                source.fail(place, f"{part!r} is no call; write -> name(arguments)")
            arguments = self._arguments(found["inner"] or "", place, source)
            links.append(Link(place, found["name"], bool(found["dollar"]), arguments))
        self.calls += links
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


def _content(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return yaml_text(value) if isinstance(value, dict | list) else str(value)


def _is_true(node: Node) -> bool:
    return node.kind == "value" and node.value is True
