"""Metadata of a document: the file beside it, in Bedrock's form.

`guide.md.metadata.json` holds the attributes of `guide.md`, each as a plain value or typed:
`{"metadataAttributes": {"year": 2026, "team": {"value": {"type": "STRING", "stringValue":
"payroll"}, "includeForEmbedding": true}}}` (Bedrock: "Include metadata in a data source").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.knowledge.blocks import Unreadable
from orchestrator.message import clean
from orchestrator.support.safe_json import json_or

# How the name of a metadata file ends.
SUFFIX = ".metadata.json"

# How the names of built-in attributes begin.
RESERVED = "x-amz-bedrock-kb-"

SOURCE = RESERVED + "source-uri"
PAGE = RESERVED + "document-page-number"
CHUNK_ID = RESERVED + "chunk-id"

_MOST_ATTRIBUTES = 100
# Every passage of the document repeats them.
_MOST_EMBEDDED = 2_000
_TYPED = {
    "STRING": "stringValue",
    "NUMBER": "numberValue",
    "BOOLEAN": "booleanValue",
    "STRING_LIST": "stringListValue",
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """A document's own attributes."""

    # By name: texts, numbers, truth values and lists of texts
    values: Mapping[str, Any] = field(default_factory=dict)
    # Names of those that count as text when passages are searched (`includeForEmbedding`)
    embedded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The embedded attributes as a text, one a line."""
        lines = []
        for name in self.embedded:
            value = self.values[name]
            lines.append(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
        text: str = clean("\n".join(lines))
        return text


def read_attributes(data: bytes) -> Attributes:
    """The attributes in a metadata file; `Unreadable` says what is wrong with its form."""
    # AWS: "Include metadata in a data source". A value is plain, or an object with its type.
    document = json_or(data.decode("utf-8-sig", "replace"), None)
    attributes = document.get("metadataAttributes") if isinstance(document, dict) else None
    if not isinstance(attributes, dict):
        raise Unreadable('its metadata file is not {"metadataAttributes": {...}}')
    if len(attributes) > _MOST_ATTRIBUTES:
        raise Unreadable(f"its metadata file has more than {_MOST_ATTRIBUTES} attributes")
    values, embedded = {}, []
    for name, value in attributes.items():
        if not name or name.startswith(RESERVED):
            raise Unreadable(f"the metadata attribute {name!r} has a reserved name; rename it")
        if isinstance(value, dict):
            if value.get("includeForEmbedding") is True:
                embedded.append(name)
            value = _unwrap_value(name, value.get("value"))
        values[name] = _check_value(name, value)
    found = Attributes(values, tuple(embedded))
    if len(found.text) > _MOST_EMBEDDED:
        raise Unreadable(
            f"its attributes with includeForEmbedding have more than {_MOST_EMBEDDED:,} characters"
        )
    return found


def _unwrap_value(name: str, value: Any) -> Any:
    member = _TYPED.get(str(value.get("type"))) if isinstance(value, dict) else None
    if member is None or member not in value:
        members = ", ".join(f"{kind} with {it}" for kind, it in _TYPED.items())
        raise Unreadable(f"the metadata attribute {name!r} has no typed value: one of {members}")
    return value[member]


def _check_value(name: str, value: Any) -> Any:
    plain = isinstance(value, str | int | float)
    if plain or (isinstance(value, list) and all(isinstance(it, str) for it in value)):
        return value
    raise Unreadable(
        f"the metadata attribute {name!r} must be a text, a number, a truth value or a list of "
        "texts"
    )
