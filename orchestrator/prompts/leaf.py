"""One text of a template, cut once into fixed pieces and placeholders, then only joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.message import AUTHOR, Span
from orchestrator.prompts.placeholders import Status, lookup, scan, status

__all__ = ["Leaf", "Use"]


class Use(NamedTuple):
    """One use of a placeholder in a template.

    Attributes:
        name: The name between the dollar signs.
        status: What the name is in this stage and dialect (see `placeholders.status`).
        literal: Whether it stays in the text as it is.
        offset: Where it stands in its leaf's text.
        line: Line in the template, from 1.
        column: Column in the template, from 1.
    """

    name: str
    status: Status
    literal: bool
    offset: int
    line: int = 0
    column: int = 0


class Leaf:
    """A text of the template with holes for values.

    Attributes:
        names: The placeholders to fill, in order; a name may occur twice.
        uses: Everything that looks like a placeholder.
        text: The author's text.
    """

    __slots__ = ("_pieces", "names", "text", "uses")

    def __init__(self, text: str, stage: str, protocol: str) -> None:
        self.text = text
        pieces, names, uses, last = [], [], [], 0
        for start, end, name in scan(text, stage):
            literal = lookup(name, stage) is None
            uses.append(Use(name, status(name, stage, protocol), literal, start))
            if not literal:
                pieces += [text[last:start], ""]
                names.append(name)
                last = end
        self._pieces = [*pieces, text[last:]]
        self.names = tuple(names)
        self.uses = tuple(uses)

    @property
    def only(self) -> str:
        """The placeholder that is the whole text but for white space; empty when there is none."""
        if len(self.names) == 1 and not (self._pieces[0] + self._pieces[2]).strip():
            return self.names[0]
        return ""

    def parts(self, values: Mapping[str, str]) -> list[str]:
        """The pieces in order, the author's at even places; a value that is absent is empty."""
        parts = self._pieces.copy()
        parts[1::2] = [values.get(name, "") for name in self.names]
        return parts

    def spans(self, parts: Sequence[str], block: int = 0) -> list[Span]:
        """Who wrote which characters of the joined `parts`."""
        spans, start = [], 0
        for index, part in enumerate(parts):
            if part:
                origin = self.names[index // 2] if index % 2 else AUTHOR
                spans.append(Span(block, start, start + len(part), origin))
                start += len(part)
        return spans
