"""Data that an author wrote, as YAML: with places, in YAML 1.2's types, without aliases."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

import yaml

from orchestrator.errors import FlowError
from orchestrator.flows.steps import Place

__all__ = ["Author", "Source", "data_of", "plain", "yaml_text"]

_DEEPEST = 60


class Author(str):
    """A text that the script's author wrote: its templates are rendered. Other texts are values.

    Attributes:
        place: Where it is.
    """

    place: Place


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2's types: `No` is a text, and `012` is twelve."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "aliases are not understood here", event.start_mark
            )
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {}

for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))

# A value that begins with a template, a substitution or an addressee and has no quotes would be
# YAML's own.
_BEFORE = re.compile(
    r"[ ]*(?:-[ ]+)*(?:(?:\"[^\"]*\"[ ]*|'[^']*'[ ]*|[^\s\"'#\[{:][^:#\n]*):[ ]+)?"
)
_UNQUOTED = re.compile(r"\{\{|\[\[[^\[\],]*\]\]|@\w")
_BLOCK = re.compile(r"(?:^|[:\-][ ]+)[|>][-+0-9]*[ ]*(?:#.*)?$")


def _quote_template_values(text: str) -> str:
    """The text, with quotes around values that begin with `{{`, `[[` or `@name`."""
    lines, block = [], -1
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if block >= 0 and (not line.strip() or indent > block):
            lines.append(line)
            continue
        block = indent if _BLOCK.search(line) else -1
        before = _BEFORE.match(line)
        if before is not None and _UNQUOTED.match(line, before.end()):
            value = line[before.end() :].rstrip(" ").replace("'", "''")
            line = f"{before[0]}'{value}'"
        lines.append(line)
    return "\n".join(lines)


class Source:
    """A part of a script's text, and where it is in the script.

    Attributes:
        text: The part.
        first: The line of the script that it begins in, from 1.
        file: The script's file, if any.
    """

    def __init__(self, text: str, first: int, file: str | None) -> None:
        self.text = text
        self.first = first
        self.file = file
        self._lines = text.split("\n")

    def place(self, line: int, column: int = 0) -> Place:
        """A place in the script, by the line and the column in the part, both from 0."""
        statement = self._lines[line].strip() if line < len(self._lines) else ""
        return Place(self.first + line, column + 1, statement)

    def fail(self, place: Place, message: str, message_zh: str) -> NoReturn:
        """Refuses the script, in English and in Chinese.

        Raises:
            FlowError: Always.
        """
        raise FlowError(
            message,
            file=self.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
            message_zh=f"第 {place.line} 行：{message_zh}",
        )

    def refuse_tag(self, place: Place, tag: str) -> NoReturn:
        """Refuses a tag of YAML.

        Raises:
            FlowError: Always.
        """
        if tag.startswith("!fn"):
            self.fail(
                place,
                "functions in JavaScript are not run; register a Python function under the same "
                "name: tools={'name': function}",
                "不支持 JavaScript 函数；请用 tools={'name': 函数} 注册同名的 Python 函数",
            )
        self.fail(place, f"the tag {tag!r} is not understood", f"无法识别的标签 {tag!r}")

    def compose(self) -> yaml.Node | None:
        """The part as YAML nodes.

        Raises:
            FlowError: It is none.
        """
        try:
            node: yaml.Node | None = yaml.compose(_quote_template_values(self.text), _Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = self.place(mark.line, mark.column) if mark else self.place(0)
            what = error.problem or error.context
            self.fail(place, f"no YAML: {what}", f"不是有效的 YAML: {what}")
        except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
            self.fail(self.place(0), f"no YAML: {error}", f"不是有效的 YAML: {error}")
        return node

    def at(self, node: yaml.Node) -> Place:
        """Where a node's content begins."""
        mark = node.start_mark
        block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        return self.place(mark.line + 1 if block else mark.line, 0 if block else mark.column)


_MADE: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:null": lambda text: None,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
}


def data_of(node: yaml.Node | None, source: Source, depth: int = 0) -> Any:
    """A node as data; its texts are the author's.

    Raises:
        FlowError: It has a tag, or is nested too deeply.
    """
    if node is None:
        return None
    if depth > _DEEPEST:
        source.fail(source.at(node), "the data is nested too deeply", "数据嵌套过深")
    if isinstance(node, yaml.MappingNode):
        return _read_mapping(node, source, depth + 1)
    if isinstance(node, yaml.SequenceNode):
        return [data_of(one, source, depth + 1) for one in node.value]
    if node.tag in _MADE:
        return _read_scalar(node, source)
    if node.tag != "tag:yaml.org,2002:str":
        source.refuse_tag(source.at(node), node.tag)
    text = Author(node.value)
    text.place = source.at(node)
    return text


def _read_mapping(node: yaml.MappingNode, source: Source, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in node.value:
        name = str(data_of(key, source, depth))
        if name in made:
            source.fail(source.at(key), f"{name!r} is there twice", f"{name!r} 重复出现")
        made[name] = data_of(value, source, depth)
    return made


def _read_scalar(node: yaml.Node, source: Source) -> Any:
    try:
        made = _MADE[node.tag](node.value)
    except ValueError:  # too many digits, or a tag that the text does not fit
        made = math.inf
    if isinstance(made, float) and not math.isfinite(made):
        written = str(node.value)[:40]
        source.fail(
            source.at(node),
            f"{written!r} is no number, or too large",
            f"{written!r} 不是数字，或数字过大",
        )
    return made


def yaml_text(value: Any) -> str:
    """A list or a map as YAML text."""
    text: str = yaml.safe_dump(plain(value), allow_unicode=True, sort_keys=False)
    return text.rstrip("\n")


def plain(value: Any) -> Any:
    """A value as plain JSON data: the author's texts are texts."""
    return json.loads(json.dumps(value, ensure_ascii=False))
