"""Calls that a model did not make up, but repeats from what it has read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

_AMPERSANDS = re.compile(r"&(?:amp;)+", re.I)
_ESCAPED = re.compile(
    r"\\(?:u\{0{0,4}([0-9a-f]{1,4})\}|u([0-9a-f]{4})|x([0-9a-f]{2}))", re.IGNORECASE
)
# What tools and models put around a text: numbers of lines, CDATA, and HTML's marks of words.
_NUMBER = re.compile(r"^[ +|>#*-]{0,8}\d{1,9} {0,8}[:|.)\]\t-]", re.MULTILINE)
_AROUND = re.compile(
    r"<!\[CDATA\[|</?(?:b|i|u|em|strong|code|mark|span|br|p|pre)(?:[ /][^<>]{0,64})?>",
    re.IGNORECASE,
)
# Everything but letters and digits, and two letters that are not seen.
_PASSED_OVER = re.compile("[\\W_\u115f\u1160]+")

# Each call is looked for in every text. No model makes so many in one reply; a text may list them.
_MOST_CALLS = 1000


def find_quotation(calls: Sequence[str], texts: Iterable[str]) -> str:
    """The first of some written calls that stands in one of the texts; empty when none does.

    Letters and digits count, and neither what stands between them nor upper case. Entities and
    escapes are what they stand for: a model quotes what it was shown encoded as it was meant.
    """
    if len(calls) > _MOST_CALLS:
        return calls[0]
    wanted = [(_normalise(call), call) for call in calls]
    for text in texts:
        if not _may_hold_call(text):
            continue
        shown = _normalise(text)
        for written, call in wanted:
            if written in shown:
                return call
    return ""


def _may_hold_call(text: str) -> bool:
    # Every call names a group and a function, with one of these between them, plain or encoded.
    plain = "::" in text or "__" in text
    return plain or not text.isascii() or any(sign in text for sign in "&\\%<")


def _normalise(text: str) -> str:
    text = _NUMBER.sub("", text)
    if "\\" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), text)
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        from html import unescape  # its table of entities is large

        text = unescape(unescape(_AMPERSANDS.sub("&", text)))
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
    return _PASSED_OVER.sub("", _AROUND.sub("", text)).casefold()
