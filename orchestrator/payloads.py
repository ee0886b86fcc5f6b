"""Payloads that agents of a team share by reference (Bedrock: multi-agent collaboration).

An agent writes `<br:payload id="x">…</br:payload>`; another may then be sent the same content as
`<br:share_payload id="x"/>`, which is replaced by it on the way. Only what a model wrote as its
message or answer is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["collect", "shared"]

_OPEN = re.compile(r"<br:payload\s+id=[\"']([^\"'<>]{1,100})[\"']\s*>")
_CLOSE = "</br:payload>"
_SHARE = re.compile(r"<br:share_payload\s+id=[\"']([^\"'<>]{1,100})[\"']\s*/?>")


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
