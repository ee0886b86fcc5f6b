"""Regular expressions of scripts: JavaScript's, as `regex` has them, and run with a time limit."""

from __future__ import annotations

import re
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from orchestrator.flows.expressions import import_library
from orchestrator.flows.steps import WorkTime
from orchestrator.flows.tree import ScriptError

if TYPE_CHECKING:
    from orchestrator.flows.ppe.text_scanner import Inline


_LONGEST = 1_000_000
_SEARCHES = 10
"""How many times the time of one search all searches of a run may take."""

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

_LAST = r"\U0010ffff"
_NO_NUMBER = rf"\x00-/:-{_LAST}"
_NO_LETTER = r"\x00-/:-@\[-\^`\{-\x7f"
_NO_LIKENESS = rf"\x80-\u012f\u0132-\u017e\u0180-\u2129\u212b-{_LAST}"
"""Without case four letters more are an i, a k or an s."""

_NO_SPACE = (
    r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e"
    rf"\u2060-\u2fff\u3001-\ufefe\uff00-{_LAST}"
)
_NOT_IN_CLASS = {"D": _NO_NUMBER, "S": _NO_SPACE, "B": "B"}
_REPEATED = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")
_BESIDE_SETS = re.compile(r"\\[dDsSwW]-|-\\[dDsSwW]")

_TOKEN = re.compile(
    r"\\(?:k<(?P<back>\w+)>|u\{(?P<code>[0-9a-fA-F]{1,6})\}|u(?P<u>[0-9a-fA-F]{4})"
    r"|x(?P<x>[0-9a-fA-F]{2})|c(?P<control>[A-Za-z])|(?P<property>[pP]\{[\w=]+\})"
    r"|(?P<number>[1-9][0-9]?)|(?P<escaped>.))"
    r"|\(\?<(?P<name>[A-Za-z_$][\w$]*)>|(?P<group>\(\?(?:[:=!]|<[=!]))|(?P<bad>\(\?)"
    r"|(?P<any>\[\^\])|(?P<none>\[\])|(?P<class>\[\^?)|(?P<times>\{[0-9]+(?:,[0-9]*)?\})"
    r"|(?P<other>.)",
    re.DOTALL,
)


def translate_pattern(pattern: str, flags: str) -> str:
    """A pattern of JavaScript in Python's words."""
    made: list[str] = []
    in_class, state = False, "nothing"
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None or found["other"] == "\\":
            raise ScriptError(
                f"the regular expression /{pattern}/ ends in a backslash",
                f"正则表达式 /{pattern}/ 以反斜杠结尾",
            )
        at = found.end()
        if in_class and found["other"] is None and pattern[found.start()] != "\\":
            # Whatever begins with a bracket or a brace is that sign here.
            made.append(f"\\{pattern[found.start()]}")
            at = found.start() + 1
            continue
        in_class = (in_class or found["class"] is not None) and found[0] != "]"
        if not in_class:
            state = _repeats(found, state, pattern)
        set_beside = in_class and found[0] == "-" and _beside_set(pattern, found.start())
        made.append(r"\-" if set_beside else _token(found, in_class, flags, pattern))
    return "".join(made)


def _beside_set(pattern: str, at: int) -> bool:
    r"""Whether a `-` in a class stands beside a set, as in `\d-x`: then it is itself."""
    return any(_BESIDE_SETS.match(pattern, start) for start in (at - 2, at) if start >= 0)


def _repeats(found: re.Match[str], state: str, pattern: str) -> str:
    """What may be repeated after a sign: `nothing`, `whole`, `repeated` already, or `lazy`."""
    sign = found[0]
    if not _REPEATED.fullmatch(sign):
        empty = sign in ("|", "^", "$", "(", r"\b", r"\B") or found["group"] or found["name"]
        return "nothing" if empty else "whole"
    if state == "whole":
        return "repeated"
    if state == "repeated" and sign == "?":
        return "lazy"
    raise ScriptError(
        f"the regular expression /{pattern}/ is wrong: there is nothing to repeat before {sign!r}",
        f"正则表达式 /{pattern}/ 有误: {sign!r} 之前没有可重复的内容",
    )


def _token(found: re.Match[str], in_class: bool, flags: str, pattern: str) -> str:
    kind = found.lastgroup
    if kind == "other":
        return _sign(found[0], in_class, flags)
    if kind == "escaped":
        return _escape(found["escaped"], in_class, flags)
    if kind in ("code", "u", "x"):
        return re.escape(_letter(int(found[kind], 16), pattern))
    if kind == "control":
        return f"\\x{ord(found['control']) % 32:02x}"
    if kind == "bad":
        what = pattern[found.start() :][:4]
        raise ScriptError(
            f"the regular expression /{pattern}/ has {what!r}",
            f"正则表达式 /{pattern}/ 含有不支持的 {what!r}",
        )
    simple = {"any": r"[\s\S]", "none": "(?!)"}
    if kind in simple:
        return simple[kind]
    named = {"back": "(?P={})", "name": "(?P<{}>"}
    return named[kind].format(found[kind].replace("$", "_")) if kind in named else found[0]


def _letter(code: int, pattern: str) -> str:
    try:
        return chr(code)
    except ValueError:
        raise ScriptError(
            f"the regular expression /{pattern}/ has a letter that is none",
            f"正则表达式 /{pattern}/ 含有无效的字符",
        ) from None


def _sign(sign: str, in_class: bool, flags: str) -> str:
    if in_class:
        return sign if sign in "-^" else re.escape(sign)
    if sign == "$" and "m" not in flags:
        return r"\Z"
    if sign == "." and "s" not in flags:
        return r"[^\n\r\u2028\u2029]"
    return f"\\{sign}" if sign in "{}#&~ " else sign


def _escape(letter: str, in_class: bool, flags: str) -> str:
    known = _IN_CLASS if in_class else _ESCAPES
    if letter in known:
        return known[letter]
    if in_class and letter == "W":
        return _NO_LETTER + (_NO_LIKENESS if "i" in flags else rf"\x80-{_LAST}")
    if in_class and letter in _NOT_IN_CLASS:
        return _NOT_IN_CLASS[letter]
    return f"\\{letter}" if letter in _SAME else re.escape(letter)


@lru_cache(maxsize=500)
def compile_pattern(pattern: str, flags: str) -> Any:
    """An expression of JavaScript; a `ScriptError` says what is wrong with it."""
    regex = import_library("regex")
    if len(pattern) > _LONGEST_PATTERN:
        raise ScriptError(
            f"a regular expression has more than {_LONGEST_PATTERN} characters",
            f"正则表达式超过 {_LONGEST_PATTERN} 个字符",
        )
    for flag in flags:
        if flag not in _FLAGS:
            raise ScriptError(
                f"the regular expression /{pattern}/ has the flag {flag!r}",
                f"正则表达式 /{pattern}/ 含有未知标志 {flag!r}",
            )
    known = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL}
    value = regex.VERSION0
    for flag in flags:
        value |= known.get(flag, 0)
    try:
        return regex.compile(translate_pattern(pattern, flags), value)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise ScriptError(
            f"the regular expression /{pattern}/ is wrong: {error}",
            f"正则表达式 /{pattern}/ 有误: {error}",
        ) from None


def check_regex(inline: Inline) -> None:
    """Checks an expression and its group."""
    compiled = compile_pattern(inline.pattern, inline.flags)
    group = inline.group
    number = group.isdecimal() and len(group) < 4
    known = group in compiled.groupindex or (number and int(group) <= compiled.groups)
    if group and not known:
        raise ScriptError(
            f"the regular expression /{inline.pattern}/ has no group {group!r}",
            f"正则表达式 /{inline.pattern}/ 没有分组 {group!r}",
        )


class Searches:
    """The time that the searches of one run may take: each by itself, and all together."""

    def __init__(self, seconds: float, worked: WorkTime | None = None) -> None:
        self.seconds = seconds  # the time for one
        self.worked = worked or WorkTime()  # what all have taken

    def search(self, pattern: str, flags: str, text: str) -> Any:
        """What an expression finds in a text; `None` for nothing."""
        compiled = compile_pattern(pattern, flags)
        self.worked.times += 1
        most = self.seconds * _SEARCHES
        left = most - self.worked.seconds
        seconds = min(self.seconds, left) if self.worked.counts or left <= 0 else self.seconds
        started = perf_counter()
        try:
            if seconds > 0:
                return compiled.search(text[:_LONGEST], timeout=seconds)
        except TimeoutError:
            if seconds == self.seconds:
                raise ScriptError(
                    f"the regular expression /{pattern}/ took longer than {seconds} seconds",
                    f"正则表达式 /{pattern}/ 用时超过 {seconds} 秒",
                ) from None
        finally:
            if self.worked.counts:
                self.worked.seconds += perf_counter() - started
        if self.worked.counts:  # `regex` has a clock of its own, and may stop a little early
            self.worked.seconds = max(self.worked.seconds, most)
        raise ScriptError(
            f"the run's regular expressions took longer than {most} seconds together, the last "
            f"one /{pattern}/",
            f"本次运行的正则表达式总用时超过 {most} 秒，最后一个是 /{pattern}/",
        )


def search_text(inline: Inline, text: str, searches: Searches) -> str:
    """What an expression finds in a text; the whole text when it finds nothing."""
    compiled = compile_pattern(inline.pattern, inline.flags)
    found = searches.search(inline.pattern, inline.flags, text)
    if found is None:
        return text
    group: Any = inline.group or (1 if compiled.groups else 0)
    return found[int(group) if str(group).isdecimal() else group] or ""
