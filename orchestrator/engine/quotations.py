"""Calls that a model did not make up, but repeats from what it has read in the turn."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

_AMPERSANDS = re.compile(r"&(?:amp;)+", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
# What a quotation may have more or less of: white space, quotes and their escapes, Markdown's marks
# of quotations and code, and characters that are not seen.
_PASSED_OVER = re.compile("[\\s\\\\\"'`>\xad\u200b-\u200f\u2060-\u2064\ufeff]+")

# Each call is looked for in every text. No model makes so many in one reply; a text may list them.
_MOST_CALLS = 1000


def find_quotation(calls: Sequence[str], texts: Iterable[str]) -> str:
    """The first of some written calls that stands in one of the texts; empty when none does.

    Neither white space and quotes count nor upper case, and entities and JSON's escapes are what
    they stand for: a model quotes what it was shown encoded as it was meant.
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
    return "::" in text or "__" in text or "&" in text or "\\u" in text or not text.isascii()


def _normalise(text: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    if "&" in text:
        text = html.unescape(html.unescape(_AMPERSANDS.sub("&", text)))
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _PASSED_OVER.sub("", text).casefold()
