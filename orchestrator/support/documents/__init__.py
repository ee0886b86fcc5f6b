"""YAML and JSON: text → plain data, and the place of every value and member name in it.

Every file and text in these formats that a person writes is read here: agents, guardrails, API
schemas, dialects, prompts, scripts, CloudFormation templates. Size, depth and the number of values
are bounded. Aliases are refused where a text may come from outside. No text runs code: a tag means
nothing, but where a reader gives it a meaning.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NoReturn

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError
from orchestrator.support.documents.places import Keys, Place, Source, combine_findings
from orchestrator.support.documents.syntax import (
    Bounds,
    JsonComposer,
    ListNode,
    MapNode,
    Node,
    Rules,
    ScalarNode,
    YamlComposer,
)

__all__ = [
    "MAX_BYTES",
    "PLAIN_SCALARS",
    "Document",
    "Keys",
    "ListNode",
    "MapNode",
    "Node",
    "Place",
    "Rules",
    "ScalarNode",
    "Source",
    "combine_findings",
    "compose",
    "decode",
    "parse",
    "parse_json",
    "read_scalar",
    "scalar_kind",
]

# Size of a definition's file; long templates and schemas can have files of their own.
MAX_BYTES = 2_000_000

# What unquoted scalars are no texts (YAML 1.2, core schema), with their first characters.
#
# `No`, `on`, `12:30` and `2026-01-31` are texts, as editors read them.
PLAIN_SCALARS: dict[str, tuple[re.Pattern[str], str]] = {
    "null": (re.compile(r"^(?:~|null|Null|NULL|)$"), "~nN"),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    "int": (re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), "-+0123456789"),
    "float": (
        re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
        "-+.0123456789",
    ),
}


DEFAULT = Rules()


@dataclass(frozen=True, slots=True)
class Document:
    """A text that was read."""

    data: Any  # its value: mappings, lists, texts, numbers, truth values and nulls
    root: Place  # the places


def decode(content: bytes, file: str, *, limit: int = MAX_BYTES) -> str:
    """The text of a file; its lines end with line feeds, wherever it was written.

    Raises:
        DefinitionError: It is too large, or is not UTF-8.
    """
    if len(content) > limit:
        raise DefinitionError(f"the file is larger than {limit:,} bytes; split it", file=file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8", "replace")
        raise DefinitionError(
            f"byte 0x{error.object[error.start]:02X} is not UTF-8; save the file as UTF-8",
            file=file,
            line=before.count("\n") + 1,
            column=len(before) - (before.rfind("\n") + 1) + 1,
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def compose(text: str, file: str = "", rules: Rules = DEFAULT, *, line: int = 1) -> Node | None:
    """The nodes of a YAML text, for who reads them in their own way; `None` when it is empty.

    Raises:
        DefinitionError: As for `parse`; tags, names and numbers are not looked at.
    """
    return YamlComposer(text, Bounds(file, rules, line)).compose()


def parse(text: str, file: str = "", rules: Rules = DEFAULT, *, line: int = 1) -> Document:
    """Reads a YAML text, which begins in line `line` of `file`.

    Raises:
        DefinitionError: It is not YAML, names a member twice, or is too deep or too large; or it
            has an alias or a tag that the rules do not allow. `rules.error` may be a subclass.
    """
    return _DataReader(file, rules).read(compose(text, file, rules, line=line) or _EMPTY)


def parse_json(text: str, file: str = "", rules: Rules = DEFAULT, *, line: int = 1) -> Document:
    """Reads a JSON text; `parse` has the parameters and the errors."""
    node = JsonComposer(text, Bounds(file, rules, line)).compose()
    return _DataReader(file, replace(rules, scalars="1.2")).read(node)


_EMPTY = ScalarNode(1, 1)


def scalar_kind(node: ScalarNode) -> str:
    """`str`, `null`, `bool`, `int` or `float`, by YAML 1.2; empty for a tag that is not known."""
    kind = node.tag.removeprefix("!!")
    if kind in PLAIN_SCALARS:
        return kind
    if node.tag not in ("", "!", "!!str"):
        return ""
    return "str" if node.tag or node.style else _plain_kind(node.value)


def _plain_kind(text: str) -> str:
    for kind, (pattern, first) in PLAIN_SCALARS.items():
        if (not text or text[0] in first) and pattern.match(text):
            return kind
    return "str"


def read_scalar(kind: str, text: str) -> Any:
    """The null, truth value or number that is written as `text`.

    Raises:
        ValueError: It is not of the kind, which a tag can say.
        OverflowError: The number is too large.
    """
    if not PLAIN_SCALARS[kind][0].match(text):
        raise ValueError(f"{text!r} is no {kind}")
    if kind in ("null", "bool"):
        return None if kind == "null" else text.lower() == "true"
    value: int | float
    try:
        value = float(text) if kind == "float" else int(text, 0 if text[1:2] in "ox" else 10)
    except ValueError:  # Python bounds the digits that it converts.
        value = math.inf
    if isinstance(value, float) and math.isinf(value):
        raise OverflowError("this number is too large")
    return value


# PyYAML's own rules for plain scalars are those of YAML 1.1.
@cache
def _version_1_1() -> tuple[Any, Any]:
    import yaml

    resolver = yaml.resolver.Resolver()
    return resolver, yaml.constructor.SafeConstructor()


def _read_version_1_1(text: str) -> Any:
    import yaml

    resolver, constructor = _version_1_1()
    tag = resolver.resolve(yaml.ScalarNode, text, (True, False))
    if tag.rpartition(":")[2] not in PLAIN_SCALARS:
        return text
    try:
        return constructor.construct_object(yaml.ScalarNode(tag, text))
    except ValueError:  # Python bounds the digits that it converts.
        raise OverflowError("this number is too large") from None


# Notes the mistakes after which it can go on, and raises them at once.
class _DataReader:
    def __init__(self, file: str, rules: Rules) -> None:
        self.file = file
        self.rules = rules
        self.bounds = Bounds(file, rules)
        self.findings: list[Diagnostic] = []

    def read(self, root: Node) -> Document:
        data, place = self._read(root, 0)
        if self.findings:
            raise combine_findings(self.findings, self.rules.error)
        return Document(data, place)

    def _fail(self, message: str, node: Node) -> NoReturn:
        self.bounds.fail(message, node.line, node.column)

    def _report(self, code: str, message: str, node: Node) -> None:
        self.findings.append(
            Diagnostic(
                severity="error",
                code=code,
                message=message,
                file=self.file or None,
                line=node.line,
                column=node.column,
            )
        )

    def _read(self, node: Node, depth: int) -> tuple[Any, Place]:
        place = Place(node.line, node.column)
        # Nodes were counted before; here an alias counts as all that it repeats.
        self.bounds.count(depth, node.line, node.column)
        own = self.rules.tags if node.custom_tag else None
        value = self._read_value(node, place, depth, tagged=own is not None)
        return (own(node.tag, value) if own else value), place

    def _read_value(self, node: Node, place: Place, depth: int, *, tagged: bool) -> Any:
        if isinstance(node, ScalarNode):
            return self._join_surrogates(node) if tagged else self._read_scalar(node, place)
        if isinstance(node, ListNode) and (tagged or self._check_tag(node, "!!seq")):
            return self._read_list(node, place, depth)
        if isinstance(node, MapNode) and (tagged or self._check_tag(node, "!!map")):
            return self._read_mapping(node, place, depth)
        return None

    def _check_tag(self, node: Node, expected: str) -> bool:
        if node.tag in ("", "!", expected):
            return True
        self._report("tag", f"the tag {node.tag!r} is not supported; leave it out", node)
        return False

    def _read_scalar(self, node: ScalarNode, place: Place) -> Any:
        kind = scalar_kind(node)
        if not kind:
            self._check_tag(node, "!!str")
            return None
        plain = not node.tag and not node.style
        try:
            if plain and self.rules.scalars == "1.1":
                value = _read_version_1_1(node.value)
            elif kind == "str" or (plain and self.rules.scalars == "text"):
                return self._join_surrogates(node)
            else:
                value = read_scalar(kind, node.value)
        except OverflowError as error:
            self._fail(str(error), node)
        except ValueError as error:
            self._report("tag", str(error), node)
            return None
        place.text = "" if isinstance(value, str) else node.value
        return value

    # JSON writes characters beyond U+FFFF as two escapes of UTF-16.
    def _join_surrogates(self, node: ScalarNode) -> str:
        if node.value.isascii():
            return node.value
        try:
            return node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._fail("the text holds half of a surrogate pair", node)

    def _read_list(self, node: ListNode, place: Place, depth: int) -> list[Any]:
        data: list[Any] = []
        for item in node.value:
            value, place.children[len(data)] = self._read(item, depth + 1)
            data.append(value)
        return data

    def _read_mapping(self, node: MapNode, place: Place, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: list[tuple[Any, Place]] = []
        for name_node, value_node in node.value:
            value, inner = self._read(value_node, depth + 1)
            inner.key = (name_node.line, name_node.column)
            # YAML 1.1: a quoted "<<" is an ordinary name.
            if _is_merge_key(name_node) and self.rules.merge_keys:
                merged.append((value, inner))
            elif (name := self._read_name(name_node)) in place.children:
                line, _ = place.children[name].key or (place.line, place.column)
                message = f"{name!r} is given twice, first in line {line}; remove one"
                self._report("duplicate-member", message, name_node)
            elif name is not None:
                data[name], place.children[name] = value, inner
        if not merged:
            return data
        own = dict(data)
        for value, inner in merged:
            self._merge(value, inner, data, place, node)
        # Merged members come first, as PyYAML has them: what is written out of a file keeps its
        # order.
        first = [name for value, _ in merged if isinstance(value, dict) for name in value]
        return {name: data[name] for name in (*first, *own, *data)}

    # What is there already stays (YAML: merge type).
    def _merge(
        self, value: Any, inner: Place, data: dict[str, Any], place: Place, node: Node
    ) -> None:
        others = [(value, inner)]
        if isinstance(value, list):
            others = [(one, inner.children[at]) for at, one in enumerate(value)]
        for members, places in others:
            if not isinstance(members, dict):
                self._fail("a merge key (<<) has a mapping, or a list of mappings", node)
            for name, member in members.items():
                if name not in data:
                    data[name], place.children[name] = member, places.children[name]

    def _read_name(self, node: Node) -> str | None:
        if not isinstance(node, ScalarNode):
            self._report("not-a-name", "a member's name must be a text", node)
        elif _is_merge_key(node):
            message = "merge keys (<<) are not supported; write them out"
            self._report("merge-key", message, node)
        elif self.rules.any_names or scalar_kind(node) == "str":
            return self._join_surrogates(node)
        else:
            message = f'a member\'s name must be a text; write "{node.value}"'
            self._report("not-a-name", message, node)
        return None


def _is_merge_key(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value == "<<" and not node.style
