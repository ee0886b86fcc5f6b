"""Regular expressions that others wrote, in a document, a request or a tool's schema.

RE2 matches them: its time is linear in the text's length for every pattern, which Python's engine
is not. So no pattern, and no text, can stop a process. RE2 leaves out look-around, back references
and repetitions of more than a thousand times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from time import thread_time
from typing import Any

from orchestrator.errors import DefinitionError

# Characters of a pattern (Bedrock: 500 for those of guardrails).
MOST_CHARS = 2_000

# Matches of one expression in one text: each is a new search over the rest.
MOST_MATCHES = 10_000

# A search costs, at worst, some ten nanoseconds for each instruction of the pattern's program and
# each character of the text.
MOST_STEPS = 2_000_000_000

# Seconds of processor time for all matches in one text: each may have to look at the whole rest.
_MOST_SECONDS = 10.0

_MAX_MEMORY = 8 << 20

_ECMASCRIPT_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


# Each may come to hold `_MAX_MEMORY`, as texts are matched.
_MOST_KEPT = 100


class RegexTooLarge(DefinitionError):
    """A pattern whose program RE2 gives up; that takes as long as to compile the largest one."""


class Regex:
    """A compiled regular expression; `size` is the number of its program's instructions."""

    __slots__ = ("_compiled", "size")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.size: int = compiled.programsize

    def search(self, text: str) -> bool:
        """Whether it matches somewhere in a text."""
        return self._compiled.search(_encodable(text)) is not None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it matches something in a text.

        After `MOST_MATCHES`, or when looking on would take too long, the rest of the text counts
        as one match: what cannot be looked into does not pass.
        """
        if self.size * len(text) > MOST_STEPS:
            yield 0, len(text)
            return
        until = thread_time() + _MOST_SECONDS
        for count, found in enumerate(self._compiled.finditer(_encodable(text))):
            start, end = found.span()
            if count >= MOST_MATCHES or thread_time() > until:
                yield start, len(text)
                return
            if end > start:
                yield start, end


def _encodable(text: str) -> str:
    # RE2 reads UTF-8, which has no halves of surrogate pairs.
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


@lru_cache(maxsize=_MOST_KEPT)
def compile_regex(pattern: str) -> Regex:
    """Compiles a pattern in RE2's syntax.

    Raises:
        DefinitionError: It is wrong or too large, or uses what RE2 does not have.
    """
    import re2

    if len(pattern) > MOST_CHARS:
        raise DefinitionError(f"the expression has more than {MOST_CHARS:,} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.never_capture = True
    try:
        return Regex(re2.compile(pattern, options))
    except re2.error as error:
        kind = RegexTooLarge if "too large" in _reason(error) else DefinitionError
        raise kind(
            f"the expression {pattern!r} cannot be used: {_reason(error)}; RE2 has neither "
            "look-around nor back references"
        ) from None
    except UnicodeEncodeError:
        raise DefinitionError("the expression holds half of a surrogate pair") from None


def compile_schema_pattern(pattern: str) -> Regex:
    r"""Compiles a JSON Schema's `pattern`: ECMAScript's syntax, whose `\u0041` is `\x{0041}`.

    Raises:
        DefinitionError: As for `compile_regex`.
    """
    return compile_regex(_ECMASCRIPT_ESCAPE.sub(_translate_escape, pattern))


def _translate_escape(found: re.Match[str]) -> str:
    return f"\\x{{{found[1]}}}" if found[1] else found[0]


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
