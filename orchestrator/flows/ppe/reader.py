"""Reads a script, whole, before anything of it runs.

Below the front matter stand messages, separators and instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.flows.ppe.data import (
    SEPARATOR,
    Source,
    check_size,
    data_of,
    entries,
    map_of,
    split_front_matter,
    yaml_text,
)
from orchestrator.flows.ppe.instruction_reader import INSTRUCTION, PARTS, InstructionReader
from orchestrator.flows.ppe.nodes import (
    Block,
    Edit,
    Instruction,
    Link,
    Say,
    Script,
    Separate,
    Statement,
)
from orchestrator.flows.ppe.roles import Address, key_address, text_address
from orchestrator.flows.ppe.settings import Settings, settings_of, style_of
from orchestrator.flows.ppe.texts import Style, Text, compile_text
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import NAME, ScriptError
from orchestrator.support.documents import ListNode, MapNode, Node, ScalarNode, scalar_kind

_EDIT = re.compile(
    r"#(?P<kind>[:+])?(?:\[(?P<at>-?\d{1,6})?(?::(?P<role>\w+))?\])?(?P<text>.*)", re.S
)
_FUNCTION = re.compile(rf"\s*(?:async\s+)?(?:function\b\s*\*?\s*)?(?P<name>{NAME})\s*\(")
_DEEPEST = 40
_END = 1_000_000


class StatementReader:
    """Reads statements; what is wrong in them is a `FlowError` with line and column."""

    def __init__(self, file: str | None, style: Style, settings: Settings) -> None:
        self._file = file
        self._style = style
        self._settings = settings
        self._known = [*settings.roles, *filter(None, ("user", "assistant", settings.name))]
        self.calls: list[Link] = []  # the scripts and functions that they name
        self.warnings: list[tuple[Place, str]] = []  # what is doubtful, and where
        self.biases: list[tuple[Place, str]] = []  # the texts whose tokens are biased, and where
        self._control = InstructionReader(self.calls, self.warnings, style, self.block)

    def front_messages(self, front: dict[str, Any], source: Source) -> Block:
        """The messages of the front matter's `prompt`."""
        messages = map_of(front.get("prompt")).get("messages")
        if messages is None:
            return ()
        start = source.place(0)
        if not isinstance(messages, list):
            source.fail(
                start, "prompt.messages is a list of messages", "prompt.messages 须是消息列表"
            )
        made = []
        for one in messages:
            if not isinstance(one, dict) or "role" not in one:
                source.fail(
                    start,
                    "a message of prompt.messages has a role and a content",
                    "prompt.messages 的消息须有 role 和 content",
                )
            content = one.get("content", "")
            place = getattr(content, "place", start)
            made.append(Say(place, str(one["role"]), self._text(_content(content), place)))
        return tuple(made)

    def body(self, body: Source) -> Block:
        """The statements of a script."""
        found: list[Statement] = []
        for source in entries(body):
            if SEPARATOR.match(source.text):
                found.append(Separate(source.place(0)))
            elif source.text.startswith("->"):
                found.append(self._control.chain(source.text, source.place(0), source))
            else:
                node = source.compose()
                if node is not None:
                    found += self._block(node, source, 0)
        return _mark_piped(found)

    def block(self, node: Node, source: Source, depth: int) -> Block:
        """What stands where statements do: a list, a mapping, or one text."""
        return _mark_piped(self._block(node, source, depth))

    def _block(self, node: Node, source: Source, depth: int) -> Sequence[Statement]:
        if depth > _DEEPEST:
            source.fail(source.at(node), "the script is nested too deeply", "脚本嵌套过深")
        if isinstance(node, ListNode) and not node.flow_style:
            return [it for one in node.value for it in self._block(one, source, depth + 1)]
        if isinstance(node, MapNode) and not node.custom_tag:
            return list(self._members(node, source, depth))
        if node.tag.startswith("!fn"):
            self._note_function(node, source)
            return []
        return [self._item(node, source)]

    def _item(self, node: Node, source: Source) -> Statement:
        place = source.at(node)
        if node.custom_tag:
            source.refuse_tag(place, node.tag)
        if not isinstance(node, ScalarNode):
            return self._read_message("user", yaml_text(data_of(node, source)), place, Address())
        text = node.value
        if not node.style:
            if SEPARATOR.match(text):
                return Separate(place)
            if text.startswith("->"):
                return self._control.chain(text, place, source)
            found = INSTRUCTION.fullmatch(text.strip())
            if found is not None:
                return self._control.instruction(found, None, place, source)
        if self._style.dialect.edits and text[:2] in ("#:", "#+", "#["):
            edit = _EDIT.fullmatch(text)
            if edit is not None and (edit["kind"] or edit["at"] or edit["role"]):
                return self._edit(edit, place)
        return self._read_message("user", text, place, Address())

    def _note_function(self, node: Node, source: Source) -> None:
        """`!fn`: a function in JavaScript; a registered one of its name does what it would."""
        place = source.at(node)
        found = _FUNCTION.match(node.value) if isinstance(node, ScalarNode) else None
        if found is None:
            source.refuse_tag(place, node.tag)
        self.calls.append(Link(place, found["name"], True, declares=True))

    def _edit(self, found: re.Match[str], place: Place) -> Edit:
        text = self._text(found["text"], place)
        if found["kind"] == "+":
            at = int(found["at"]) if found["at"] else _END
            return Edit(place, False, at, found["role"] or "user", text)
        return Edit(place, True, int(found["at"] or -1), found["role"] or "", text)

    def _members(self, node: MapNode, source: Source, depth: int) -> Iterator[Statement]:
        pairs = list(node.value)
        at = 0
        while at < len(pairs):
            key, value = pairs[at]
            at += 1
            place = source.at(key)
            if key.custom_tag:
                source.refuse_tag(place, key.tag)
            if not isinstance(key, ScalarNode):
                source.fail(place, "a role, or an instruction, is a text", "角色或指令须是文本")
            found = INSTRUCTION.fullmatch(key.value.strip())
            if found is None:
                yield self._say(key.value, value, place, source)
                continue
            parts: dict[str, Node] = {}
            while at < len(pairs) and pairs[at][0].value in PARTS:
                parts[pairs[at][0].value] = pairs[at][1]
                at += 1
            yield self._control.read_structured(found, value, parts, place, source, depth)

    def _say(self, key: str, value: Node, at: Place, source: Source) -> Say:
        if key in PARTS:
            source.fail(
                at,
                f"{key!r} belongs below $if, $while or $for, and there is none",
                f"{key!r} 须在 $if、$while 或 $for 之下",
            )
        try:
            role, address = key_address(key, self._known)
        except ScriptError as wrong:
            source.fail(at, wrong.message, wrong.message_zh)
        place = source.at(value)
        if value.custom_tag:
            source.refuse_tag(place, value.tag)
        if isinstance(value, ScalarNode):
            text = "" if scalar_kind(value) == "null" and not value.style else value.value
        else:
            text = yaml_text(data_of(value, source))
        return self._read_message(role, text, place, address)

    def _read_message(self, role: str, text: str, place: Place, address: Address) -> Say:
        if self._settings.roles and not address.to:
            text, address = text_address(text, self._known)
        made = self._text(text, place)
        if role == "system" and (found := next(iter(made.substitutions), None)):
            warning = f"[[{found.name}]] is in a system message: the model speaks for the system"
            self.warnings.append((place, warning))
        return Say(place, role, made, *address)

    def _text(self, text: str, place: Place) -> Text:
        text_object = compile_text(text, place, self._file, self._style)
        self.biases += [(one.place, one.text) for one in text_object.biases]
        self._control.note_inlines(text_object)
        return text_object


def _mark_piped(block: Sequence[Statement]) -> Block:
    """Statements, where one that follows a `$pipe` takes the result of the one before it."""
    marked: list[Statement] = []
    for one in block:
        last = marked[-1] if marked else None
        piping = isinstance(last, Instruction) and last.name == "pipe"
        alone = piping and last.value is None and last.arguments is None  # type: ignore[union-attr]
        if alone and isinstance(one, Instruction):
            marked[-1] = replace(one, piped=True)
        else:
            marked.append(one)
    return tuple(marked)


def _content(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return yaml_text(value) if isinstance(value, dict | list) else str(value)


def read_script(text: str, id: str = "", file: str | None = None) -> Script:
    """Reads a script; what is wrong in it is a `FlowError` with line and column."""
    front_source, body = split_front_matter(text, file)
    front: Any = {}
    if front_source is not None:
        node = front_source.compose(aliases=True)
        if node is not None:
            check_size(node, front_source)
        front = data_of(node, front_source) if node is not None else {}
        if not isinstance(front, dict):
            front_source.fail(
                front_source.place(0), "the front matter is a mapping", "front matter 须是字典"
            )
    source = front_source or body
    settings = settings_of(front, source)
    style = style_of(front, source)
    reader = StatementReader(file, style, settings)
    reader.warnings += _without_effect(front, source)
    statements = reader.front_messages(front, source) + reader.body(body)
    tools = [Link(source.place(0), name, False) for name in settings.tools]
    tools += [Link(source.place(0), name, True, declares=True) for name in settings.functions]
    return Script(
        id,
        file,
        front,
        statements,
        [*reader.calls, *tools],
        reader.warnings,
        settings,
        reader.biases,
        style,
    )


def _without_effect(front: dict[str, Any], source: Source) -> list[tuple[Place, str]]:
    """What the front matter asks for and does not get."""
    if not front.get("export"):
        return []
    warning = "'export' has no effect but for tools: scripts beside one another know each other"
    return [(source.place(0), warning)]
