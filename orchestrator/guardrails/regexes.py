"""Regular expressions of a guardrail's author, matched by RE2.

RE2 takes time linear in the text's length for every pattern, which Python's engine does not: no
pattern, and no input, can stop a turn. What it leaves out, look-around and back references,
Bedrock's guardrails leave out, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from orchestrator.errors import DefinitionError

# Letters and digits of a match that streaming waits for.
REGEX_REACH = 200

# Matches of one expression in one text: each is a new search over the rest.
MOST_MATCHES = 10_000

_MAX_MEMORY = 8 << 20


class Expression:
    """A compiled regular expression."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the expression matches something in a text that was read with `visible`.

        After `MOST_MATCHES` the rest of the text counts as one match: what cannot be looked into
        does not pass.
        """
        for count, found in enumerate(self._compiled.finditer(text)):
            start, end = found.span()
            if count >= MOST_MATCHES:
                yield start, len(text)
                return
            if end > start:
                yield start, end


@cache
def compile_expression(pattern: str) -> Expression:
    """Compiles an expression.

    Raises:
        DefinitionError: It is wrong, or uses what RE2 does not have; or RE2 is not installed.
    """
    try:
        import re2
    except ImportError:
        raise DefinitionError(
            "regular expressions of a guardrail need RE2: install "
            "'bedrock-orchestrator[guardrails]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise DefinitionError(
            f"the expression {pattern!r} cannot be used: {_reason(error)}; RE2 has neither "
            "look-around nor back references"
        ) from None
    except UnicodeEncodeError:
        raise DefinitionError("the expression holds half of a surrogate pair") from None
    return Expression(compiled)


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
