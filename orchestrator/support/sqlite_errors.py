"""What SQLite and Python's module for it raise: what means damage, and what that a file is busy."""

from __future__ import annotations

import sqlite3

FAILURES = (sqlite3.Error, UnicodeDecodeError, MemoryError)
"""Besides its own errors, what Python's `sqlite3` raises for what a damaged file holds."""

WAY_OUT = "restore it from a backup, or move it away to begin a new one"
"""What to do with a file that is damaged."""

# Opening a database: "Result and Error Codes".
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}


def describe_failure(error: BaseException, what: str, hint: str) -> str:
    """The end of a message: `what` failed, why, and the way out; `hint` is one without damage."""
    if isinstance(error, sqlite3.Error) and not _shows_damage(error):
        return f"{what}: {error}; {hint}"
    text = str(error) if isinstance(error, sqlite3.Error) else type(error).__name__
    return f"{what}: it is damaged ({text}); {WAY_OUT}"


def _shows_damage(error: sqlite3.Error) -> bool:
    # What Python cannot decode it reports without a code.
    return _get_code(error) in _DAMAGED or str(error).startswith("Could not decode to UTF-8")


def is_busy(error: BaseException) -> bool:
    """Whether somebody else has the file."""
    return _get_code(error) == sqlite3.SQLITE_BUSY


def _get_code(error: BaseException) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
