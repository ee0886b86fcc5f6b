"""Texts as a guardrail reads them: without tricks of Unicode, and with the way back.

Two readings of one text. `visible` is what a reader sees: compatibility forms made plain (NFKC:
full-width, circled and mathematical letters), every script's digits as ASCII, no invisible
characters. `letters` goes further, for words: no case, no diacritics, and Cyrillic and Greek
letters that look like Latin ones as those. Both know where each character came from, so that a
match can be masked in the text as it was written. Both take time linear in the text's length.
"""

from __future__ import annotations

import unicodedata
from array import array
from typing import NamedTuple


class FoldedText(NamedTuple):
    """A text as it is read, and where its characters came from."""

    source: str  # the text as it was written
    text: str  # the text as it is read
    # For each character, where its first character is in `source`; `None` when both texts have the
    # same places
    starts: array[int] | None = None
    ends: array[int] | None = None  # one past the last one

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where `text[start:end]`, which is not empty, is in `source`."""
        if self.starts is None or self.ends is None:
            return start, end
        return self.starts[start], self.ends[end - 1]


# What nobody sees although Unicode does not count it among the format characters: joiners of
# graphemes, fillers of Hangul, vowel signs of Khmer, variation selectors.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10))))
)

_LOOKALIKES = dict(
    zip(
        "авекмнорстухіјѕԁһԛԝѵ" + "αβεηικνορτυχϲϳ",
        "abekmhopctyxijsdhqwv" + "abenikvoptuxcj",
        strict=True,
    )
)

# Unicode's dashes (category Pd), minus signs and hyphen bullets.
_DASHES = (
    "\u02d7\u058a\u05be\u1400\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2e17\u2e1a"
    "\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0\ufe31\ufe32\ufe58\ufe63\uff0d\U00010ead"
)
_PLAIN = {
    **dict.fromkeys(map(ord, _DASHES), "-"),
    **{ord(char): latin for char, latin in _LOOKALIKES.items()},
    **{ord(char.upper()): latin.upper() for char, latin in _LOOKALIKES.items()},
}


class _Visible(dict[str, str]):
    def __missing__(self, char: str) -> str:
        shown = self[char] = _visible(char)
        return shown


class _Letters(dict[str, str]):
    def __missing__(self, char: str) -> str:
        plain = unicodedata.normalize("NFKD", _VISIBLE[char]).casefold()
        chars = unicodedata.normalize("NFKD", plain)
        bare = (it for it in chars if unicodedata.category(it) not in ("Mn", "Me"))  # marks
        folded = self[char] = "".join(_LOOKALIKES.get(it, it) for it in bare)
        return folded


_VISIBLE = _Visible()
_LETTERS = _Letters()


def _visible(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cf" or char in _UNSEEN or 0xE0100 <= ord(char) < 0xE01F0:
        return ""
    if category == "Cs":
        return "\ufffd"  # half of a surrogate pair, which nothing can encode
    if category == "Nd":
        return str(unicodedata.decimal(char))
    return unicodedata.normalize("NFKC", char)


def visible(text: str) -> FoldedText:
    """The text as a reader sees it; letters keep their case and their diacritics."""
    return FoldedText(text, text) if text.isascii() else _read(text, _VISIBLE, composed=True)


def plain(text: str) -> str:
    """A text as patterns are looked for in it, as long as it was.

    Every dash is a hyphen, and Cyrillic and Greek letters that look like Latin ones are those.
    """
    return text if text.isascii() else text.translate(_PLAIN)


def letters(text: str) -> FoldedText:
    """The text as words are compared."""
    return FoldedText(text, text.lower()) if text.isascii() else _read(text, _LETTERS)


def is_letter(char: str) -> bool:
    """Whether a character is a letter or digit that can be seen."""
    return char.isalnum() and bool(_VISIBLE[char])


def _read(text: str, table: dict[str, str], *, composed: bool = False) -> FoldedText:
    chars: list[str] = []
    starts, ends = array("Q"), array("Q")
    for place, char in enumerate(text):
        read = table[char]
        if composed and chars and unicodedata.combining(char):
            # Letter and mark as the one character that a pattern is written with.
            both = unicodedata.normalize("NFC", chars[-1] + char)
            if len(both) == 1:
                chars[-1], read = both, ""
        if not read and ends:
            ends[-1] = place + 1  # what is not seen goes with what stands before it
        for one in read:
            chars.append(one)
            starts.append(place)
            ends.append(place + 1)
    return FoldedText(text, "".join(chars), starts, ends)
