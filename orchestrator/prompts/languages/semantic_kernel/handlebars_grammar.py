"""Handlebars, cut into texts and tags whose expressions are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NoReturn

from orchestrator.prompts.source import Source

# Blocks inside of blocks, and expressions inside of expressions: reading them is recursive.
DEEPEST = 50

_ID = r"""[^\s!"#%&'()*+,./;<=>@\[\\\]^`{|}~]+"""
_SEGMENT = rf"(?:{_ID}|\[[^\]]*\])"
_PATH = re.compile(
    rf"(?P<data>@)?(?P<up>(?:\.\./)*)(?P<whole>\.\.|\.(?:/)?)?"
    rf"(?P<rest>(?:{_SEGMENT}(?:[./]{_SEGMENT})*)?)"
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?=[\s)}~=])")
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'', re.DOTALL)
_HASH = re.compile(rf"({_ID})\s*=\s*")
_SPACE = re.compile(r"\s*")
_PARTS = re.compile(rf"\[([^\]]*)\]|({_ID})")
_PARAMETERS = re.compile(rf"as\s*\|\s*({_ID}(?:\s+{_ID})*)\s*\|")
_LONG_COMMENT, _COMMENT = re.compile(r"--~?\}\}"), re.compile(r"~?\}\}")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "undefined": None}


@dataclass(slots=True)
class Text:
    """A text."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, a truth value or nothing."""

    value: Any
    at: int


@dataclass(frozen=True, slots=True)
class Path:
    """Where a value is, as it is written in `text`; without parts it is the context itself."""

    parts: tuple[str, ...]
    up: int  # so many contexts further out it begins: `../`
    data: bool  # it is of the loop: `@index`
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A path with arguments, or an expression in brackets."""

    path: Path
    arguments: Sequence[Expression]
    named: Mapping[str, Expression]
    at: int


Expression = Path | Literal | Call


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: its kind (`!`, `#`, `^`, `/`, `else`, or nothing), and what is in it."""

    kind: str
    expression: Expression | None
    at: int
    left: bool
    right: bool
    parameters: tuple[str, ...] = ()


class Scanner:
    """Cuts a template into texts and tags."""

    # The libraries for Python give one text, in which a value looks as the author's words do, and
    # do not say where a template is wrong. So the language is read here: all of
    # handlebarsjs.com/guide but partials, decorators and raw blocks, which are files or code.

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._at = 0
        self._depth = 0

    def read(self) -> tuple[list[Text], list[Tag]]:
        """The texts, and the tags between them."""
        texts, tags = [], []
        while (start := self._text.find("{{", self._at)) >= 0:
            if self._text.startswith("{{{{", start):
                self._fail("raw blocks are not read here; write {{doubleOpen}}", start)
            texts.append(Text(self._text[self._at : start], self._at))
            tags.append(self._read_tag(start))
        return [*texts, Text(self._text[self._at :], self._at)], tags

    def _read_tag(self, start: int) -> Tag:
        self._at = start + 2
        left = self._take("~")
        if self._text.startswith("!", self._at):
            return self._read_comment(start, left)
        kind, expression, parameters = self._read_content(start)
        return Tag(kind, expression, start, left, self._read_end(start), parameters)

    def _read_content(self, start: int) -> tuple[str, Expression | None, tuple[str, ...]]:
        if self._take("{"):
            shown = self._read_expression()
            self._expect("}", start)
            return "", shown, ()
        kind = next((it for it in "#^/>&*" if self._take(it)), "")
        if kind == ">" or kind == "*":
            self._fail("partials and decorators are not read here", start)
        self._skip_space()
        if kind == "^" and self._text.startswith(("~}}", "}}"), self._at):
            return "else", None, ()
        if kind not in ("", "&"):
            return kind, self._read_call(), self._read_parameters()
        shown = self._read_expression()
        if isinstance(shown, Path) and shown.text == "else":
            return "else", None, ()
        if not isinstance(shown, Call) or shown.path.text != "else":
            return "", shown, ()
        first, *others = shown.arguments or [shown.path]
        if not isinstance(first, Path) or first is shown.path:
            self._fail("{{else}} is followed by a block's name: {{else if name}}", start)
        return "else", Call(first, others, shown.named, first.at), self._read_parameters()

    def _read_comment(self, start: int, left: bool) -> Tag:
        long = self._text.startswith("!--", self._at)
        end = (_LONG_COMMENT if long else _COMMENT).search(self._text, self._at + 3 * long)
        if end is None:
            self._fail("this comment is not closed", start)
        self._at = end.end()
        return Tag("!", None, start, left, "~" in end[0])

    # Expressions.

    def _read_expression(self) -> Expression:
        self._skip_space()
        if self._text.startswith("(", self._at):
            return self._read_subexpression()
        value = self._read_literal()
        if value is not None:
            return value
        call = self._read_call()
        return call if call.arguments or call.named else call.path

    def _read_call(self) -> Call:
        at = self._at
        path = self._read_path()
        arguments: list[Expression] = []
        named: dict[str, Expression] = {}
        while self._skip_space() and self._text[self._at : self._at + 1] not in ("", "}", ")", "~"):
            if _PARAMETERS.match(self._text, self._at):
                break
            if found := _HASH.match(self._text, self._at):
                self._at = found.end()
                named[found[1]] = self._read_argument()
            elif named:
                self._fail("arguments by name come last", self._at)
            else:
                arguments.append(self._read_argument())
        return Call(path, arguments, named, at)

    def _read_argument(self) -> Expression:
        if self._text.startswith("(", self._at):
            return self._read_subexpression()
        value = self._read_literal()
        return value if value is not None else self._read_path()

    def _read_subexpression(self) -> Call:
        start = self._at
        self._at += 1
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"expressions are nested more than {DEEPEST} deep", start)
        self._skip_space()
        call = self._read_call()
        self._skip_space()
        self._expect(")", start)
        self._depth -= 1
        return call

    def _read_literal(self) -> Literal | None:
        at = self._at
        if found := _STRING.match(self._text, at):
            self._at = found.end()
            raw = found[1] if found[1] is not None else found[2]
            return Literal(re.sub(r"\\([\"'])", r"\1", raw), at)
        if found := _NUMBER.match(self._text, at):
            self._at = found.end()
            if len(found[0]) > 300:
                self._fail("the number has too many digits", at)
            return Literal(float(found[0]) if "." in found[0] else int(found[0]), at)
        found = _PATH.match(self._text, at)
        if found and found[0] in _WORDS:
            self._at = found.end()
            return Literal(_WORDS[found[0]], at)
        return None

    def _read_path(self) -> Path:
        at = self._at
        found = _PATH.match(self._text, at)
        if found is None or found[0] in ("", "@"):
            shown = self._text[at : at + 20].split("\n")[0]
            self._fail(f"a name is expected here, not {shown!r}", at)
        self._at = found.end()
        parts = tuple(one[1] or one[2] for one in _PARTS.finditer(found["rest"]))
        up = found["up"].count("../") + (found["whole"] == "..")
        if parts[:1] == ("this",) and not found["data"]:
            parts = parts[1:]
        return Path(parts, up, bool(found["data"]), at, found[0])

    def _read_parameters(self) -> tuple[str, ...]:
        self._skip_space()
        found = _PARAMETERS.match(self._text, self._at)
        if found is None:
            return ()
        self._at = found.end()
        return tuple(found[1].split())

    # Characters.

    def _skip_space(self) -> bool:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return True

    def _take(self, what: str) -> bool:
        if not self._text.startswith(what, self._at):
            return False
        self._at += len(what)
        return True

    def _expect(self, what: str, start: int) -> None:
        self._skip_space()
        if not self._take(what):
            self._fail_unclosed(start)

    def _read_end(self, start: int) -> bool:
        """Reads a tag's end; whether it takes the white space after it away."""
        self._skip_space()
        right = self._take("~")
        if not self._take("}}"):
            self._fail_unclosed(start)
        return right

    def _fail_unclosed(self, start: int) -> NoReturn:
        if self._at >= len(self._text):
            self._fail("this tag is not closed", start)
        shown = self._text[self._at : self._at + 20].split("\n")[0]
        self._fail(f"{shown!r} is not expected here", self._at)

    def _fail(self, message: str, at: int) -> NoReturn:
        raise self._source.error(message, at)


@dataclass(frozen=True, slots=True)
class Show:
    """`{{expression}}`."""

    expression: Expression
    at: int


@dataclass(slots=True)
class Block:
    """`{{#call}}...{{else}}...{{/call}}`."""

    call: Call
    at: int
    parameters: tuple[str, ...] = ()
    inside: list[Node] = field(default_factory=list)
    instead: list[Node] = field(default_factory=list)
    # The space at the beginning and at the end of the inside goes: `{{#call~}}`, `{{~/call}}`.
    trimmed: tuple[bool, bool] = (False, False)


Node = Text | Show | Block


def parse(source: Source) -> list[Node]:
    """Reads a template."""
    texts, tags = Scanner(source).read()
    _drop_tag_lines(texts, tags)
    for before, tag, after in zip(texts, tags, texts[1:], strict=False):
        if tag.left:
            before.text = before.text.rstrip()
        if tag.right:
            _cut(after, len(after.text) - len(after.text.lstrip()))
    return _TreeBuilder(source).build_tree(texts, tags)


def _drop_tag_lines(texts: Sequence[Text], tags: Sequence[Tag]) -> None:
    """Leaves out the lines that have nothing but a block's tag or a comment."""
    # As Handlebars does ("standalone" tags), so that a template may be laid out in lines.
    written = [text.text for text in texts]
    for index, tag in enumerate(tags):
        if not tag.kind:
            continue
        _, line, space = written[index].rpartition("\n")
        begins = (line or index == 0) and not space.strip()
        space, line, _ = written[index + 1].partition("\n")
        ends = (line or index == len(tags) - 1) and not space.strip()
        if begins and ends:
            texts[index].text = texts[index].text.rstrip(" \t")
            _cut(texts[index + 1], len(space) + len(line))


def _cut(text: Text, count: int) -> None:
    text.text = text.text[count:]
    text.at += count


@dataclass(slots=True)
class _OpenBlock:
    """A block that is being read, and where its nodes go now."""

    block: Block
    into: list[Node]
    inner: int = 0  # so many blocks end with it, since it begins with `{{else if}}`
    turned: bool = False  # its `{{else}}` was read


class _TreeBuilder:
    """Puts texts and tags into blocks."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._opened: list[_OpenBlock] = []
        self._tree: list[Node] = []

    def build_tree(self, texts: Sequence[Text], tags: Sequence[Tag]) -> list[Node]:
        for text, tag in zip_longest(texts, tags):
            if text.text:
                self._current_nodes.append(text)
            if tag is not None:
                self._add_tag(tag)
        if self._opened:
            block = self._opened[-1].block
            raise self._source.error(f"{{{{#{block.call.path.text}}}}} is not closed", block.at)
        return self._tree

    def _add_tag(self, tag: Tag) -> None:
        call = tag.expression
        if tag.kind == "else":
            self._else(tag)
        elif tag.kind == "/":
            self._close(tag)
        elif tag.kind and isinstance(call, Call):
            self._open(tag, call)
        elif call is not None:
            self._current_nodes.append(Show(call, tag.at))

    @property
    def _current_nodes(self) -> list[Node]:
        return self._opened[-1].into if self._opened else self._tree

    def _open(self, tag: Tag, call: Call) -> None:
        if len(self._opened) >= DEEPEST:
            raise self._source.error(f"blocks are nested more than {DEEPEST} deep", tag.at)
        block = Block(call, tag.at, tag.parameters, trimmed=(tag.right, False))
        self._current_nodes.append(block)
        into = block.instead if tag.kind == "^" else block.inside
        self._opened.append(_OpenBlock(block, into))

    def _else(self, tag: Tag) -> None:
        opened = self._opened[-1] if self._opened else None
        if opened is None or opened.turned:
            raise self._source.error("{{else}} belongs into a block, and only once", tag.at)
        block, opened.turned = opened.block, True
        opened.into = block.instead if opened.into is block.inside else block.inside
        if isinstance(tag.expression, Call):
            self._open(tag, tag.expression)
            self._opened[-1].inner = opened.inner + 1

    def _close(self, tag: Tag) -> None:
        name = tag.expression.path.text if isinstance(tag.expression, Call) else ""
        if not self._opened:
            raise self._source.error(f"{{{{/{name}}}}} closes nothing", tag.at)
        last = self._opened[-1]
        outer = self._opened[-1 - last.inner].block
        if name != outer.call.path.text:
            message = f"{{{{/{name}}}}} where {{{{/{outer.call.path.text}}}}} is expected"
            raise self._source.error(message, tag.at)
        outer.trimmed = (outer.trimmed[0], tag.left)
        del self._opened[-1 - last.inner :]
