"""Reads a reply whose sentences are checked before they are shown."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.models.base import CallFormat
from orchestrator.models.tool_calls import CALL_CLOSE, CALL_OPEN, ReplyReader, render_call
from orchestrator.support.sentences import SENTENCE_END

_MARKS = ".!?。！？"
# Characters that are held back while a sentence does not end.
_MOST_HELD = 2000


class CheckedReader(ReplyReader):
    """A `ReplyReader` that holds each sentence back until it is whole and a check lets it pass.

    What comes after a sentence that does not pass is never shown.

    Attributes:
        withheld: The sentence that did not pass and all after it; empty when all passed.
        is_empty: Whether nothing of the text has been shown.
    """

    def __init__(self, form: CallFormat, check: Callable[[str], bool] | None = None) -> None:
        """Begins a reply; `check` says whether a sentence may be shown, by default each piece."""
        super().__init__(form)
        self._check = check
        self._held = ""
        self.withheld = ""
        self.is_empty = True

    def feed(self, piece: str) -> str:
        """Takes the next piece; returns the whole sentences to show now."""
        if self.raw or (self.is_empty and not self._held and piece.startswith("<")):
            return super().feed(piece)
        if self._check is None:
            return self.show(piece)
        self._held += piece
        if not piece.strip(_MARKS) and len(self._held) <= _MOST_HELD:
            return ""
        ends = [found.end() for found in SENTENCE_END.finditer(self._held)]
        # A mark at the end of what is known may go on: `3.` to `3.5`.
        end = max((end for end in ends if end < len(self._held)), default=0)
        if not end and len(self._held) > _MOST_HELD:
            end = len(self._held)
        return self._release(end)

    def finish(self) -> str:
        """Ends the reply; returns what is left to show."""
        return self._release(len(self._held))

    def _release(self, end: int) -> str:
        whole, self._held = self._held[:end], self._held[end:]
        if self.withheld:
            self.withheld += whole
            return ""
        shown = ""
        while whole and not self.withheld:
            found = SENTENCE_END.search(whole)
            size = found.end() if found else len(whole)
            if self._check is None or self._check(whole[:size]):
                shown, whole = shown + whole[:size], whole[size:]
            else:
                self.withheld = whole
        return self.show(shown)

    def show(self, text: str) -> str:
        """Takes a text without checking it; returns what to show."""
        if not text:
            return ""
        self.is_empty = False
        return super().feed(text)

    def replace_call(self, name: str, arguments: dict[str, object]) -> None:
        """Has the reply be this call."""
        self.raw = CALL_OPEN + render_call(name, arguments) + CALL_CLOSE
