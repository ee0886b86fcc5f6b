"""Documents that come with a question (Bedrock: `externalSourcesConfiguration`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.chunks import Chunking, passages_of
from orchestrator.knowledge.documents import Raw, is_document, read_blocks
from orchestrator.server.buckets import read_uri
from orchestrator.server.operations import Caller

_ID = "external"
# Bedrock: ByteContentBlob.
_MOST_BYTES = 10 * 1024 * 1024
_MOST_PASSAGES = 100
_SUFFIXES = {
    "text/markdown": ".md",
    "text/html": ".html",
    "text/plain": ".txt",
    "application/pdf": ".pdf",
}


def build_sources_base(
    buckets: Mapping[str, Path], caller: Caller, sources: Sequence[Mapping[str, Any]]
) -> _SourcesBase:
    """The documents of a request as something that can be searched."""
    found: list[dict[str, Any]] = []
    for source in sources:
        found += _references(buckets, caller, source)
    return _SourcesBase(found[:_MOST_PASSAGES])


class _SourcesBase:
    """All passages of some documents, whatever is asked for; a `KnowledgeBase`."""

    id = _ID
    description = ""

    def __init__(self, references: list[dict[str, Any]]) -> None:
        self._references = references

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The passages, in the documents' order."""
        return self._references


def _references(
    buckets: Mapping[str, Path], caller: Caller, source: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    kind, place = source["sourceType"], source.get("s3Location")
    if kind == "S3" and place:
        uri = place["uri"]
        content = read_uri(uri, caller, buckets, _MOST_BYTES)
        location: dict[str, Any] = {"type": "S3", "s3Location": {"uri": uri}}
        return _passages(uri, PurePosixPath(uri).suffix.lower(), content, location)
    inline = source.get("byteContent")
    if kind == "BYTE_CONTENT" and inline:
        name, media_type = inline["identifier"], inline["contentType"].partition(";")[0].lower()
        location = {"type": "CUSTOM", "customDocumentLocation": {"id": name}}
        return _passages(name, _SUFFIXES.get(media_type, ""), inline["data"], location)
    raise ValidationError(f"a source of the type {kind!r} has to come with its content")


def _passages(
    name: str, suffix: str, content: bytes, location: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    if len(content) > _MOST_BYTES:
        raise ValidationError(f"the document {name!r} has more than {_MOST_BYTES:,} bytes")
    file = f"document{suffix}"
    if not is_document(file):
        raise ValidationError(
            f"the document {name!r} is of no type that is read here: give Markdown, text, HTML or "
            "PDF"
        )
    try:
        blocks = read_blocks(Raw(file, content))
    except Unreadable as error:
        raise ValidationError(f"the document {name!r} cannot be read: {error}") from error
    for passage in passages_of(blocks, Chunking()):
        yield {"content": {"text": passage.whole, "type": "TEXT"}, "location": dict(location)}
