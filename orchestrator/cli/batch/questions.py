"""The questions of a batch: one a line of a JSONL file, checked before any model is paid for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.safe_json import read_json

if TYPE_CHECKING:
    from orchestrator.engine.run.options import Options

# In bytes: longer than every question that Bedrock takes (25,000,000 characters), and an end.
_LONGEST = 32_000_000
_SHOWN = 10  # wrong lines that an error names
_MEMBERS = ("id", "question", "session_id", "session_attributes", "prompt_session_attributes")


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    id: str  # names its result; the number of its line where the line has no other
    line: int
    text: str
    session: str | None = None  # questions of one session are asked one after the other
    options: Options = field(default_factory=lambda: Options())

    @property
    def digest(self) -> bytes:
        """Tells it from another question of the same id."""
        return digest_text(self.text)


def digest_text(text: str) -> bytes:
    """Eight bytes that tell a question's text from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]


def check_questions(file: Path) -> int:
    """How many questions a file has; all of them are read, and none is kept.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: Lines are wrong: each is named, up to ten.
    """
    wrong: list[str] = []
    lines: dict[str, int] = {}
    for number, found in _read_lines(file):
        if isinstance(found, str):
            wrong.append(f"line {number}: {found}")
        elif (first := lines.setdefault(found.id, number)) != number:
            wrong.append(f"line {number}: its id {found.id[:60]!r} is that of line {first}")
    if wrong:
        more = f"\n… and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        shown = "\n".join(wrong[:_SHOWN])
        raise ValidationError(
            f"{str(file)!r} has {len(wrong):,} wrong "
            f"{'line' if len(wrong) == 1 else 'lines'}, and nothing was asked:\n{shown}{more}"
        )
    if not lines:
        raise ValidationError(f"{str(file)!r} has no question; each line is one, in JSON")
    return len(lines)


def read_questions(file: Path) -> Iterator[Question]:
    """The questions of a file that was checked, one after the other."""
    for number, found in _read_lines(file):
        if isinstance(found, str):
            raise ValidationError(f"{str(file)!r} was changed: line {number}: {found}")
        yield found


# A question, or what is wrong with the line.
def _read_lines(file: Path) -> Iterator[tuple[int, Question | str]]:
    try:
        with file.open("rb") as stream:
            number = 0
            while line := stream.readline(_LONGEST):
                number += 1
                if len(line) == _LONGEST:
                    yield number, f"it has {_LONGEST:,} bytes or more; no question may be so long"
                    return
                if line.strip():
                    yield number, _parse_line(line, number)
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file {str(file)!r}") from None
    except OSError as error:
        raise ValidationError(f"{str(file)!r} cannot be read: {error.strerror}") from error


def _parse_line(line: bytes, number: int) -> Question | str:
    try:
        # Editors on Windows begin a file with a byte order mark, which JSON does not allow.
        value = read_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except json.JSONDecodeError as error:
        hint = "" if line.lstrip()[:1] in b'"{[' else "; a question alone stands in double quotes"
        return f"it is not JSON: {error.msg} (column {error.colno}){hint}"
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    if isinstance(value, str):
        value = {"question": value}
    if not isinstance(value, dict):
        return 'it is neither a text nor an object, such as {"question": "Where is order 1042?"}'
    return _read_members(value, number)


def _read_members(value: dict[str, Any], number: int) -> Question | str:
    if unknown := [name for name in value if name not in _MEMBERS]:
        return f"it has no member {unknown[0][:60]!r}; there are {', '.join(_MEMBERS)}"
    text, id, session = value.get("question"), value.get("id", number), value.get("session_id")
    if not isinstance(text, str) or not text.strip():
        return "its question is missing, empty or no text"
    if isinstance(id, bool) or not isinstance(id, str | int) or not 0 < len(str(id)) <= 200:
        return "its id must be a number or a text of 1 to 200 characters"
    if not isinstance(session, str | None):
        return "its session_id must be a text"
    options: Options = {}
    for name in ("session_attributes", "prompt_session_attributes"):
        given = value.get(name, {})
        if not isinstance(given, dict) or not all(isinstance(it, str) for it in given.values()):
            return f"its {name} must be an object of texts"
        if given:
            options[name] = given
    return Question(str(id), number, text, session, options)
