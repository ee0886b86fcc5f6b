"""How deep an HTML page is, and what its parser would make of it, before it is parsed.

Parsers are bound to repair everything, and pages can be made of which a few bytes cost very much:
each tag within very many open ones is compared with them, and bold type that is never ended is
begun again in each paragraph. Here the tags are counted in one pass. Where it is not sure that an
element ends, it counts as open; what is said to be too much may be less, never the reverse.
"""

from __future__ import annotations

import re

__all__ = ["is_too_nested"]

_MOST_OPEN = 6_000
_MOST_COMPARED = 50_000_000
_MOST_BEGUN_AGAIN = 1_000_000

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,40})[^\s/>]*([^>]*)")
_ENDS_ITSELF = re.compile(r"[^\"'<>]*(?:(?<==)(?:\"[^\"]*\"|'[^']*')[^\"'<>]*)*/")
# Without a content, or ended by what comes next.
_NEVER_OPEN = frozenset(
    (
        *("area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img"),
        *("input", "keygen", "link", "meta", "param", "source", "track", "wbr", "image"),
        *("html", "head", "body", "p", "li", "dd", "dt", "tr", "td", "th", "tbody", "thead"),
        *("tfoot", "caption", "colgroup", "option", "optgroup", "rb", "rt", "rp", "rtc"),
    )
)
_FORMATS = frozenset(
    (
        *("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong"),
        *("tt", "u"),
    )
)
# An end tag does not reach an element outside of these; others are reached from within inline ones.
_WALLS = frozenset(("table", "template", "object", "applet", "marquee", "svg", "math"))
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "button", "center", "details", "dialog"),
        *("dir", "div", "dl", "fieldset", "figcaption", "figure", "footer", "header", "hgroup"),
        *("listing", "main", "menu", "nav", "ol", "pre", "search", "section", "summary", "ul"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "form", "select", "iframe", "noscript", "script"),
        *("style", "textarea", "title", "xmp", "plaintext", "frameset", "noembed", "noframes"),
    )
)
_DRAWINGS = frozenset(("svg", "math"))
_OF_DRAWINGS = frozenset(
    "g path circle rect line polygon polyline ellipse use stop symbol defs animate".split()
)


def is_too_nested(text: str) -> bool:
    """Whether a page is not to be parsed: it would take very long, or very much memory."""
    page = _Open()
    for end, name, rest in _TAG.findall(text):
        if end:
            page.end(name.lower())
        elif not page.begin(name.lower(), rest):
            return True
    return False


class _Open:
    """The elements that are open at a place of a page."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._counts: dict[str, int] = {}
        self._formats = self._compared = self._again = 0
        self._drawing = False

    def begin(self, name: str, rest: str) -> bool:
        """Takes a start tag; false when that is too much."""
        self._compared += len(self._stack)
        if name not in _FORMATS:
            self._again += self._formats
        if self._stays_open(name, rest):
            self._stack.append(name)
            self._counts[name] = self._counts.get(name, 0) + 1
            self._formats += name in _FORMATS
        return (
            len(self._stack) <= _MOST_OPEN
            and self._compared <= _MOST_COMPARED
            and self._again <= _MOST_BEGUN_AGAIN
        )

    def _stays_open(self, name: str, rest: str) -> bool:
        # Only within a drawing `/>` ends an element, and only there for sure.
        if name in _DRAWINGS:
            self._drawing = True
        elif name not in _OF_DRAWINGS:
            self._drawing = False
        elif self._drawing and _ENDS_ITSELF.fullmatch(rest):
            return False
        return name not in _NEVER_OPEN

    def end(self, name: str) -> None:
        """Takes an end tag, and closes what it closes for sure."""
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
