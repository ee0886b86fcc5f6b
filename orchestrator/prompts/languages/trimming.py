"""White space at the ends of what an author wrote."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.message import AUTHOR
from orchestrator.prompts.markers import Piece

__all__ = ["strip_pieces"]


def strip_pieces(pieces: Sequence[Piece], chars: str | None = None) -> list[Piece]:
    """Pieces without the author's white space at both ends; what values say is not touched.

    Args:
        pieces: Who wrote each, and its text.
        chars: The characters to take away, as for `str.strip`.
    """
    made = list(pieces)
    while made and made[0][0] == AUTHOR:
        text = made[0][1].lstrip(chars)
        if text:
            made[0] = AUTHOR, text
            break
        del made[0]
    while made and made[-1][0] == AUTHOR:
        text = made[-1][1].rstrip(chars)
        if text:
            made[-1] = AUTHOR, text
            break
        del made[-1]
    return made
