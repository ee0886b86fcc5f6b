"""How deep an HTML page is, and what its parser would make of it, before it is parsed.

Parsers are bound to repair everything, and pages can be made of which a few bytes cost very much:
each tag within very many open ones is compared with them, and bold type that is never ended is
opened again in each paragraph. Here the tags are counted in one pass. Where it is not sure that an
element ends, it counts as open.
"""

from __future__ import annotations

import re

_MOST_OPEN = 6_000
_MOST_COMPARED = 50_000_000
_MOST_BEGUN_AGAIN = 1_000_000

# As the tokenizer of HTML reads them: what is in a comment or between quotes ends nothing.
_TAG = re.compile(
    r"""<!--(?:-?>|.*?(?:--!?>|\Z))
    |<(/?)([a-zA-Z][^ \t\n\f\r/>]*+)
     (?:[ \t\n\f\r]++|(/(?=>))|/
       |[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+
        (?:[ \t\n\f\r]*+=[ \t\n\f\r]*+
         (?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|))?+
     )*+""",
    re.DOTALL | re.VERBOSE,
)
_TEXTS = frozenset(("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"))
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
    page = _OpenElements()
    for found in _TAG.finditer(text):
        name = (found[2] or "").lower()
        if found[1]:
            page.end(name)
        elif name:
            page.begin(name, found[3] is not None)
        if page.too_much:
            return True
    return False


class _OpenElements:
    """The elements that are open at a place of a page."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._counts: dict[str, int] = {}
        self._formats = self._compared = self._again = 0
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

    def begin(self, name: str, ends: bool) -> None:
        """Takes a start tag."""
        if not self._text and name in _TEXTS:
            self._text = name
        self._compared += len(self._stack)
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
