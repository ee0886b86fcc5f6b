"""Payloads that agents of a team share by reference (Bedrock: multi-agent collaboration).

An agent writes `<br:payload id="x">…</br:payload>`; another may then be sent the same content as
`<br:share_payload id="x"/>`, which is replaced by it on the way. The user reads the content without
any tags. Only what a model wrote as its message or answer is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["ReadableStream", "collect", "readable", "shared"]

_ID = r"\s{1,20}id=[\"']([^\"'<>]{1,100})[\"']\s{0,20}"
_OPEN = re.compile(rf"<br:payload{_ID}>")
_CLOSE = "</br:payload>"
_SHARE = re.compile(rf"<br:share_payload{_ID}/?>")
_TAG = re.compile(rf"{_SHARE.pattern}|{_OPEN.pattern}|{_CLOSE}")
_NAMES = ("<br:share_payload", "<br:payload", _CLOSE)
_LONGEST = 200
"""More characters than a tag can have."""

_NOTHING: Mapping[str, str] = {}


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


def shared(text: str, payloads: Mapping[str, str]) -> str:
    """A message with the payloads that it refers to; unknown references stay as they are."""
    if "<br:share_payload" not in text:
        return text
    return _SHARE.sub(lambda found: payloads.get(found[1], found[0]), text)


def readable(text: str, payloads: Mapping[str, str] = _NOTHING) -> str:
    """The same for the user: the content of payloads, without their tags."""
    if "br:" not in text:
        return text
    return _TAG.sub(lambda found: _for_user(found, payloads), text)


def _for_user(found: re.Match[str], payloads: Mapping[str, str]) -> str:
    if found[1] is None:
        return ""
    content = payloads.get(found[1])
    return found[0] if content is None else readable(content)


class ReadableStream:
    """What `readable`, or `shared`, makes of a text that comes piece by piece.

    What may yet become a tag is held back; the pieces that come out, joined, are the same text.
    """

    __slots__ = ("_held", "_make", "_payloads")

    def __init__(self, payloads: Mapping[str, str], *, tags: bool) -> None:
        """Begins a text.

        Args:
            payloads: What references stand for.
            tags: Whether tags stay around the content, for an agent that reads it.
        """
        self._payloads = payloads
        self._make = shared if tags else readable
        self._held = ""

    def feed(self, piece: str) -> str:
        """Takes the next piece; what may be shown now."""
        text = self._held + piece
        start = text.rfind("<", -_LONGEST)
        if start < 0 or not _may_become_tag(text[start:]):
            start = len(text)
        self._held = text[start:]
        return self._make(text[:start], self._payloads)

    def finish(self) -> str:
        """The rest."""
        text, self._held = self._held, ""
        return self._make(text, self._payloads)


def _may_become_tag(text: str) -> bool:
    if ">" in text:
        return False
    return any(name.startswith(text) or text.startswith(name) for name in _NAMES)
