r"""Names as databases can keep them: any text, and back again.

PostgreSQL keeps no NUL, and no database half of a surrogate pair. Each such
character is kept as a backslash and four hexadecimal digits, and so is the backslash; a name's
beginning is its beginning still.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPE = re.compile(r"\\([0-9a-f]{4})")


def escape_name(name: str) -> str:
    """A name as it is kept."""
    return _SPECIAL.sub(lambda found: f"\\{ord(found[0]):04x}", name)


def unescape_name(text: str) -> str:
    """The name that `escape_name` was given."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def escape_names(*names: str | None) -> tuple[str | None, ...]:
    """Names as they are kept; one that is missing still is."""
    return tuple(None if name is None else escape_name(name) for name in names)
