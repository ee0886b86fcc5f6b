"""OpenAPI documents that know their places, for errors with line and column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.actions.schemas import Where
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Place, Rules, parse, parse_json

_MAX_CHARS = 2_000_000
# Schemas share parts by aliases; the names of responses look like numbers.
_RULES = Rules(aliases=True, merge_keys=True, max_depth=100)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document and where it came from.

    Attributes:
        content: The parsed mapping.
        root: Its places; `None` when it was given as a mapping.
        file: Its file, when it has one.
    """

    content: Mapping[str, Any]
    root: Place | None = None
    file: Path | None = None

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | Path) -> Document:
        """Reads a mapping, a JSON or YAML text, or the file at a `Path`.

        Raises:
            DefinitionError: The file cannot be read, or its text is broken, too large, has a
                key twice or is no mapping.
        """
        if isinstance(source, Mapping):
            return cls(source)
        file = source if isinstance(source, Path) else None
        text = _read_file(file) if file is not None else str(source)
        if len(text) > _MAX_CHARS:
            raise DefinitionError(f"the schema has more than {_MAX_CHARS} characters", file=file)
        read = parse_json if text.lstrip()[:1] == "{" else parse
        document = read(text, str(file or ""), _RULES)
        if not isinstance(document.data, Mapping):
            raise DefinitionError(
                "the schema must be an OpenAPI document, an object with `openapi` and `paths`",
                file=file,
                line=1 if file else None,
            )
        return cls(document.data, document.root, file)

    def error(self, message: str, where: Where) -> DefinitionError:
        """The error `message` about the place `where`, with line and column if there is a text."""
        line = column = None
        if self.root is not None:
            place, _ = self.root.follow(where)
            line, column = place.key or (place.line, place.column)
        keys = " > ".join(str(key) for key in where)
        if keys:
            message = f"{message} (at {keys})"
        return DefinitionError(message, file=self.file, line=line, column=column)


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DefinitionError(f"the schema cannot be read: {reason}", file=file) from error
