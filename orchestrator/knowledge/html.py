"""HTML into blocks: what a reader would see, and nothing that it would load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orchestrator.knowledge.blocks import Block, Kind, Outline, Unreadable
from orchestrator.knowledge.html_nesting import is_too_nested

_HIDDEN = frozenset(
    (
        *("script", "style", "noscript", "template", "head", "nav", "iframe", "object", "svg"),
        *("form", "button", "select", "textarea", "audio", "video", "canvas"),
    )
)
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_BREAKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt"),
        *("fieldset", "figcaption", "figure", "footer", "header", "hr", "main", "ol", "p"),
        *("section", "summary", "ul", "html", "caption"),
    )
)
_SPACE = re.compile(r"\s+")
_CELLS = frozenset(("td", "th"))


def html_blocks(text: str) -> list[Block]:
    """The blocks of an HTML page. Scripts, forms, navigation and hidden parts are left out.

    A page whose elements are nested too deeply is `Unreadable`.
    """
    from selectolax.lexbor import LexborHTMLParser

    if is_too_nested(text):
        raise Unreadable("its elements are nested too deeply, or never ended")
    page = _Page()
    root = LexborHTMLParser(text).root
    for node, entering in _walk(root) if root is not None else ():
        if entering:
            page.enter(node)
        else:
            page.leave(node)
    page.flush()
    return page.blocks


def _walk(root: Any) -> Iterator[tuple[Any, bool]]:
    # By hand: the depth of a page is not ours to choose, and the library's own walk is quadratic.
    node = root
    while True:
        yield node, True
        child = None if _is_hidden(node) else node.child
        while child is None:
            yield node, False
            if node.mem_id == root.mem_id:
                return
            child, node = node.next, node.parent
        node = child


def _is_hidden(node: Any) -> bool:
    if node.tag in _HIDDEN:
        return True
    if node.tag.startswith(("-", "#")):
        return False
    attributes = node.attributes
    return "hidden" in attributes or attributes.get("aria-hidden") == "true"


class _Page:
    """Collects the text between one break and the next."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._outline = Outline()
        self._parts: list[str] = []
        self._code = 0
        self._tables = 0

    def enter(self, node: Any) -> None:
        tag = node.tag
        if tag == "-text":
            text = node.text_content or ""
            self._parts.append(text if self._code else _SPACE.sub(" ", text))
        elif tag == "br":
            self._parts.append("\n")
        elif tag in _CELLS:
            self._parts.append(" | ")
        elif tag in ("tr", "li"):
            self._parts.append("\n" if tag == "tr" else "\n- ")
        elif tag in ("pre", "table") or tag in _HEADINGS:
            self._open(tag)
        elif tag in _BREAKS and not self._tables:
            self.flush()

    def leave(self, node: Any) -> None:
        tag = node.tag
        if tag in _HEADINGS:
            self._outline.enter(int(tag[1]), "".join(self._parts))
            self._parts.clear()
        elif tag == "pre" and self._code:
            self.flush("code" if not self._tables else None)
            self._code -= 1
        elif tag == "table" and self._tables:
            self._tables -= 1
            self.flush("table" if not self._tables else None)
        elif tag in _BREAKS and not self._tables:
            self.flush()

    def _open(self, tag: str) -> None:
        if not self._tables:
            self.flush()
        self._code += tag == "pre"
        self._tables += tag == "table"

    def flush(self, kind: Kind | None = "text") -> None:
        """Ends a block; `None` for one that goes on, as a table in a table does."""
        if kind is None:
            return
        text = "".join(self._parts)
        self._parts.clear()
        text = text.strip("\n") if kind == "code" else _tidy(text)
        if text.strip():
            head = 1 if kind == "table" else 0
            self.blocks.append(Block(text, kind, self._outline.headings, head=head))


def _tidy(text: str) -> str:
    lines = (line.strip(" |") for line in text.split("\n"))
    return "\n".join(line for line in lines if line and line != "-")
