"""The generations of the language: what a script means that says which one it is written in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from orchestrator.flows.tree import ScriptError


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a script may write. Without a generation it may write what any has.

    Attributes:
        bare_regexes: Whether regular expressions need no brackets (before 0.7).
        immediate: The signs that have a text rendered at once: `#` (before 0.9) and `!` (since).
        edits: Whether `#:` and `#+` edit messages (since 0.9).
    """

    bare_regexes: bool = True
    immediate: str = "#!"
    edits: bool = True

    def is_immediate(self, text: str) -> bool:
        """Whether a text begins with a sign to render it at once."""
        if text[:1] not in ("#", "!") or text[:1] not in self.immediate:
            return False
        return not (self.edits and text[0] == "#" and text[1:2] in (":", "+", "["))


def dialect_of(value: Any) -> Dialect:
    """The dialect that front matter names: such as `0.6` or `"0.9"`.

    Raises:
        Wrong: It is none.
    """
    if value is None:
        return Dialect()
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.[\dx]+)?", str(value))
    if found is None:
        raise ScriptError(
            f"the dialect {str(value)!r} is none; write a version, such as '0.6' or '0.9'",
            f"{str(value)!r} 不是有效的 dialect；请写版本号，如 '0.6' 或 '0.9'",
        )
    version = (int(found[1]), int(found[2]))
    if version < (0, 6):
        raise ScriptError(
            f"the dialect {str(value)!r} is too old; scripts are read since '0.6'",
            f"dialect {str(value)!r} 过旧；支持 '0.6' 及以后的版本",
        )
    since_9 = version >= (0, 9)
    return Dialect(version < (0, 7), "!" if since_9 else "#", since_9)
