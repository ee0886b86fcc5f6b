"""Blocks into passages of a size that an embedding model can read.

A passage never mixes sections or pages. Paragraphs are put together until the size is reached; one
that is too long itself is cut between sentences, code between lines, a table between rows (each
piece with the table's head). Only cut text overlaps: a piece begins with the end of the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from orchestrator.errors import ValidationError
from orchestrator.knowledge.blocks import Block

_TOKEN = re.compile(r"\w+|[^\w\s]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_LONGEST_WORD = 200
_LONGEST_HEAD = 10  # characters of a table's head for each token of a passage


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are cut (Bedrock: `FixedSizeChunkingConfiguration`)."""

    # The size of a passage with its headings. A token is a word or a mark; the small embedding
    # model reads 256 pieces of words, which is about 190 tokens of English prose
    max_tokens: int = 180
    overlap_percentage: int = 15  # how much of a cut paragraph is repeated in the next passage

    def __post_init__(self) -> None:
        if not 20 <= self.max_tokens <= 8192:
            raise ValidationError("max_tokens must be a number from 20 to 8192")
        if not 0 <= self.overlap_percentage <= 50:
            raise ValidationError("overlap_percentage must be a number from 0 to 50")


@dataclass(frozen=True, slots=True)
class Passage:
    """What is found: a piece of a document."""

    text: str  # the piece itself
    heading: str = ""  # the headings above it, outermost first, in one line
    page: int | None = None  # its page, in documents that have pages

    @property
    def whole(self) -> str:
        """The piece under its headings, as it is embedded and shown to a model."""
        return f"{self.heading}\n\n{self.text}" if self.heading else self.text


def passages_of(blocks: Sequence[Block], chunking: Chunking) -> list[Passage]:
    """Cuts a document into passages."""
    # However long the headings are, half of a passage is left for its text.
    passages = []
    for (headings, page), section in groupby(blocks, lambda it: (it.headings, it.page)):
        heading = " > ".join(headings)
        size = max(chunking.max_tokens - _size(heading), chunking.max_tokens // 2)
        overlap = size * chunking.overlap_percentage // 100
        passages += [Passage(text, heading, page) for text in _pack_blocks(section, size, overlap)]
    return passages


def _size(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))


def _pack_blocks(section: Iterator[Block], size: int, overlap: int) -> Iterator[str]:
    waiting: list[str] = []
    room = size
    for block in section:
        needed = _size(block.text)
        if needed > room and waiting:
            yield "\n\n".join(waiting)
            waiting, room = [], size
        if needed > size:
            yield from _cut(block, size, overlap)
        else:
            waiting.append(block.text)
            room -= needed
    if waiting:
        yield "\n\n".join(waiting)


def _cut(block: Block, size: int, overlap: int) -> Iterator[str]:
    if block.kind == "text":
        units = [it for it in _SENTENCE.split(block.text) if it.strip()]
        yield from _join_units(_shorten_units(units, size), size, overlap, " ")
        return
    lines = block.text.split("\n")
    # Each piece repeats the table's head; a very long one is a row like others.
    head = "\n".join(lines[: block.head])
    head = head if len(head) <= _LONGEST_HEAD * size else ""
    rows = lines[block.head :] if head else lines
    room = max(size - _size(head), size // 2)
    for text in _join_units(_shorten_units(rows, room), room, 0, "\n"):
        yield f"{head}\n{text}" if head else text


def _shorten_units(units: Sequence[str], size: int) -> Iterator[str]:
    """The units, those that are longer than a passage cut between words."""
    for unit in units:
        if len(unit) <= size or _size(unit) <= size:
            yield unit
            continue
        # A very long word (a picture in Base64) would be a passage for itself.
        words = [word[:_LONGEST_WORD] for word in unit.split()]
        yield from _join_units(words, size, 0, " ")


def _join_units(
    units: Iterator[str] | list[str], size: int, overlap: int, mark: str
) -> Iterator[str]:
    # The overlap is cut where it would push the next unit out of the passage.
    waiting: list[tuple[str, int]] = []
    length = 0
    for unit in units:
        needed = _size(unit)
        if waiting and length + needed > size:
            yield mark.join(text for text, _ in waiting)
            waiting = _tail(waiting, min(overlap, size - needed))
            length = sum(it for _, it in waiting)
        waiting.append((unit, needed))
        length += needed
    if waiting:
        yield mark.join(text for text, _ in waiting)


def _tail(units: list[tuple[str, int]], size: int) -> list[tuple[str, int]]:
    tail: list[tuple[str, int]] = []
    for unit in reversed(units):
        size -= unit[1]
        if size < 0:
            break
        tail.insert(0, unit)
    return tail
