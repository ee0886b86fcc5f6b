"""What a template of another language comes to every time: messages with holes for the values.

Such a template is rendered for every prompt, with marks for who wrote what. Where it shows texts as
they are (`Document.straight`), that comes to the same messages every time. So it is rendered once,
with a text for each value that nobody can know, and the messages that come of it have holes where
these texts stand, as those of a template of Bedrock's have.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence

from orchestrator.message import Message
from orchestrator.prompts.leaf import Leaf
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.template import Slot

__all__ = ["NotStraight", "leaf_of", "marks_of", "slot_of"]


class NotStraight(Exception):
    """A value is somewhere else than in a text, or not as it was given."""


def marks_of(names: Iterable[str]) -> dict[str, str]:
    """A text for each value, which nobody can know."""
    return {name: secrets.token_hex(16) for name in names}


def leaf_of(pieces: Sequence[Piece], marks: Mapping[str, str]) -> Leaf | None:
    """A text with holes where the marks stand; `None` for no text.

    Args:
        pieces: Who wrote each, and its text.
        marks: The values' marks, by name.

    Raises:
        NotStraight: A mark was changed, or joined to other texts.
    """
    holes = {name for name, mark in marks.items() if mark}
    for origin, text in pieces:
        if text != marks.get(origin) and any(mark and mark in text for mark in marks.values()):
            raise NotStraight
        if origin in holes and text != marks[origin]:
            raise NotStraight
    return Leaf.of(pieces, holes) if any(text for _, text in pieces) else None


def slot_of(slot: Slot, marks: Mapping[str, str]) -> Slot:
    """A place in the conversation, with holes where the marks stand.

    Args:
        slot: The place, rendered.
        marks: The values' marks, by name.

    Raises:
        NotStraight: A mark is somewhere else than in a text, or was changed.
    """
    message = slot.fixed
    if message is None or not any(mark and mark in repr(message) for mark in marks.values()):
        return slot
    if any("text" not in block for block in message["content"]):
        raise NotStraight
    leaves = [leaf_of(list(pieces), marks) for pieces in _pieces(message)]
    return Slot(slot.role, tuple(one for one in leaves if one is not None))


def _pieces(message: Message) -> Iterator[Iterator[Piece]]:
    for at, block in enumerate(message["content"]):
        spans = [span for span in message.spans if span.block == at]
        yield ((span.origin, block["text"][span.start : span.end]) for span in spans)
