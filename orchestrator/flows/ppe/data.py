"""Data that an author wrote, as YAML: with places, in YAML 1.2's types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import yaml

from orchestrator.errors import DefinitionError
from orchestrator.flows.steps import Place
from orchestrator.support.documents import (
    ListNode,
    MapNode,
    Node,
    Rules,
    ScalarNode,
    compose,
    read_scalar,
    scalar_kind,
)
from orchestrator.support.safe_json import iter_texts

_RULES = Rules(max_depth=60)
# Front matter is data; what its aliases repeat is counted.
_FRONT_RULES = replace(_RULES, aliases=True)
_MOST_VALUES = 20_000
_VALUE = 200  # characters of a text that count as one value more


class Author(str):
    """A text that the script's author wrote: its templates are rendered. Other texts are values."""

    place: Place  # where it is


# A value that begins with a template, a substitution or an addressee and has no quotes would be
# YAML's own.
_BEFORE = re.compile(
    r"[ ]*(?:-[ ]+)*(?:(?:\"[^\"]*\"[ ]*|'[^']*'[ ]*|[^\s\"'#\[{:][^:#\n]*):[ ]+)?"
)
_UNQUOTED = re.compile(r"\{\{|\[\[[^\[\],]*\]\]|@\w")
_MARKED_FUNCTION = re.compile(r"!fn#(?=\s|$)")
_BLOCK = re.compile(r"(?:^|[:\-][ ]+)[|>][-+0-9]*[ ]*(?:#.*)?$")


def _quote_template_values(text: str) -> str:
    """The text, with quotes around values that begin with `{{`, `[[` or `@name`."""
    lines, block = [], -1
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if block >= 0 and (not line.strip() or indent > block):
            lines.append(line)
            continue
        # `!fn#` is a function whose texts are templates; YAML has no tag of that name.
        line = _MARKED_FUNCTION.sub("!fn ", line)
        block = indent if _BLOCK.search(line) else -1
        before = _BEFORE.match(line)
        if before is not None and _UNQUOTED.match(line, before.end()):
            value = line[before.end() :].rstrip(" ").replace("'", "''")
            line = f"{before[0]}'{value}'"
        lines.append(line)
    return "\n".join(lines)


def describe_javascript(name: str) -> tuple[str, str]:
    """What is said of a function in JavaScript that no registered one carries out."""
    return (
        "functions in JavaScript are not run; register a Python function under the same name: "
        f"tools={{{name!r}: function}}, or --tool {name}=FILE:FUNCTION",
        f"不支持 JavaScript 函数；请用 tools={{{name!r}: 函数}} 注册同名的 Python 函数",
    )


class Source:
    """A part of a script's text, and where it is in the script."""

    def __init__(self, text: str, first: int, file: str | None) -> None:
        self.text = text
        self.first = first  # the line of the script that it begins in, from 1
        self.file = file
        self._lines = text.split("\n")

    def place(self, line: int, column: int = 0) -> Place:
        """A place in the script, by the line and the column in the part, both from 0."""
        statement = self._lines[line].strip() if line < len(self._lines) else ""
        return Place(self.first + line, column + 1, statement)

    def fail(self, place: Place, message: str, message_zh: str) -> NoReturn:
        """Refuses the script with a `FlowError`, in English and in Chinese."""
        raise place.error(message, message_zh, self.file)

    def refuse_tag(self, place: Place, tag: str) -> NoReturn:
        """Refuses a tag of YAML."""
        if tag.startswith("!fn"):
            self.fail(place, *describe_javascript("name"))
        self.fail(place, f"the tag {tag!r} is not understood", f"无法识别的标签 {tag!r}")

    def compose(self, *, aliases: bool = False) -> Node | None:
        """The part as YAML nodes."""
        rules = _FRONT_RULES if aliases else _RULES
        try:
            return compose(_quote_template_values(self.text), rules=rules)
        except DefinitionError as error:
            place = self.place((error.line or 1) - 1, (error.column or 1) - 1)
            what = error.reason
            self.fail(place, what, f"不是有效的 YAML: {what}")

    def at(self, node: Node) -> Place:
        """Where a node's content begins."""
        if node.style in ("|", ">"):
            return self.place(node.line, 0)
        return self.place(node.line - 1, node.column - 1)


def check_size(node: Node, source: Source) -> None:
    """Refuses front matter that is too large once its aliases are followed."""
    sizes: dict[int, int] = {}

    def count(one: Node) -> int:
        if id(one) not in sizes:
            pairs = one.value if isinstance(one, MapNode) else ()
            items = (
                one.value if isinstance(one, ListNode) else [it for pair in pairs for it in pair]
            )
            own = len(one.value) // _VALUE if isinstance(one, ScalarNode) else 0
            sizes[id(one)] = 1 + own + sum(map(count, items))
        return sizes[id(one)]

    if count(node) > _MOST_VALUES:
        source.fail(
            source.place(0),
            f"with all that its aliases repeat, the front matter has more than {_MOST_VALUES:,} "
            "values",
            f"front matter 连同别名重复的内容超过 {_MOST_VALUES:,} 个值",
        )


def data_of(node: Node | None, source: Source) -> Any:
    """A node as data; its texts are the author's."""
    if node is None:
        return None
    if isinstance(node, MapNode):
        return _read_mapping(node, source)
    if isinstance(node, ListNode):
        return [data_of(one, source) for one in node.value]
    assert isinstance(node, ScalarNode)
    kind = scalar_kind(node)
    if not kind:
        source.refuse_tag(source.at(node), node.tag)
    if kind != "str":
        return _read_scalar(kind, node, source)
    text = Author(node.value)
    text.place = source.at(node)
    return text


def _read_mapping(node: MapNode, source: Source) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.value == "<<" and not key.style:
            for one in value.value if isinstance(value, ListNode) else [value]:
                if not isinstance(one, MapNode):
                    source.fail(source.at(key), "'<<' takes maps", "'<<' 须是字典")
                merged = {**_read_mapping(one, source), **merged}
            continue
        name = str(data_of(key, source))
        if name in mapping:
            source.fail(source.at(key), f"{name!r} is there twice", f"{name!r} 重复出现")
        mapping[name] = data_of(value, source)
    return {**merged, **mapping}


def _read_scalar(kind: str, node: ScalarNode, source: Source) -> Any:
    try:
        return read_scalar(kind, node.value)
    except (ValueError, OverflowError):  # a tag that the text does not fit, or too many digits
        written = node.value[:40]
        source.fail(
            source.at(node),
            f"{written!r} is no number, or too large",
            f"{written!r} 不是数字，或数字过大",
        )


def yaml_text(value: Any) -> str:
    """A list or a map as YAML text."""
    text: str = yaml.safe_dump(plain(value), allow_unicode=True, sort_keys=False)
    return text.rstrip("\n")


def plain(value: Any) -> Any:
    """A value as plain JSON data: the author's texts are texts."""
    return json.loads(json.dumps(value, ensure_ascii=False))


def map_of(value: Any) -> dict[str, Any]:
    """A copy of a map; an empty one for anything else."""
    return dict(value) if isinstance(value, dict) else {}


def author_texts(value: Any) -> Iterator[Author]:
    """The author's texts in data, keys left out."""
    return (text for text in iter_texts(value) if isinstance(text, Author))


SEPARATOR = re.compile(r"(?:-{3,}|\*{3,})[ \t]*(?:#.*)?$")
"""A line, or an item of a list, that separates dialogues."""

_PARTS = re.compile(r"(?:then|else|do|as)[ \t]*:")


def split_front_matter(text: str, file: str | None) -> tuple[Source | None, Source]:
    """The front matter, if the first line that is no comment begins one, and the body."""
    lines = text.replace("\r\n", "\n").split("\n")
    begins = next((at for at, it in enumerate(lines) if it.strip() and not it.startswith("#")), 0)
    if lines[begins].rstrip() != "---":
        return None, Source("\n".join(lines), 1, file)
    after = enumerate(lines[begins + 1 :], begins + 1)
    end = next((at for at, line in after if line.rstrip() == "---"), None)
    if end is None and begins:  # a separator below comments
        return None, Source("\n".join(lines), 1, file)
    if end is None:
        whole = Source(text, 1, file)
        whole.fail(
            whole.place(0),
            "the front matter has no end; write --- below it",
            "front matter 没有结束，请在其下方写 ---",
        )
    front = Source("\n".join(lines[begins + 1 : end]), begins + 2, file)
    return front, Source("\n".join(lines[end + 1 :]), end + 2, file)


def entries(body: Source) -> Iterator[Source]:
    """The entries of the body, in order: statements, and lines that separate dialogues."""
    lines = body.text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            at += 1
            continue
        end = at + 1
        while not SEPARATOR.match(line) and end < len(lines) and _goes_on(lines[end]):
            end += 1
        yield Source("\n".join(lines[at:end]), body.first + at, body.file)
        at = end


def _goes_on(line: str) -> bool:
    """Whether a line belongs to the entry before it."""
    return not line.strip() or line[0] in " \t" or _PARTS.match(line) is not None
