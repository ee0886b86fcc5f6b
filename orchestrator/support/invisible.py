"""Characters that nobody sees, as the inside of a character class of `re`.

A model reads a word with one of them in it as the word itself. So whoever looks for what a model
would take for a mark or a tag allows them wherever they could hide it.
"""

from __future__ import annotations

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
SPACES = " \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
# Controls, Unicode's format characters, and what else is not seen: joiners, fillers, variation
# selectors.
UNSEEN = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f\U000e0100-\U000e01ef"
)
