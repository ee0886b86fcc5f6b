"""PDF into blocks: the text of each page, with its number."""

from __future__ import annotations

import io
import re
import time
from typing import TYPE_CHECKING, Any

from orchestrator.knowledge.blocks import Block, Unreadable

if TYPE_CHECKING:
    from pypdf import PdfReader

# A PDF can be made to cost very much, so every bound is checked while it is read.
_MOST_PAGES = 5_000
_MOST_CHARACTERS = 20_000_000
# A small file has little to read: what takes long is drawn again and again.
_MOST_OPERATORS, _OPERATORS_A_BYTE = 2_000_000, 2
_MOST_SECONDS, _SECONDS_A_BYTE = 15.0, 30e-6
# Of one stream, table or page: what the library bounds itself, and more tightly than by default.
_BOUNDS: dict[str, Any] = {
    "lzw_maximum_output_length": 2**25,
    "run_length_maximum_output_length": 2**25,
    "zlib_maximum_output_length": 2**25,
    "array_based_stream_maximum_output_length": 2**25,
    "dictionary_maximum_element_count": 10_000,
    "page_tree_maximum_entries": 2 * _MOST_PAGES,
    "stream_decoding_work_maximum_length": 2**27,
    "stream_parsing_work_maximum_count": 1_000_000,
}
_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_LINE_END = re.compile(r"(?<![.:!?])\n(?=\S)")
_BLANK = re.compile(r"\n\s*\n")


_now = time.monotonic


class _LimitExceeded(BaseException):
    # Not an `Exception`: the library goes on after those, as it does after broken parts.
    pass


def pdf_blocks(data: bytes) -> list[Block]:
    """The paragraphs of a PDF; pictures of text are not read.

    Raises:
        Unreadable: It is encrypted, broken or too large, or takes too long.
    """
    from pypdf import PdfReader, apply_configuration

    try:
        with apply_configuration(**_BOUNDS):
            return _pages(PdfReader(io.BytesIO(data)), _Work(len(data)))
    except (Unreadable, MemoryError):
        raise
    except _LimitExceeded as error:
        raise Unreadable(str(error)) from None
    except Exception as error:  # a broken file makes the parser raise nearly anything
        raise Unreadable(f"it is no PDF that can be read ({type(error).__name__})") from error


def _pages(reader: PdfReader, work: _Work) -> list[Block]:
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("it is encrypted")
    count = len(reader.pages)
    if count > _MOST_PAGES:
        raise Unreadable(f"it has {count:,} pages, and {_MOST_PAGES:,} are read at most")
    blocks: list[Block] = []
    length = 0
    for number, page in enumerate(reader.pages, 1):
        work.check_time()
        text = page.extract_text(visitor_operand_before=work)
        length += len(text)
        if length > _MOST_CHARACTERS:
            raise Unreadable(f"its text has more than {_MOST_CHARACTERS:,} characters")
        for paragraph in _BLANK.split(_HYPHEN.sub("", text)):
            if line := " ".join(_LINE_END.sub(" ", paragraph).split(" ")).strip():
                blocks.append(Block(line, page=number))
    if not blocks:
        raise Unreadable("there is no text in it (pictures of text are not read)")
    return blocks


class _Work:
    """Counts a document's operators; a few bytes can be drawn very many times."""

    __slots__ = ("_ends", "_left", "_operators", "_seconds")

    def __init__(self, size: int) -> None:
        self._left = self._operators = _MOST_OPERATORS + _OPERATORS_A_BYTE * size
        self._seconds = _MOST_SECONDS + _SECONDS_A_BYTE * size
        self._ends = _now() + self._seconds

    def __call__(self, *_: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise _LimitExceeded(f"drawing it takes more than {self._operators:,} operators")
        if self._left % 256 == 0:
            self.check_time()

    def check_time(self) -> None:
        """Ends what takes too long."""
        if _now() > self._ends:
            raise _LimitExceeded(f"reading it takes more than {self._seconds:.0f} seconds")
