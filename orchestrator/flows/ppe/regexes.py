"""Regular expressions of scripts: JavaScript's, as `regex` has them, and run with a time limit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.flows.expressions import Wrong
from orchestrator.flows.needed import needed

if TYPE_CHECKING:
    from orchestrator.flows.ppe.finding import Inline

__all__ = ["check_regex", "search", "searched", "translated"]

_LONGEST = 1_000_000
_LONGEST_PATTERN = 5_000
_FLAGS = "dgimsuvy"

_WORD = "A-Za-z0-9_"
_SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_IN_WORD, _NO_WORD = f"[{_WORD}]", f"[^{_WORD}]"
_ESCAPES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": _IN_WORD,
    "W": _NO_WORD,
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
    "b": f"(?:(?<={_IN_WORD})(?!{_IN_WORD})|(?<!{_IN_WORD})(?={_IN_WORD}))",
    "B": f"(?:(?<={_IN_WORD})(?={_IN_WORD})|(?<!{_IN_WORD})(?!{_IN_WORD}))",
    "/": "/",
    "0": r"\x00",
}
_IN_CLASS = {"d": "0-9", "w": _WORD, "s": _SPACE, "b": r"\x08", "/": "/", "0": r"\x00"}
_SAME = frozenset("fnrtv")

_TOKEN = re.compile(
    r"\\(?:k<(?P<back>\w+)>|u\{(?P<code>[0-9a-fA-F]{1,6})\}|u(?P<u>[0-9a-fA-F]{4})"
    r"|x(?P<x>[0-9a-fA-F]{2})|c(?P<control>[A-Za-z])|(?P<property>[pP]\{[\w=]+\})"
    r"|(?P<number>[1-9][0-9]?)|(?P<escaped>.))"
    r"|\(\?<(?P<name>[A-Za-z_$][\w$]*)>|(?P<group>\(\?(?:[:=!]|<[=!]))|(?P<bad>\(\?)"
    r"|(?P<any>\[\^\])|(?P<none>\[\])|(?P<class>\[\^?)|(?P<times>\{[0-9]+(?:,[0-9]*)?\})"
    r"|(?P<other>.)",
    re.DOTALL,
)


def translated(pattern: str, flags: str) -> str:
    """A pattern of JavaScript in Python's words.

    Raises:
        Wrong: It has what JavaScript does not.
    """
    made: list[str] = []
    in_class = False
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None or found["other"] == "\\":
            raise Wrong(f"the regular expression /{pattern}/ ends in a backslash")
        at = found.end()
        if in_class and found["other"] is None and pattern[found.start()] != "\\":
            # Whatever begins with a bracket or a brace is that sign here.
            made.append(f"\\{pattern[found.start()]}")
            at = found.start() + 1
            continue
        in_class = (in_class or found["class"] is not None) and found[0] != "]"
        made.append(_token(found, in_class, flags, pattern))
    return "".join(made)


def _token(found: re.Match[str], in_class: bool, flags: str, pattern: str) -> str:
    kind = found.lastgroup
    if kind == "other":
        return _sign(found[0], in_class, flags)
    if kind == "escaped":
        return _escape(found["escaped"], in_class)
    if kind in ("code", "u", "x"):
        return re.escape(_letter(int(found[kind], 16), pattern))
    if kind == "control":
        return f"\\x{ord(found['control']) % 32:02x}"
    if kind == "bad":
        raise Wrong(f"the regular expression /{pattern}/ has {pattern[found.start() :][:4]!r}")
    simple = {"any": r"[\s\S]", "none": "(?!)"}
    if kind in simple:
        return simple[kind]
    named = {"back": "(?P={})", "name": "(?P<{}>"}
    return named[kind].format(found[kind].replace("$", "_")) if kind in named else found[0]


def _letter(code: int, pattern: str) -> str:
    try:
        return chr(code)
    except ValueError:
        raise Wrong(f"the regular expression /{pattern}/ has a letter that is none") from None


def _sign(sign: str, in_class: bool, flags: str) -> str:
    if in_class:
        return sign if sign in "-^" else re.escape(sign)
    if sign == "$" and "m" not in flags:
        return r"\Z"
    if sign == "." and "s" not in flags:
        return r"[^\n\r\u2028\u2029]"
    return f"\\{sign}" if sign in "{}#&~ " else sign


def _escape(letter: str, in_class: bool) -> str:
    known = _IN_CLASS if in_class else _ESCAPES
    if letter in known:
        return known[letter]
    if in_class and letter in _ESCAPES:  # \D, \W, \S inside a class
        return {"D": r"\D", "W": r"\W", "S": r"\S", "B": "B"}[letter]
    return f"\\{letter}" if letter in _SAME else re.escape(letter)


@lru_cache(maxsize=500)
def _compiled(pattern: str, flags: str) -> Any:
    regex = needed("regex")
    if len(pattern) > _LONGEST_PATTERN:
        raise Wrong(f"a regular expression has more than {_LONGEST_PATTERN} characters")
    for flag in flags:
        if flag not in _FLAGS:
            raise Wrong(f"the regular expression /{pattern}/ has the flag {flag!r}")
    known = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL}
    value = regex.VERSION0
    for flag in flags:
        value |= known.get(flag, 0)
    try:
        return regex.compile(translated(pattern, flags), value)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise Wrong(f"the regular expression /{pattern}/ is wrong: {error}") from None


def check_regex(inline: Inline) -> None:
    """Checks an expression and its group.

    Raises:
        Wrong: One of them is wrong.
    """
    compiled = _compiled(inline.pattern, inline.flags)
    group = inline.group
    number = group.isdecimal() and len(group) < 4
    known = group in compiled.groupindex or (number and int(group) <= compiled.groups)
    if group and not known:
        raise Wrong(f"the regular expression /{inline.pattern}/ has no group {group!r}")


def searched(inline: Inline, text: str, seconds: float) -> str:
    """What an expression finds in a text; the whole text when it finds nothing.

    Raises:
        Wrong: It takes too long.
    """
    compiled = _compiled(inline.pattern, inline.flags)
    found = _search(compiled, inline.pattern, text, seconds)
    if found is None:
        return text
    group: Any = inline.group or (1 if compiled.groups else 0)
    return found[int(group) if str(group).isdecimal() else group] or ""


def search(pattern: str, flags: str, text: str, seconds: float) -> bool:
    """Whether an expression finds something in a text.

    Raises:
        Wrong: It is wrong, or takes too long.
    """
    return _search(_compiled(pattern, flags), pattern, text, seconds) is not None


def _search(compiled: Any, pattern: str, text: str, seconds: float) -> Any:
    try:
        return compiled.search(text[:_LONGEST], timeout=seconds)
    except TimeoutError:
        raise Wrong(
            f"the regular expression /{pattern}/ took longer than {seconds} seconds"
        ) from None
