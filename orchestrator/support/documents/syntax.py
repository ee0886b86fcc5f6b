"""YAML or JSON text → nodes: what is written, and where; not yet what it means."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from orchestrator.errors import DefinitionError

_EXPLAINED_CHARS = 200_000

_NO_COLON = "could not find expected ':'"
_OPEN_QUOTE = "found unexpected end of stream"  # only quotes are read so far
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(slots=True)
class Node:
    """One value as it is written."""

    line: int  # its line, from 1
    column: int  # its column, from 1
    tag: str = ""  # its tag, such as `!Sub` or `!!str`; empty without one
    style: str = ""  # the quotes of a text, `|` or `>` of a block; empty for plain scalars
    value: Any = None  # the text of a scalar, the nodes of a list, the pairs of nodes of a mapping

    @property
    def custom_tag(self) -> str:
        """Its tag, when that is none of YAML's own; else empty."""
        return "" if self.tag in ("", "!") or self.tag.startswith("!!") else self.tag


@dataclass(slots=True)
class ScalarNode(Node):
    """A text, number, truth value or null."""

    value: str = ""


@dataclass(slots=True)
class ListNode(Node):
    """A list; `flow_style` when it is written in brackets."""

    value: list[Node] = field(default_factory=list)
    flow_style: bool = False


@dataclass(slots=True)
class MapNode(Node):
    """A mapping: pairs in the order of the text, with names that are there twice."""

    value: list[tuple[Node, Node]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a text is read."""

    # The YAML version whose plain scalars are numbers and truth values: in 1.1 `yes` is true and
    # `010` is eight. Dates are texts in both. With `text` all scalars are.
    scalars: Literal["1.2", "1.1", "text"] = "1.2"
    # Whether aliases are allowed; each counts as all the values that it repeats
    aliases: bool = False
    merge_keys: bool = False  # whether `<<` adds the members of other mappings
    # Whether member names may look like numbers or truth values; they are texts then
    any_names: bool = True
    # Makes a value of a tag of its own, such as `!Sub`, and of what it stands before
    tags: Callable[[str, Any], Any] | None = None
    max_depth: int = 50  # levels of lists and mappings
    max_nodes: int = 100_000  # values, in all
    error: type[DefinitionError] = DefinitionError  # the error for texts that cannot be read


@dataclass(slots=True)
class Bounds:
    """What a text may cost, and how it is refused."""

    file: str  # the file, for messages
    rules: Rules
    first_line: int = 1  # the line of the file that the text begins in
    nodes: int = 0  # how many values there were

    def count(self, depth: int, line: int, column: int) -> None:
        """Counts one value, and refuses one too many or one too deep."""
        self.nodes += 1
        rules = self.rules
        if depth > rules.max_depth:
            self.fail(f"this is nested deeper than {rules.max_depth} levels", line, column)
        if self.nodes > rules.max_nodes:
            self.fail(f"the file comes to more than {rules.max_nodes:,} values", line, column)

    def fail(self, message: str, line: int, column: int) -> NoReturn:
        """Gives up: what follows cannot be read."""
        raise self.rules.error(message, file=self.file or None, line=line, column=column)


class YamlComposer:
    """Reads a YAML text."""

    def __init__(self, text: str, bounds: Bounds) -> None:
        self.text = text
        self.bounds = bounds

    def compose(self) -> Node | None:
        """The node of the document; `None` when there is none."""
        import yaml

        self.yaml = yaml
        # libyaml is some ten times faster than PyYAML's own parser, which knows more escapes and
        # explains better. What libyaml refuses is read again, so that all platforms say the same.
        refused: Exception | None = None
        if (fast := getattr(yaml, "CSafeLoader", None)) is not None:
            try:
                return self._read_document(fast)
            except (yaml.YAMLError, UnicodeEncodeError) as error:
                refused = error
        if refused and len(self.text) > _EXPLAINED_CHARS:
            self._explain(refused)
        try:
            return self._read_document(yaml.SafeLoader)
        except yaml.YAMLError as error:
            self._explain(error)
        except (ValueError, OverflowError) as error:  # an escape of no character
            self._explain(refused or error)

    def _read_document(self, parser: Any) -> Node | None:
        # An anchor whose value is still being read is `None`.
        self.anchors: dict[str, Node | None] = {}
        self.events: Iterator[Any] = self.yaml.parse(self.text, parser)
        next(self.events)  # the stream's start
        if not isinstance(next(self.events), self.yaml.DocumentStartEvent):
            return None
        root = self._read(next(self.events), 0)
        next(self.events)  # the document's end
        event = next(self.events)
        if isinstance(event, self.yaml.DocumentStartEvent):
            message = "there is a second document; a file holds one"
            self.bounds.fail(message, *self._place(event.start_mark))
        return root

    def _place(self, mark: Any) -> tuple[int, int]:
        return self.bounds.first_line + mark.line, mark.column + 1

    def _read(self, event: Any, depth: int, *, is_name: bool = False) -> Node:
        line, column = self._place(event.start_mark)
        if isinstance(event, self.yaml.AliasEvent):
            return self._follow_alias(event.anchor, line, column)
        # A name is no value of its own; a collection as a name is, and could nest without end.
        if not (is_name and isinstance(event, self.yaml.ScalarEvent)):
            self.bounds.count(depth, line, column)
        if event.anchor:
            self.anchors[event.anchor] = None
        node = self._read_node(event, depth, line, column)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _read_node(self, event: Any, depth: int, line: int, column: int) -> Node:
        tag = (event.tag or "").replace("tag:yaml.org,2002:", "!!")
        if isinstance(event, self.yaml.ScalarEvent):
            return ScalarNode(line, column, tag, event.style or "", event.value)
        if isinstance(event, self.yaml.SequenceStartEvent):
            items = ListNode(line, column, tag, flow_style=bool(event.flow_style))
            for inner in self._iter_until(self.yaml.SequenceEndEvent):
                items.value.append(self._read(inner, depth + 1))
            return items
        members = MapNode(line, column, tag)
        for name in self._iter_until(self.yaml.MappingEndEvent):
            key = self._read(name, depth + 1, is_name=True)
            members.value.append((key, self._read(next(self.events), depth + 1)))
        return members

    def _iter_until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := next(self.events), end):
            yield event

    def _follow_alias(self, name: Any, line: int, column: int) -> Node:
        if not self.bounds.rules.aliases:
            self.bounds.fail("aliases are not understood here; repeat the value", line, column)
        if name not in self.anchors:
            self.bounds.fail(f"there is no anchor &{name} before this alias", line, column)
        # Such a value would contain itself, and reading it would never end.
        if (node := self.anchors[name]) is None:
            self.bounds.fail(f"the alias *{name} is inside of its own value", line, column)
        return node

    def _explain(self, error: Exception) -> NoReturn:
        if isinstance(error, self.yaml.reader.ReaderError) and isinstance(error.character, int):
            self._refuse_character(error.character)
        problem = getattr(error, "problem", None) or "it cannot be read"
        marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
        if _NO_COLON in problem or _OPEN_QUOTE in problem:
            marks.reverse()  # Where it begins, and not where the search for its end did.
        mark = marks[0] or marks[1]
        place = self._place(mark) if mark else (self.bounds.first_line, 1)
        # PyYAML also counts lines by signs that only it ends lines with.
        before = self.text[: mark.index].rpartition("\n")[2] if mark else ""
        self.bounds.fail(_reword(problem, getattr(error, "context", None), before), *place)

    def _refuse_character(self, code: int) -> NoReturn:
        before = self.text.partition(chr(code))[0]
        line = self.bounds.first_line + before.count("\n")
        column = len(before) - (before.rfind("\n") + 1) + 1
        self.bounds.fail(f"the character U+{code:04X} may not stand in YAML", line, column)


# The commonest complaints of PyYAML come with what to do.
def _reword(problem: str, context: str | None, before: str) -> str:
    if "'\\t'" in problem:
        return "a tab stands where YAML wants spaces; indent with spaces"
    if _OPEN_QUOTE in problem:
        return "the quotes that begin here are not closed"
    if "cannot start any token" in problem:
        return "a value that begins with this character has to stand in quotes"
    if "mapping values are not allowed" in problem:
        if ":" not in before:  # so it follows the first word of its line
            return (
                "by its indentation this line goes on with the text before it; indent it as the "
                "members that it belongs to"
            )
        return 'this colon begins a second value; put the text in quotes, as in "a: b"'
    if _NO_COLON in problem:
        return "a colon is missing after this member's name"
    if "expected <block end>" in problem:
        if "<scalar>" in problem:
            return "there is more text after this value; put all of it in one pair of quotes"
        return "this line is indented otherwise than those that it belongs to"
    hint = f" {context}" if context else ""
    return f"this is not YAML: {problem}{hint}"


class JsonComposer:
    """Reads a JSON text."""

    def __init__(self, text: str, bounds: Bounds) -> None:
        self.text = text
        self.bounds = bounds
        self.decoder = json.JSONDecoder(parse_constant=self._refuse_constant)
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def compose(self) -> Node:
        """The node of the document."""
        try:
            node, end = self._read(self._skip(0), 0)
            if (end := self._skip(end)) < len(self.text):
                raise json.JSONDecodeError("there is more text after the document", self.text, end)
        except json.JSONDecodeError as error:
            self._fail(f"this is not JSON: {error.msg}", error.pos)
        return node

    def _refuse_constant(self, name: str) -> NoReturn:
        raise json.JSONDecodeError(f"{name} is no number", self.text, self.scalar)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return self.bounds.first_line + line - 1, offset - self.starts[line - 1] + 1

    def _fail(self, message: str, offset: int) -> NoReturn:
        self.bounds.fail(message, *self._place(offset))

    def _skip(self, offset: int) -> int:
        found = _SPACE.match(self.text, offset)
        return found.end() if found else offset

    def _read(self, offset: int, depth: int) -> tuple[Node, int]:
        line, column = self._place(offset)
        self.bounds.count(depth, line, column)
        match self.text[offset : offset + 1]:
            case "{":
                return self._read_mapping(MapNode(line, column), offset + 1, depth)
            case "[":
                return self._read_list(ListNode(line, column), offset + 1, depth)
        return self._read_scalar(line, column, offset)

    def _read_scalar(self, line: int, column: int, offset: int) -> tuple[ScalarNode, int]:
        self.scalar = offset
        try:
            value, end = self.decoder.raw_decode(self.text, offset)
        except json.JSONDecodeError:
            raise
        except ValueError:  # Python bounds the digits that it converts.
            self._fail("this number is too large", offset)
        if isinstance(value, str):
            return ScalarNode(line, column, style='"', value=value), end
        return ScalarNode(line, column, value=self.text[offset:end]), end

    def _read_mapping(self, node: MapNode, offset: int, depth: int) -> tuple[Node, int]:
        offset = self._skip(offset)
        if self.text[offset : offset + 1] == "}":
            return node, offset + 1
        while True:
            if self.text[offset : offset + 1] != '"':
                self._fail("this is not JSON: a member's name in double quotes is missing", offset)
            name, offset = self._read_scalar(*self._place(offset), offset)
            offset = self._expect(":", self._skip(offset))
            value, offset = self._read(self._skip(offset), depth + 1)
            node.value.append((name, value))
            offset = self._skip(offset)
            if self.text[offset : offset + 1] == "}":
                return node, offset + 1
            offset = self._skip(self._expect(",", offset))

    def _read_list(self, node: ListNode, offset: int, depth: int) -> tuple[Node, int]:
        offset = self._skip(offset)
        if self.text[offset : offset + 1] == "]":
            return node, offset + 1
        while True:
            value, offset = self._read(offset, depth + 1)
            node.value.append(value)
            offset = self._skip(offset)
            if self.text[offset : offset + 1] == "]":
                return node, offset + 1
            offset = self._skip(self._expect(",", offset))

    def _expect(self, mark: str, offset: int) -> int:
        if self.text[offset : offset + 1] != mark:
            self._fail(f"this is not JSON: a {mark!r} is missing here", offset)
        return offset + 1
