"""PDF into blocks: the text of each page, with its number."""

from __future__ import annotations

import io
import re

from orchestrator.knowledge.blocks import Block

__all__ = ["Unreadable", "pdf_blocks"]

_MOST_PAGES = 5_000
_MOST_CHARACTERS = 20_000_000
_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_LINE_END = re.compile(r"(?<![.:!?])\n(?=\S)")
_BLANK = re.compile(r"\n\s*\n")


class Unreadable(Exception):
    """A document that cannot be read; its text says why, for people."""


def pdf_blocks(data: bytes) -> list[Block]:
    """The paragraphs of a PDF; pictures of text are not read.

    Raises:
        ModuleNotFoundError: `pypdf` is not installed.
        Unreadable: It is encrypted, broken or too large.
    """
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted")
        count = len(reader.pages)
        if count > _MOST_PAGES:
            raise Unreadable(f"it has {count:,} pages, and {_MOST_PAGES:,} are read at most")
        return _pages(reader)
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # a broken file makes the parser raise nearly anything
        raise Unreadable(f"it is no PDF that can be read ({type(error).__name__})") from error


def _pages(reader: object) -> list[Block]:
    blocks: list[Block] = []
    length = 0
    for number, page in enumerate(reader.pages, 1):  # type: ignore[attr-defined]
        text = page.extract_text()
        length += len(text)
        if length > _MOST_CHARACTERS:
            raise Unreadable(f"its text has more than {_MOST_CHARACTERS:,} characters")
        for paragraph in _BLANK.split(_HYPHEN.sub("", text)):
            if line := " ".join(_LINE_END.sub(" ", paragraph).split(" ")).strip():
                blocks.append(Block(line, page=number))
    if not blocks:
        raise Unreadable("there is no text in it (pictures of text are not read)")
    return blocks
