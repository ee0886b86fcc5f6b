"""Regular expressions of scripts: JavaScript's, run with a time limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from orchestrator.flows.expressions import Wrong
from orchestrator.flows.needed import needed

if TYPE_CHECKING:
    from orchestrator.flows.ppe.texts import Inline

__all__ = ["check_regex", "search", "searched"]

_LONGEST = 1_000_000


def _compiled(pattern: str, flags: str) -> Any:
    regex = needed("regex")
    python = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    known = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL}
    value = 0
    for flag in flags:
        value |= known.get(flag, 0)
    try:
        return regex.compile(python, value)
    except regex.error as error:
        raise Wrong(f"the regular expression /{pattern}/ is wrong: {error}", "") from None


def check_regex(inline: Inline) -> None:
    """Checks an expression and its group.

    Raises:
        Wrong: One of them is wrong.
    """
    compiled = _compiled(inline.pattern, inline.flags)
    group = inline.group
    known = group in compiled.groupindex or (group.isdecimal() and int(group) <= compiled.groups)
    if group and not known:
        raise Wrong(f"the regular expression /{inline.pattern}/ has no group {group!r}", "")


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
            f"the regular expression /{pattern}/ took longer than {seconds} seconds", ""
        ) from None
