"""A folder's documents: found, confined to the folder, and read into blocks.

Hidden files and links are passed over. A document that cannot be read is reported, never guessed.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound
from orchestrator.knowledge.blocks import Block, Kind, Outline, Unreadable
from orchestrator.knowledge.html import html_blocks
from orchestrator.knowledge.metadata import SUFFIX, Attributes, read_attributes
from orchestrator.knowledge.pdf import pdf_blocks
from orchestrator.message import clean
from orchestrator.support.lazy_imports import describe_missing_extra

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

SUFFIXES = {
    "text/markdown": ".md",
    "text/html": ".html",
    "text/plain": ".txt",
    "application/pdf": ".pdf",
}
"""How the names of documents end, by their media types."""

_MOST_METADATA = 64 * 1024


@dataclass(frozen=True, slots=True)
class Raw:
    """A document as it is on disk."""

    name: str  # its path in the folder, with `/`
    data: bytes  # its content
    metadata: bytes = b""  # the content of its metadata file; empty without one

    @property
    def digest(self) -> str:
        """The hash of its content and metadata."""
        return hashlib.sha256(b"%d:%b%b" % (len(self.data), self.data, self.metadata)).hexdigest()

    def attributes(self) -> Attributes:
        """The attributes in its metadata file; `Unreadable` when they are not of Bedrock's form."""
        return read_attributes(self.metadata) if self.metadata else Attributes()


def find_documents(folder: Path) -> list[str]:
    """The names of a folder's documents, sorted, with `/` between their parts.

    Raises:
        ResourceNotFound: There is no such folder.
    """
    return find_files(folder)[0]


def find_files(folder: Path) -> tuple[list[str], dict[str, int]]:
    """The names of a folder's documents, and how many other files there are, by their endings.

    Raises:
        ResourceNotFound: There is no such folder.
    """
    if not folder.is_dir():
        raise ResourceNotFound(f"there is no folder {str(folder)!r} to search in")
    names = sorted(_walk(folder, ""))
    others = (it for it in names if not is_document(it) and not it.endswith(SUFFIX))
    return [it for it in names if is_document(it)], Counter(map(_suffix, others))


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    # Links are passed over: what a link points to is not in the folder.
    with os.scandir(folder / prefix) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            if entry.is_dir():
                yield from _walk(folder, name + "/")
            elif entry.is_file(follow_symlinks=False):
                yield name


def is_document(name: str) -> bool:
    """Whether a file of this name is a document that can be read, and no metadata of one."""
    return _suffix(name) in _READERS and not name.endswith(SUFFIX)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def read_raw(folder: Path, name: str, limit: int) -> Raw:
    """A document's bytes, at most `limit`, and those of its metadata file.

    Raises:
        Unreadable: It is too large, or cannot be read.
    """
    if clean(name) != name:
        raise Unreadable("its name is not UTF-8; rename it")
    metadata = folder / (name + SUFFIX)
    try:
        data = _bytes(folder / name, limit)
        there = metadata.is_file() and not metadata.is_symlink()
        return Raw(name, data, _bytes(metadata, _MOST_METADATA) if there else b"")
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from error


def _bytes(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"{path.name!r} has more than {limit:,} bytes")
    return data


def read_blocks(raw: Raw) -> list[Block]:
    """A document's blocks.

    Raises:
        Unreadable: It is broken, encrypted or not text, or its reader is not installed.
    """
    try:
        blocks = _READERS[_suffix(raw.name)](raw.data)
    except ModuleNotFoundError as error:
        message = describe_missing_extra("reading it needs", "knowledge", error.name)
        raise Unreadable(message) from error
    # Halves of surrogate pairs have no UTF-8, which SQLite and JSON need.
    return [
        replace(it, text=clean(it.text), headings=tuple(map(clean, it.headings))) for it in blocks
    ]


def _text(data: bytes) -> str:
    # Without a mark of its encoding, what is no UTF-8 is nearly always Windows' Western one.
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data:
        raise Unreadable("it is not text")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _plain(data: bytes) -> list[Block]:
    text = _text(data).replace("\r\n", "\n")
    return [Block(it.strip("\n")) for it in text.split("\n\n") if it.strip()]


_KINDS: dict[str, Kind] = {"fence": "code", "code_block": "code", "table_open": "table"}
_FRONT_MATTER = "---"
# Some 5 seconds, if each begins an item of a list.
_MOST_LINES = 100_000
# As much again. The library fills short rows up to the width of their table.
_MOST_CELLS = 200_000
_DELIMITERS = " \t>*+-:|0123456789.)"


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only the outer structure is asked for; inline marks stay in the text as they are.
    return MarkdownIt("commonmark").enable("table").disable("inline")


def markdown_blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text, as CommonMark reads it, without comments and front matter.

    Raises:
        Unreadable: It has too many lines, or its tables too many cells.
    """
    text = _without_front_matter(text.replace("\r\n", "\n"))
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise Unreadable(f"it has more than {_MOST_LINES:,} lines; split it into several files")
    if _count_cells(lines) > _MOST_CELLS:
        raise Unreadable(f"its tables have more than {_MOST_CELLS:,} cells; split it")
    outline = Outline()
    blocks = []
    tokens = _parser().parse(text)
    for index, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        if token.type == "heading_open":
            outline.enter(int(token.tag[1]), tokens[index + 1].content.strip(" #"))
        elif token.type != "html_block" or not token.content.lstrip().startswith("<!--"):
            blocks += _block(token, lines, outline.headings)
    return blocks


def _count_cells(lines: Sequence[str]) -> int:
    """How many cells its tables have at most, those that rows leave out included."""
    cells = width = 0
    for line in lines:
        bars = line.count("|")
        if not line.strip():
            width = 0
        elif bars and not line.strip(_DELIMITERS):
            width = max(width, bars + 1)
        cells += max(width, bars)
    return cells


def _block(token: Any, lines: list[str], headings: tuple[str, ...]) -> list[Block]:
    start, end = token.map
    text = "\n".join(lines[start:end]).strip("\n")
    if not text.strip() or token.type == "hr":
        return []
    kind = _KINDS.get(token.type, "text")
    return [Block(text, kind, headings, head=2 if kind == "table" else 0)]


def _without_front_matter(text: str) -> str:
    if not text.startswith(_FRONT_MATTER + "\n"):
        return text
    end = text.find("\n" + _FRONT_MATTER, len(_FRONT_MATTER))
    return text[end + len(_FRONT_MATTER) + 1 :] if end > 0 else text


_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_READERS: dict[str, Callable[[bytes], list[Block]]] = {
    **dict.fromkeys((".md", ".markdown"), lambda data: markdown_blocks(_text(data))),
    **dict.fromkeys((".txt", ".text", ".rst"), _plain),
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda data: html_blocks(_text(data))),
    ".pdf": pdf_blocks,
}
READ_ENDINGS = (".md", ".txt", ".html", ".pdf")
"""The usual endings of the documents that are read, for messages."""
