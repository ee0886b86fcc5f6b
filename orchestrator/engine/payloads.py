"""Payloads that agents of a team share by reference (Bedrock: multi-agent collaboration).

An agent writes `<br:payload id="x">…</br:payload>`; another may then be sent the same content as
`<br:share_payload id="x"/>`, which is replaced by it on the way. The user reads the content without
any tags. Only what a model wrote as its message or answer is looked at. An id is its first
author's, and what the references of one text bring has a bound.
"""

from __future__ import annotations

import re

_ID = r"\s{1,20}id=[\"']([^\"'<>]{1,100})[\"']\s{0,20}"
_OPEN = re.compile(rf"<br:payload{_ID}>")
_CLOSE = "</br:payload>"
_SHARE = re.compile(rf"<br:share_payload{_ID}/?>")
_TAG = re.compile(rf"{_SHARE.pattern}|{_OPEN.pattern}|{_CLOSE}")
_NAMES = ("<br:share_payload", "<br:payload", _CLOSE)
_LONGEST = 200
"""More characters than a tag can have."""

_MOST = 100
"""So many payloads are kept in a turn."""


class Payloads:
    """What the agents of a team share in one turn.

    Attributes:
        most: The size of one payload, and of all that the references of one text bring, in UTF-8
            bytes.
    """

    __slots__ = ("_authors", "_texts", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._texts: dict[str, str] = {}
        self._authors: dict[str, str] = {}

    def take(self, text: str, author: str) -> str:
        """Keeps the payloads of a message; an agent may renew its own, and nobody else's.

        Says what was not kept and why, for whoever reads the message; empty when all was.
        """
        notes = []
        for id, content in collect(text).items():
            if self._authors.get(id, author) != author:
                notes.append(f"The payload {id!r} is another agent's, and stays as it was.")
            elif _size(content) > self.most:
                notes.append(f"The payload {id!r} is too long to be shared.")
            elif id not in self._texts and len(self._texts) >= _MOST:
                notes.append(f"The payload {id!r} is one too many to be shared.")
            else:
                self._texts[id], self._authors[id] = content, author
        return "\n".join(notes[:_MOST])

    def get(self, id: str) -> str | None:
        """The content of a payload; `None` if there is none."""
        return self._texts.get(id)

    def fit(self, text: str) -> bool:
        """Whether what the references of a text bring is within the bound."""
        if "<br:share_payload" not in text:
            return True
        sizes = {id: _size(content) for id, content in self._texts.items()}
        return sum(sizes.get(found[1], 0) for found in _SHARE.finditer(text)) <= self.most


_NOTHING = Payloads(0)


def _size(content: str) -> int:
    return len(content.encode("utf-8", "surrogatepass"))


def collect(text: str) -> dict[str, str]:
    """The payloads of a message, by id; one that is not closed goes to the message's end."""
    found: dict[str, str] = {}
    position = 0
    while opened := _OPEN.search(text, position):
        end = text.find(_CLOSE, opened.end())
        end = len(text) if end < 0 else end
        found[opened[1]] = text[opened.end() : end].strip()
        position = end
    return found


def expand_payloads(text: str, payloads: Payloads) -> str:
    """A message with the payloads that it refers to.

    Unknown references stay as they are, as do those whose content would go over the bound.
    """
    return _PayloadResolver(payloads, tags=True).of(text)


def readable(text: str, payloads: Payloads = _NOTHING) -> str:
    """The same for the user: the content of payloads, without their tags."""
    return _PayloadResolver(payloads, tags=False).of(text)


class _PayloadResolver:
    """Makes what is read of a text's parts, one after the other."""

    __slots__ = ("_left", "_payloads", "_tags")

    def __init__(self, payloads: Payloads, *, tags: bool) -> None:
        self._payloads = payloads
        self._left = payloads.most
        self._tags = tags

    def of(self, text: str) -> str:
        if "br:" not in text:
            return text
        return (_SHARE if self._tags else _TAG).sub(self._content, text)

    def _content(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return ""  # a tag around content
        content = self._payloads.get(found[1])
        if content is None or len(content) > self._left:
            return found[0]
        size = _size(content)
        if size > self._left:
            return found[0]
        self._left -= size
        return content if self._tags else readable(content)


class ReadableStream:
    """What `readable`, or `shared`, makes of a text that comes piece by piece.

    What may yet become a tag is held back; the pieces that come out, joined, are the same text.
    """

    __slots__ = ("_held", "_resolved")

    def __init__(self, payloads: Payloads, *, tags: bool) -> None:
        """Begins a text; tags stay around its content for an agent that reads it."""
        self._resolved = _PayloadResolver(payloads, tags=tags)
        self._held = ""

    def feed(self, piece: str) -> str:
        """Takes the next piece; what may be shown now."""
        text = self._held + piece
        start = text.rfind("<", -_LONGEST)
        if start < 0 or not _may_become_tag(text[start:]):
            start = len(text)
        self._held = text[start:]
        return self._resolved.of(text[:start])

    def finish(self) -> str:
        """The rest."""
        text, self._held = self._held, ""
        return self._resolved.of(text)


def _may_become_tag(text: str) -> bool:
    if ">" in text:
        return False
    return any(name.startswith(text) or text.startswith(name) for name in _NAMES)
