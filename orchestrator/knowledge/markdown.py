"""Markdown into blocks: what is a heading, a table or code is decided by a CommonMark parser."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrator.knowledge.blocks import Block, Kind, Outline, Unreadable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_KINDS: dict[str, Kind] = {"fence": "code", "code_block": "code", "table_open": "table"}
_FRONT_MATTER = "---"
# Some 5 seconds, if each begins an item of a list.
_MOST_LINES = 100_000


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only the outer structure is asked for; inline marks stay in the text as they are.
    return MarkdownIt("commonmark").enable("table").disable("inline")


def markdown_blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text; comments and front matter are left out.

    Raises:
        Unreadable: It has too many lines.
    """
    text = _without_front_matter(text.replace("\r\n", "\n"))
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise Unreadable(f"it has more than {_MOST_LINES:,} lines; split it into several files")
    outline = Outline()
    blocks = []
    tokens = _parser().parse(text)
    for index, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        if token.type == "heading_open":
            outline.enter(int(token.tag[1]), tokens[index + 1].content.strip(" #"))
        elif token.type != "html_block" or not token.content.lstrip().startswith("<!--"):
            blocks += _block(token, lines, outline.headings)
    return blocks


def _block(token: Any, lines: list[str], headings: tuple[str, ...]) -> list[Block]:
    start, end = token.map
    text = "\n".join(lines[start:end]).strip("\n")
    if not text.strip() or token.type == "hr":
        return []
    kind = _KINDS.get(token.type, "text")
    return [Block(text, kind, headings, head=2 if kind == "table" else 0)]


def _without_front_matter(text: str) -> str:
    if not text.startswith(_FRONT_MATTER + "\n"):
        return text
    end = text.find("\n" + _FRONT_MATTER, len(_FRONT_MATTER))
    return text[end + len(_FRONT_MATTER) + 1 :] if end > 0 else text
