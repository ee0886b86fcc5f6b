"""The grammar of Handlebars, read into a tree whose nodes know where they stand.

The libraries for Python give a text, in which a value looks as the author's words do, and do not
say where a template is wrong. So the language is read here. What it has is what Handlebars has
(handlebarsjs.com/guide) but for partials, decorators and raw blocks, which are files, code, or
other templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.errors import TemplateError
from orchestrator.prompts.languages.handlebars_scanner import (
    DEEPEST,
    Call,
    Expression,
    Scanner,
    Tag,
    Text,
)
from orchestrator.prompts.languages.semantic_kernel_source import Source

__all__ = ["Block", "Node", "Show", "parse"]


@dataclass(frozen=True, slots=True)
class Show:
    """`{{expression}}`."""

    expression: Expression
    at: int


@dataclass(slots=True)
class Block:
    """`{{#call}}...{{else}}...{{/call}}`.

    Attributes:
        call: The call.
        at: Where it stands.
        parameters: The names after `as`.
        inside: What is inside.
        instead: What is after `{{else}}`.
        trimmed: Whether the white space at the beginning and at the end of the inside is left out
            (`{{#call~}}`, `{{~/call}}`).
    """

    call: Call
    at: int
    parameters: tuple[str, ...] = ()
    inside: list[Node] = field(default_factory=list)
    instead: list[Node] = field(default_factory=list)
    trimmed: tuple[bool, bool] = (False, False)


Node = Text | Show | Block


def parse(source: Source) -> list[Node]:
    """Reads a template.

    Raises:
        TemplateError: It is wrong, with its place.
    """
    pieces = list(Scanner(source).pieces())
    _drop_tag_lines(pieces)
    _trim_space(pieces)
    return _TreeBuilder(source).build_tree(pieces)


def _drop_tag_lines(pieces: Sequence[Text | Tag]) -> None:
    """Leaves out the lines that have nothing but a block's tag or a comment."""
    texts = [piece.text if isinstance(piece, Text) else "" for piece in pieces]
    for index in range(1, len(pieces), 2):  # texts and tags take turns
        tag, before, after = pieces[index], pieces[index - 1], pieces[index + 1]
        if not isinstance(tag, Tag) or not tag.kind:
            continue
        _, line, space = texts[index - 1].rpartition("\n")
        begins = (line or index == 1) and not space.strip()
        space, line, _ = texts[index + 1].partition("\n")
        ends = (line or index == len(pieces) - 2) and not space.strip()
        if not (begins and ends):
            continue
        if isinstance(before, Text):
            before.text = before.text.rstrip(" \t")
        if isinstance(after, Text):
            _cut(after, len(space) + len(line))


def _trim_space(pieces: Sequence[Text | Tag]) -> None:
    """Leaves out the white space at the sides of tags that have a `~` there."""
    for index, tag in enumerate(pieces):
        if not isinstance(tag, Tag):
            continue
        before, after = pieces[index - 1], pieces[index + 1]
        if tag.left and isinstance(before, Text):
            before.text = before.text.rstrip()
        if tag.right and isinstance(after, Text):
            _cut(after, len(after.text) - len(after.text.lstrip()))


def _cut(text: Text, count: int) -> None:
    text.text = text.text[count:]
    text.at += count


@dataclass(slots=True)
class _OpenBlock:
    """A block that is being read.

    Attributes:
        block: The block.
        into: Where its nodes go now.
        inner: How many blocks end with it, since it begins with `{{else if}}`.
        turned: Whether its `{{else}}` was read.
    """

    block: Block
    into: list[Node]
    inner: int = 0
    turned: bool = False


class _TreeBuilder:
    """Puts texts and tags into blocks."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._opened: list[_OpenBlock] = []
        self._tree: list[Node] = []

    def build_tree(self, pieces: Sequence[Text | Tag]) -> list[Node]:
        for piece in pieces:
            if isinstance(piece, Text):
                if piece.text:
                    self._current_nodes.append(piece)
            elif piece.kind == "else":
                self._else(piece)
            elif piece.kind == "/":
                self._close(piece)
            elif piece.call is not None:
                self._open(piece, piece.call)
            elif piece.shown is not None:
                self._current_nodes.append(Show(piece.shown, piece.at))
        if self._opened:
            block = self._opened[-1].block
            raise self._error(f"{{{{#{block.call.path.text}}}}} is not closed", block.at)
        return self._tree

    @property
    def _current_nodes(self) -> list[Node]:
        return self._opened[-1].into if self._opened else self._tree

    def _error(self, message: str, at: int) -> TemplateError:
        return self._source.error(message, at)

    def _open(self, tag: Tag, call: Call) -> None:
        if len(self._opened) >= DEEPEST:
            raise self._error(f"blocks are nested more than {DEEPEST} deep", tag.at)
        block = Block(call, tag.at, tag.parameters, trimmed=(tag.right, False))
        self._current_nodes.append(block)
        into = block.instead if tag.kind == "^" else block.inside
        self._opened.append(_OpenBlock(block, into))

    def _else(self, tag: Tag) -> None:
        opened = self._opened[-1] if self._opened else None
        if opened is None or opened.turned:
            raise self._error("{{else}} belongs into a block, and only once", tag.at)
        block, opened.turned = opened.block, True
        opened.into = block.instead if opened.into is block.inside else block.inside
        if tag.call is not None:
            self._open(tag, tag.call)
            self._opened[-1].inner = opened.inner + 1

    def _close(self, tag: Tag) -> None:
        name = tag.call.path.text if tag.call else ""
        if not self._opened:
            raise self._error(f"{{{{/{name}}}}} closes nothing", tag.at)
        last = self._opened[-1]
        outer = self._opened[-1 - last.inner].block
        if name != outer.call.path.text:
            message = f"{{{{/{name}}}}} where {{{{/{outer.call.path.text}}}}} is expected"
            raise self._error(message, tag.at)
        outer.trimmed = (outer.trimmed[0], tag.left)
        del self._opened[-1 - last.inner :]
