"""The tags of Semantic Kernel's prompts: `<message role="user">...</message>`.

Tags are read as XML, and only from the author's text. Meanwhile a value is one token of characters
that no XML name has and that are no white space: it can stand in a text or in an attribute, and can
never be, open, close or break a tag. So it needs no encoding, and comes back unchanged.
"""

from __future__ import annotations

import html
import re
import secrets
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import ParseError

from orchestrator.errors import TemplateError
from orchestrator.prompts.source import OPEN, SHUT, Source

# Messages need four levels; expat itself has no limit.
DEEPEST = 64

_ROOT = "prompt"
_START_TAG = re.compile(r"""<[^"'>]*(?:"[^"]*"[^"'>]*|'[^']*'[^"'>]*)*>""")
_MEANT = re.compile(r"</?(?:message|chat_history)(?![\w.:-])")
_RAW = re.compile(r"<!--.*?-->|<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Markup:
    """A text whose tags count: the author's, or with `made` what stands for another text of his."""

    text: str
    at: int
    made: bool = False


@dataclass(frozen=True, slots=True)
class Hole:
    """A place for a value, whose tags do not count."""

    key: int
    at: int


@dataclass(slots=True)
class Element:
    """A tag; its attributes and texts have tokens for holes.

    It begins at `at` in the template, and stands from `start` to `end` among the parts.
    """

    tag: str
    attributes: dict[str, str]
    at: int
    start: int
    end: int = 0
    children: list[str | Element] = field(default_factory=list)

    def has_child(self, tags: Collection[str]) -> bool:
        """Whether one of these tags is directly inside it."""
        return any(isinstance(one, Element) and one.tag in tags for one in self.children)


class Tags:
    """The tags of a prompt: `root` has them all; without it the prompt is no XML, with a `problem`.

    `token` finds the token of a hole, and its key.
    """

    def __init__(
        self, parts: Sequence[Markup | Hole], source: Source, *, strict: bool = True
    ) -> None:
        """Reads the tags; with `strict`, refuses tags of messages that are no XML."""
        self._source = source
        # XML decodes `&#xE000;`, so an author could write a token: the nonce keeps him from it.
        nonce = str(secrets.randbits(64))
        self.token = re.compile(rf"{OPEN}{nonce}\.(\d+){SHUT}")
        texts, size = [f"<{_ROOT}>"], len(_ROOT) + 2
        self._starts = [0]
        self._places: list[Markup | Hole] = [Hole(0, 0)]
        for part in parts:
            if isinstance(part, Hole):
                texts.append(f"{OPEN}{nonce}.{part.key}{SHUT}")
            elif OPEN in part.text:
                raise source.error(f"the character {OPEN!a} may not be in a prompt", part.at)
            else:
                texts.append(part.text)
            self._starts.append(size)
            self._places.append(part)
            size += len(texts[-1])
        self._text = "".join([*texts, f"</{_ROOT}>"])
        self.root: Element | None = None
        self.problem: TemplateError | None = None
        try:
            self.root = _TagParser(self._text, self).parse()
        except TemplateError as error:
            if strict and self.has_message_tags:
                raise
            self.problem = error

    def error(self, reason: str, at: int) -> TemplateError:
        """An error at an offset among the parts."""
        return self._source.error(reason, self.place(at))

    def place(self, at: int) -> int:
        """The offset in the template of an offset among the parts."""
        index = bisect_right(self._starts, at) - 1
        part = self._places[index]
        if isinstance(part, Hole) or part.made:
            return part.at
        return min(part.at + at - self._starts[index], len(self._source.text))

    @property
    def has_message_tags(self) -> bool:
        """Whether the author meant tags: the text has the beginning or the end of a message."""
        return _MEANT.search(self._text) is not None

    def split(self, text: str) -> Iterator[str | int]:
        """What a text is made of: texts, and the keys of holes."""
        if OPEN not in text:
            yield text
            return
        for index, part in enumerate(self.token.split(text)):
            if index % 2:
                yield int(part)
            elif part:
                yield part

    def only(self, text: str) -> int | None:
        """The key of the one hole that is the whole text but for white space, if any."""
        found = self.token.fullmatch(text.strip())
        return int(found[1]) if found else None

    def raw(self, element: Element) -> str:
        """A tag as it was written, with what is inside, decoded once."""
        texts, last = [], element.start
        for found in _RAW.finditer(self._text, element.start, element.end):
            texts += [html.unescape(self._text[last : found.start()]), found[1] or ""]
            last = found.end()
        return "".join([*texts, html.unescape(self._text[last : element.end])])

    @property
    def plain(self) -> str:
        """The whole text as if it had no tags, decoded once."""
        return html.unescape(self._text[len(_ROOT) + 2 : -len(_ROOT) - 3])


class _TagParser:
    """Reads a text as XML; the public methods are those that a parser of XML calls."""

    def __init__(self, text: str, tags: Tags) -> None:
        from defusedxml.ElementTree import DefusedXMLParser

        self._text = text
        self._tags = tags
        self._bytes = text.encode("utf-8", "replace")
        self._seen = self._seen_bytes = 0
        self._open: list[Element] = []
        self._root = Element(_ROOT, {}, 0, 0)
        self._parser: Any = DefusedXMLParser(target=self, encoding="utf-8", forbid_dtd=True)

    def parse(self) -> Element:
        try:
            self._parser.feed(self._bytes)
            self._parser.close()
        except ParseError as error:
            raise self._tags.error(*self._explain(error)) from None
        return self._root

    def _at(self, index: int) -> int:
        # Expat counts bytes. They only grow, so each byte is decoded once: the time stays linear.
        between = self._bytes[self._seen_bytes : index]
        self._seen += len(between.decode("utf-8", "replace"))
        self._seen_bytes = max(index, self._seen_bytes)
        return self._seen

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        at = self._at(self._parser.parser.CurrentByteIndex)
        if len(self._open) > DEEPEST:
            raise self._tags.error(f"tags are nested more than {DEEPEST} deep", at)
        element = self._root
        if self._open:
            element = Element(tag, dict(attributes), self._tags.place(at), at)
            self._open[-1].children.append(element)
        self._open.append(element)

    def data(self, text: str) -> None:
        self._open[-1].children.append(text)

    def end(self, tag: str) -> None:
        at = self._at(self._parser.parser.CurrentByteIndex)
        element = self._open.pop()
        opened = _START_TAG.match(self._text, element.start)
        if opened is not None and opened[0].endswith("/>"):
            element.end = opened.end()
        else:
            element.end = self._text.index(">", at) + 1

    def close(self) -> None:
        """Nothing is left to do at the end."""

    def _explain(self, error: ParseError) -> tuple[str, int]:
        """What is wrong, and where."""
        from xml.parsers.expat.errors import messages

        at = self._at(self._parser.parser.ErrorByteIndex)
        last = len(self._text) - len(_ROOT) - 3
        reason = messages.get(error.code, str(error))
        opened = self._open[-1] if len(self._open) > 1 else None
        if opened is not None and (at >= last or "mismatched" in reason):
            return f"<{opened.tag}> is not closed", opened.start
        if "undefined entity" in reason:
            name = self._text[at : self._text.find(";", at) + 1]
            return f"XML has no entity {name}: write the character itself", at
        near = ((at - 1, "&"), (at, "&<"), (at - 1, "<"))
        inside = [(it, letters) for it, letters in near if it < last]
        stray = next((it for it, letters in inside if self._text[it] in letters), None)
        if at >= last and stray is None:
            return "the prompt's tags do not end", last
        if "mismatched" in reason or "junk" in reason:
            return "this tag closes nothing", at
        if stray is not None:
            letter = self._text[stray]
            instead = "&amp;" if letter == "&" else "&lt;"
            reason = f"{letter!r} begins no {'entity' if letter == '&' else 'tag'} of XML here"
            return f"{reason}: write {instead} for the character", stray
        return f"the prompt's tags are no XML: {reason}", at
