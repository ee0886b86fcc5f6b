"""YAML text → data with places.

YAML is read by the rules of version 1.2, as editors read it: `No`, `on`, `12:30` and `2026-01-31`
are texts. Anchors and aliases work. Whatever could make a small file large or run code (tags,
merge keys, endless nesting) is refused.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import yaml
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from orchestrator.definition.document import Document, Reader
from orchestrator.definition.positions import Node

__all__ = ["YamlReader", "add_plain_scalars"]

_NO_COLON = "could not find expected ':'"

_TAG = "tag:yaml.org,2002:"

PLAIN: dict[str, tuple[re.Pattern[str], str]] = {
    "null": (re.compile(r"^(?:~|null|Null|NULL|)$"), "~nN"),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    "int": (re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), "-+0123456789"),
    "float": (
        re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
        "-+.0123456789",
    ),
}
"""What unquoted scalars are no texts (YAML 1.2, core schema), with their first characters."""


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with version 1.2's plain scalars."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


def add_plain_scalars(resolver: type[yaml.resolver.BaseResolver]) -> None:
    """Teaches a loader or dumper what unquoted scalars are no texts."""
    for kind, (pattern, first) in PLAIN.items():
        # An empty scalar is null too.
        resolver.add_implicit_resolver(_TAG + kind, pattern, [*first, *([""] * (kind == "null"))])


add_plain_scalars(_Loader)


class YamlReader(Reader):
    """Reads one YAML document."""

    def read(self) -> Document:
        """Reads the whole text."""
        try:
            root = yaml.compose(self.text, Loader=_Loader)
        except yaml.YAMLError as error:
            self._raise_syntax_error(error)
        except RecursionError:
            self.fail("this is nested too deeply", 1, 1)
        if root is None:
            return Document(None, Node(1, 1))
        data, node = self._read_value(root, 0)
        return Document(data, node)

    def _raise_syntax_error(self, error: yaml.YAMLError) -> NoReturn:
        if isinstance(error, yaml.reader.ReaderError):
            before = self.text[: error.position]
            line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            code = ord(self.text[error.position])
            self.fail(f"the character U+{code:04X} may not stand in YAML", line, column)
        problem = getattr(error, "problem", None) or str(error)
        marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
        if _NO_COLON in problem:
            marks.reverse()  # The name, and not where the search for its colon ended.
        mark = marks[0] or marks[1]
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        self.fail(_in_plain_words(problem, getattr(error, "context", None)), line, column)

    def _read_value(self, yaml_node: Any, depth: int) -> tuple[Any, Node]:
        mark = yaml_node.start_mark
        node = Node(mark.line + 1, mark.column + 1)
        self.enter(depth, node.line, node.column)
        if isinstance(yaml_node, ScalarNode):
            return self._read_scalar(yaml_node, node), node
        if isinstance(yaml_node, SequenceNode) and self._check_tag(yaml_node, "seq", node):
            return self._read_list(yaml_node, node, depth), node
        if isinstance(yaml_node, MappingNode) and self._check_tag(yaml_node, "map", node):
            return self._read_mapping(yaml_node, node, depth), node
        return None, node

    def _read_list(self, yaml_node: SequenceNode, node: Node, depth: int) -> list[Any]:
        data: list[Any] = []
        for item in yaml_node.value:
            value, node.children[len(data)] = self._read_value(item, depth + 1)
            data.append(value)
        return data

    def _read_mapping(self, yaml_node: MappingNode, node: Node, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name_node, value_node in yaml_node.value:
            value, inner = self._read_value(value_node, depth + 1)
            mark = name_node.start_mark
            inner.key = (mark.line + 1, mark.column + 1)
            if (name := self._read_name(name_node, *inner.key)) is not None:
                self.put(data, name, value, inner, node)
        return data

    def _read_name(self, name_node: Any, line: int, column: int) -> str | None:
        if not isinstance(name_node, ScalarNode):
            self.report("not-a-name", "a member's name must be a text", line, column)
        elif name_node.tag != _TAG + "str":
            text = name_node.value
            self.report(
                "not-a-name", f'a member\'s name must be a text; write "{text}"', line, column
            )
        elif name_node.value == "<<" and not name_node.style:
            self.report(
                "merge-key", "merge keys (<<) are not supported; write them out", line, column
            )
        else:
            return self.join_surrogates(name_node.value, line, column)
        return None

    def _check_tag(self, yaml_node: Any, expected: str, node: Node) -> bool:
        if yaml_node.tag == _TAG + expected:
            return True
        tag = yaml_node.tag.replace(_TAG, "!!")
        self.report(
            "tag", f"the tag {tag!r} is not supported; leave it out", node.line, node.column
        )
        return False

    def _read_scalar(self, yaml_node: ScalarNode, node: Node) -> Any:
        text = yaml_node.value
        kind = yaml_node.tag.removeprefix(_TAG)
        if kind == "str":
            return self.join_surrogates(text, node.line, node.column)
        if kind not in PLAIN:
            self._check_tag(yaml_node, "str", node)
            return None
        node.text = text
        if not PLAIN[kind][0].match(text):
            self.report("tag", f"{text!r} is no {kind}", node.line, node.column)
            return None
        return self._plain(kind, text, node)

    def _plain(self, kind: str, text: str, node: Node) -> Any:
        if kind in ("null", "bool"):
            return None if kind == "null" else text.lower() == "true"
        value: int | float
        try:
            value = float(text) if kind == "float" else int(text, 0 if text[1:2] in "ox" else 10)
        except ValueError:  # Python bounds the digits that it converts.
            value = math.inf
        if isinstance(value, float) and math.isinf(value):
            self.fail("this number is too large", node.line, node.column)
        return value


def _in_plain_words(problem: str, context: str | None) -> str:
    """PyYAML's complaint, with what to do about the commonest ones."""
    if "'\\t'" in problem:
        return "a tab stands where YAML wants spaces; indent with spaces"
    if "expected a single document" in (context or "") or "another document" in problem:
        return "there is a second document; an agent's file holds one"
    if "mapping values are not allowed" in problem:
        return 'this colon begins a second value; put the text in quotes, as in "a: b"'
    if _NO_COLON in problem:
        return "a colon is missing after this member's name"
    hint = f" {context}" if context else ""
    return f"this is not YAML: {problem}{hint}"
