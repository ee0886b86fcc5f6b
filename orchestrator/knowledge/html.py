"""HTML into blocks: what a reader would see, and nothing that it would load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orchestrator.knowledge.blocks import Block, Kind, Outline, Unreadable

_HIDDEN = frozenset(
    """
    script style noscript template head nav iframe object svg form button select textarea audio
    video canvas
    """.split()
)
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_BREAKS = frozenset(
    """
    address article aside blockquote body dd details div dl dt fieldset figcaption figure footer
    header hr main ol p section summary ul html caption
    """.split()
)
_SPACE = re.compile(r"\s+")
_CELLS = frozenset(("td", "th"))


def html_blocks(text: str) -> list[Block]:
    """The blocks of an HTML page. Scripts, forms, navigation and hidden parts are left out.

    A page that would take very long to parse is `Unreadable`.
    """
    from selectolax.lexbor import LexborHTMLParser

    if costs_too_much(text):
        raise Unreadable(
            "its elements are nested too deeply, or never ended, or have too many attributes or "
            "options"
        )
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


# Parsers are bound to repair everything, and pages can be made of which a few bytes cost very much:
# each tag within very many open ones is compared with them, each attribute with those before it,
# each option with those of its list, and bold type that is never ended is opened again in each
# paragraph. So the tags are counted in one pass, before a page is parsed. Where it is not sure that
# an element ends, it counts as open.
_MOST_OPEN = 6_000
_MOST_COMPARED = 50_000_000
_MOST_BEGUN_AGAIN = 1_000_000

# As the tokenizer of HTML reads them: what is in a comment or between quotes ends nothing.
_ATTRIBUTE = r"""[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+
        (?:[ \t\n\f\r]*+=[ \t\n\f\r]*+
         (?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|))?+"""
_ATTRIBUTES = re.compile(_ATTRIBUTE, re.VERBOSE)
_TAG = re.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|\Z))
    |<(/?)([a-zA-Z][^ \t\n\f\r/>]*+)
     ((?:[ \t\n\f\r]++|(/(?=>))|/|{_ATTRIBUTE})*+)""",
    re.DOTALL | re.VERBOSE,
)
# Fewer characters have no attributes that are worth counting.
_SHORT = 100
# Each of their tags adds its attributes to one element.
_MERGED = frozenset(("html", "body"))
_TEXTS = frozenset(("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"))
# Without a content, or ended by what comes next.
_NEVER_OPEN = frozenset(
    """
    area base basefont bgsound br col embed frame hr img input keygen link meta param source track
    wbr image html head body p li dd dt tr td th tbody thead tfoot caption colgroup option optgroup
    rb rt rp rtc
    """.split()
)
_FORMATS = frozenset(
    """
    a b big code em font i nobr s small strike strong tt u
    """.split()
)
# An end tag does not reach an element outside of these; others are reached from within inline ones.
_WALLS = frozenset(("table", "template", "object", "applet", "marquee", "svg", "math"))
_BLOCKS = frozenset(
    """
    address article aside blockquote button center details dialog dir div dl fieldset figcaption
    figure footer header hgroup listing main menu nav ol pre search section summary ul h1 h2 h3 h4
    h5 h6 form select iframe noscript script style textarea title xmp plaintext frameset noembed
    noframes
    """.split()
)
_DRAWINGS = frozenset(("svg", "math"))
_OF_DRAWINGS = frozenset(
    "g path circle rect line polygon polyline ellipse use stop symbol defs animate".split()
)


def costs_too_much(text: str) -> bool:
    """Whether a page is not to be parsed: it would take very long, or very much memory."""
    page = _OpenElements()
    for found in _TAG.finditer(text):
        name = (found[2] or "").lower()
        if not name:
            continue
        if len(found[3]) > _SHORT or name in _MERGED:
            page.count_attributes(name, found[3])
        if found[1]:
            page.end(name)
        else:
            page.begin(name, found[4] is not None)
        if page.too_much:
            return True
    return False


class _OpenElements:
    """The elements that are open at a place of a page."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._counts: dict[str, int] = {}
        self._formats = self._compared = self._again = self._merged = self._options = 0
        self._drawing = False
        self._text = ""

    @property
    def too_much(self) -> bool:
        """Whether a bound is reached."""
        return (
            len(self._stack) > _MOST_OPEN
            or self._compared > _MOST_COMPARED
            or self._again > _MOST_BEGUN_AGAIN
        )

    def count_attributes(self, name: str, text: str) -> None:
        """Takes the attributes of a tag, each of which is compared with those before it."""
        count = sum(1 for _ in _ATTRIBUTES.finditer(text))
        self._merged += count if name in _MERGED else 0
        self._compared += count * max(count, self._merged if name in _MERGED else 0) // 2

    def begin(self, name: str, ends: bool) -> None:
        """Takes a start tag."""
        if not self._text and name in _TEXTS:
            self._text = name
        self._compared += len(self._stack)
        if name == "option":
            self._options += bool(self._counts.get("select"))
            self._compared += self._options
        if name not in _FORMATS:
            self._again += self._formats
        if self._stays_open(name, ends):
            self._stack.append(name)
            self._counts[name] = self._counts.get(name, 0) + 1
            self._formats += name in _FORMATS

    def _stays_open(self, name: str, ends: bool) -> bool:
        # Only within a drawing `/>` ends an element, and only there for sure.
        if name in _DRAWINGS:
            self._drawing = True
        elif name not in _OF_DRAWINGS:
            self._drawing = False
        elif self._drawing and ends:
            return False
        return name not in _NEVER_OPEN

    def end(self, name: str) -> None:
        """Takes an end tag, and closes what it closes for sure."""
        if self._text and name != self._text:
            return  # it is text, if this is a script and the like
        self._text = ""
        if name in _DRAWINGS:
            self._drawing = False
        if not self._counts.get(name):
            return
        closed = 0
        for one in reversed(self._stack):
            closed += 1
            self._compared += 1
            if one == name:
                break
            if one in _WALLS or (one in _BLOCKS and name not in _BLOCKS and name not in _WALLS):
                return
        for one in self._stack[-closed:]:
            self._counts[one] -= 1
            self._formats -= one in _FORMATS
        del self._stack[-closed:]
        self._options = self._options if self._counts.get("select") else 0
