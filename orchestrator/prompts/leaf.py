"""One text of a template, cut once into fixed pieces and placeholders, then only joined."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from orchestrator.message import AUTHOR, Span
from orchestrator.prompts.placeholders import Status, lookup, scan, status


class Use(NamedTuple):
    """One use of a placeholder in a template.

    Its line and column, from 1, are those of the template; the offset is that in its leaf's text.
    A literal one stays in the text as it is.
    """

    name: str
    status: Status
    literal: bool
    offset: int
    line: int = 0
    column: int = 0


class Leaf:
    """A text of the template with holes for values.

    `names` are the placeholders to fill, in order, some of them twice; `uses` is everything that
    looks like a placeholder.
    """

    __slots__ = ("_runs", "_texts", "names", "text", "uses")

    def __init__(self, text: str, stage: str, family: str) -> None:
        self.text = text
        runs, names, uses, last = [], [], [], 0
        for start, end, name in scan(text, stage):
            literal = lookup(name, stage) is None
            uses.append(Use(name, status(name, stage, family), literal, start))
            if not literal:
                runs.append([(AUTHOR, text[last:start])])
                names.append(name)
                last = end
        self.uses = tuple(uses)
        self._set([*runs, [(AUTHOR, text[last:])]], names)

    @classmethod
    def of(cls, pieces: Sequence[tuple[str, str]], holes: Collection[str]) -> Leaf:
        """A leaf of origins and texts; the pieces whose origin is in `holes` are to be filled."""
        leaf = cls.__new__(cls)
        leaf.text, leaf.uses = "".join([text for _, text in pieces]), ()
        runs: list[list[tuple[str, str]]] = [[]]
        names = []
        for origin, text in pieces:
            if origin in holes:
                names.append(origin)
                runs.append([])
            else:
                runs[-1].append((origin, text))
        leaf._set(runs, names)
        return leaf

    def _set(self, runs: list[list[tuple[str, str]]], names: list[str]) -> None:
        # A run is what stands between two holes: origins and texts. Runs are joined once, here.
        self._runs = runs
        self.names = tuple(names)
        self._texts = [""] * (2 * len(runs) - 1)
        self._texts[::2] = ["".join([text for _, text in run]) for run in runs]

    def fill_fixed(self, values: Mapping[str, str]) -> Leaf:
        """The leaf with these values filled in, once and for all."""
        leaf = Leaf.__new__(Leaf)
        leaf.text, leaf.uses = self.text, self.uses
        runs, names = [list(self._runs[0])], []
        for name, run in zip(self.names, self._runs[1:], strict=True):
            if name in values:
                runs[-1] += [(name, values[name]), *run]
            else:
                names.append(name)
                runs.append(list(run))
        leaf._set(runs, names)
        return leaf

    @property
    def only(self) -> str:
        """The placeholder that is the whole text but for white space; empty when there is none."""
        if len(self.names) == 1 and not (self._texts[0] + self._texts[2]).strip():
            return self.names[0]
        return ""

    def parts(self, values: Mapping[str, str]) -> list[str]:
        """The pieces in order, values at odd places; a value that is absent is empty."""
        # The hot path of every prompt: a copy of pointers and one lookup a placeholder.
        parts = self._texts.copy()
        at = 1
        for name in self.names:
            parts[at] = values.get(name, "")
            at += 2
        return parts

    def pieces(self, parts: Sequence[str]) -> list[tuple[str, str]]:
        """The joined `parts`, cut where another wrote: origins and texts."""
        pieces: list[tuple[str, str]] = []
        for index, part in enumerate(parts):
            if index % 2:
                pieces.append((self.names[index // 2], part))
            else:
                pieces += self._runs[index // 2]
        return pieces

    def spans(self, parts: Sequence[str], block: int = 0) -> tuple[Span, ...]:
        """Who wrote which characters of the joined `parts`."""
        return spans_of(self.pieces(parts), block)


def spans_of(pieces: Sequence[tuple[str, str]], block: int = 0) -> tuple[Span, ...]:
    """Who wrote which characters of the joined `pieces`."""
    spans, start = [], 0
    for origin, text in pieces:
        if text:
            spans.append(Span(block, start, start + len(text), origin))
            start += len(text)
    return tuple(spans)
