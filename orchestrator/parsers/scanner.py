"""Reads a reply's text piece by piece, and says at once what each piece is.

The scanner is the one place that knows a reply's structure: the streamed pieces and the result at
the end come from the same steps, so they cannot disagree. Every character is looked at a bounded
number of times, however the text is cut into pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from orchestrator.parsers import tags
from orchestrator.parsers.base import ANSWER, CALL, THINKING
from orchestrator.parsers.tags import BEGUN, MAYBE, Rules, rules_of

_Step = Callable[["Scanner", int, int, str], None]
_NOTHING: tuple[tuple[str, str], ...] = ()

# What a piece of the reply's text was taken for (`outside`, `thinking`, `answer`, `source`, `call`,
# `ignored` or `tag`), its first character in the whole text, and one past its last.
Piece = tuple[str, int, int]


@dataclass(slots=True, eq=False, repr=False)
class Invoke:
    """One call of a reply: its opening tag, and where its body lies in the text."""

    tag: str
    start: int
    end: int
    closed: bool = False  # whether a tag ended it, and not the end of the reply


def _step_into(state: str) -> _Step:
    def enter(scanner: Scanner, start: int, end: int, tag: str) -> None:
        scanner._enter(state)

    return enter


def _step_note(text: str) -> _Step:
    def note(scanner: Scanner, start: int, end: int, tag: str) -> None:
        scanner._note(text)

    return note


class Scanner:
    """Reads one reply."""

    __slots__ = (
        *("_around", "_blanks", "_counted", "_end", "_fed", "_flows", "_from", "_held", "_lead"),
        *("_output", "_rules", "_source", "_space", "_spoken", "_states", "answer", "invokes"),
        *("notes", "parts", "pieces", "start", "unclosed", "verdict"),
    )

    def __init__(self, stage: str) -> None:
        self._states = rules_of(stage)
        self._rules: Rules = self._states[tags.OUTSIDE]
        self._around = tags.OUTSIDE  # the state that a quoted value stands in
        self._fed: list[str] = []
        self._counted = self._end = 0  # pieces of `_fed`, and their characters
        self._held = ""
        self._from = 0
        self._space = ""  # at the end of the last piece of the answer
        self._blanks: list[str] = []  # pieces of white space after it
        self._lead: str | None = ""
        self._flows = False  # whether text without "<" is the answer's, and nothing is held back
        self._source: list[str] | None = None
        self._spoken = False
        self._output: list[tuple[str, str]] = []
        # `ANSWER` or `CALL`, as the last structural tag decided; empty without one.
        self.verdict = ""
        self.start = 0  # of the text that the verdict is about; thinking lies before it
        self.invokes: list[Invoke] = []  # the calls, when the verdict is `CALL`
        self.answer: list[str] = []  # its pieces, as they were streamed
        # Parts of the answer with sources: index of the first piece in `answer`, source ids.
        self.parts: list[tuple[int, list[str]]] = []
        self.pieces: list[Piece] = []  # complete after `close`
        self.unclosed = -1  # where thinking began that was never closed
        self.notes: list[str] = []

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece; see `orchestrator.parsers.base.Parser.feed`."""
        # In an answer only tags mean something, and all of them begin with "<". Most tokens are of
        # this kind: they are taken as `_say` does, without the calls.
        if self._flows and "<" not in text and (body := text.rstrip()):
            self._fed.append(text)
            piece = self._space + body
            self._space = text[len(body) :]
            self.answer.append(piece)
            return ((ANSWER, piece),)
        if not text:
            return _NOTHING
        self._fed.append(text)
        if "<" in text or self._held:
            return self._scan(text)
        kind = self._rules.kind
        if kind == ANSWER:
            piece = self._say(text)
            self._note_flow()
            return ((ANSWER, piece),) if piece else _NOTHING
        if kind == THINKING or (kind == CALL and self._rules.plain):
            return ((kind, text),)
        if kind == "ignored" or (kind == "outside" and self._spoken):
            return _NOTHING
        return self._scan(text)

    @property
    def length(self) -> int:
        """Characters that were read."""
        new = self._fed[self._counted :]
        self._counted += len(new)
        self._end += sum(map(len, new))
        return self._end

    def close(self) -> str:
        """Ends the text and returns it whole. A tag cut off at its end is dropped."""
        length = self.length
        self._close_invoke(length)
        if self._source is not None:
            self._end_source()
        self._mark(self._rules.kind, length - len(self._held))
        if self._held:
            self._mark("tag", length)
            self._held = ""
        return "".join(self._fed)

    def outside(self, text: str) -> str:
        """What of the whole `text` is neither thinking nor anything else that has tags."""
        return "".join(
            text[start:end] for kind, start, end in self.pieces if kind == "outside"
        ).strip()

    def _scan(self, text: str) -> Sequence[tuple[str, str]]:
        text = self._held + text
        base = self.length - len(text)
        pieces: list[tuple[str, str]] = []
        self._output = pieces
        taken = position = 0
        while True:
            rules = self._rules
            found = rules.pattern.search(text, position)
            if found is None:
                cut = len(text)
                break
            start, position = found.span()
            if found.lastgroup in BEGUN:
                cut = start
                break
            step = rules.step_of(found)
            if step in MAYBE:
                follows = MAYBE[step](text, position)
                if follows is None:
                    cut = start
                    break
                if not follows:
                    continue
                step = MAYBE[step].step
            if start > taken:
                self._take(text[taken:start])
            self._tag(step, base + start, base + position, found[0])
            taken = position
        self._held = text[cut:]
        if cut > taken:
            self._take(text[taken:cut])
        self._note_flow()
        return pieces

    def _note_flow(self) -> None:
        is_begun = self._lead is None and not self._blanks
        self._flows = is_begun and not self._held and self._rules.kind == ANSWER

    def _take(self, text: str) -> None:
        kind = self._rules.kind
        if kind == ANSWER:
            if piece := self._say(text):
                self._output.append((ANSWER, piece))
        elif kind == THINKING or kind == CALL:
            self._output.append((kind, text))
        elif kind == "outside":
            self._spoken = self._spoken or not text.isspace()
        elif self._source is not None:
            self._source.append(text)

    def _say(self, text: str) -> str:
        """Takes a text of the answer; returns what may be shown now.

        White space is held back until it is known to be inside the answer.
        """
        body = text.rstrip()
        if self._lead is not None:
            begun = body.lstrip()
            if not begun:
                return ""
            piece, self._lead = self._lead + begun, None
        elif not body:
            self._blanks.append(text)
            return ""
        else:
            piece = "".join((self._space, *self._blanks, body))
            self._blanks.clear()
        self._space = text[len(body) :]
        self.answer.append(piece)
        return piece

    def _mark(self, kind: str, end: int) -> None:
        if end > self._from:
            self.pieces.append((kind, self._from, end))
            self._from = end

    def _tag(self, step: str, start: int, end: int, tag: str) -> None:
        rules = self._rules
        if step in tags.INSIDE_VALUES:
            self._STEPS[step](self, start, end, tag)
            self._output.append((CALL, tag))
            return
        stray = step == "thought" and rules.state == tags.OUTSIDE
        # Thinking that began in a prefill has only its closing tag.
        self._mark(THINKING if stray else rules.kind, start)
        self._STEPS[step](self, start, end, tag)
        self._mark("tag", end)
        if self._rules.kind == CALL or step == "calls_end":
            self._output.append((CALL, tag))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _enter(self, state: str) -> None:
        self._rules = self._states[state]

    def _begin_thinking(self, start: int, end: int, tag: str) -> None:
        self.unclosed = end
        self._enter(tags.THINKING)

    def _end_thinking(self, start: int, end: int, tag: str) -> None:
        self.unclosed = -1
        self._enter(tags.OUTSIDE)

    def _answer(self, start: int, end: int, tag: str) -> None:
        if self.verdict == CALL:
            self._close_invoke(start)
            self.invokes.clear()
            self._note("an answer follows the calls: they are not carried out")
        self._begin(ANSWER, start)
        self._enter(tags.ANSWER)

    def _stray_close(self, start: int, end: int, tag: str) -> None:
        # The answer's opening tag was in a prefill: what was read until now is the answer.
        if self._spoken:
            self._enter(tags.DONE)

    def _close(self, start: int, end: int, tag: str) -> None:
        self._end_source()
        self._enter(tags.DONE)

    def _part(self, start: int, end: int, tag: str) -> None:
        if self.verdict != ANSWER:
            self._answer(start, end, tag)
        self._end_source()
        if not self.parts:
            self.parts.append((0, []))
        if len(self.answer) > self.parts[-1][0] or self.parts[-1][1]:
            self.parts.append((len(self.answer), []))
        self._segment(start, end, tag)

    def _segment(self, start: int, end: int, tag: str) -> None:
        self._break()
        self._enter(tags.PARTS)

    def _break(self) -> None:
        # The pieces on both sides of a tag are separated, and the space beside it is dropped.
        self._space = ""
        self._blanks.clear()
        self._lead = " " if self.answer else ""

    def _sources(self, start: int, end: int, tag: str) -> None:
        if not self.parts:
            self.parts.append((0, []))
        self._source = []
        self._enter(tags.SOURCES)

    def _next_source(self, start: int, end: int, tag: str) -> None:
        self._end_source()
        self._source = []

    def _end_source(self) -> None:
        name = "".join(self._source or ()).strip()
        self._source = None
        if name:
            self.parts[-1][1].append(name)

    def _sources_end(self, start: int, end: int, tag: str) -> None:
        self._end_source()
        self._segment(start, end, tag)

    def _calls(self, start: int, end: int, tag: str) -> None:
        if self.verdict == ANSWER:
            self._note("calls follow the answer: they are carried out")
        if self.verdict != CALL:
            self._begin(CALL, start)
        self._enter(tags.CALLS)

    def _invoke(self, start: int, end: int, tag: str) -> None:
        if self.verdict != CALL:
            self._begin(CALL, start)
            self._note("calls without <function_calls>")
        self._close_invoke(start)
        self.invokes.append(Invoke(tag, end, -1))
        self._enter(tags.INVOKE)

    def _close_invoke(self, end: int, *, closed: bool = False) -> None:
        if self.invokes and self.invokes[-1].end < 0:
            self.invokes[-1].end, self.invokes[-1].closed = end, closed

    def _invoke_end(self, start: int, end: int, tag: str) -> None:
        self._close_invoke(start, closed=True)
        self._enter(tags.CALLS)

    def _function(self, start: int, end: int, tag: str) -> None:
        self._calls(start, end, tag)
        self._close_invoke(start)
        self.invokes.append(Invoke(tag, end, -1))
        self._enter(tags.FUNCTION)

    def _quote(self, start: int, end: int, tag: str) -> None:
        self._around = self._rules.state
        self._enter(tags.QUOTED if tag[-1] == '"' else tags.APOSTROPHE)

    def _unquote(self, start: int, end: int, tag: str) -> None:
        self._enter(self._around)

    def _pass(self, start: int, end: int, tag: str) -> None:
        pass  # it is read as a whole, so that no part of it means something

    def _calls_end(self, start: int, end: int, tag: str) -> None:
        self._close_invoke(start)
        self._enter(tags.OUTSIDE)

    def _results(self, start: int, end: int, tag: str) -> None:
        if self.verdict == CALL:
            self._close_invoke(start, closed=True)
            self._note("the model wrote results of its own calls: they are ignored")
            self._enter(tags.CUT)

    def _begin(self, verdict: str, start: int) -> None:
        if verdict == ANSWER and self.answer:
            self._break()
        self.verdict = verdict
        self.start = start

    _STEPS: ClassVar[dict[str, _Step]] = {
        "again": _step_note("a second answer tag inside the answer was dropped"),
        "answer": _answer,
        "arguments": _step_into(tags.ARGUMENTS),
        "calls": _calls,
        "calls_end": _calls_end,
        "cdata": _step_into(tags.CDATA),
        "cdata_end": _step_into(tags.VALUES),
        "close": _close,
        "function": _function,
        "function_end": _invoke_end,
        "invoke": _invoke,
        "invoke_end": _invoke_end,
        "json": _step_into(tags.JSON),
        "name": _step_into(tags.NAME),
        "named": _step_into(tags.NAMED),
        "part": _part,
        "part_end": _part,
        "pass": _pass,
        "quote": _quote,
        "results": _results,
        "segment": _segment,
        "source": _next_source,
        "sources": _sources,
        "sources_end": _sources_end,
        "stray": _step_note("markup of a call beside native tool use was removed"),
        "stray_close": _stray_close,
        "think": _begin_thinking,
        "thought": _end_thinking,
        "unnamed": _step_into(tags.INVOKE),
        "unquote": _unquote,
        "values": _step_into(tags.VALUES),
        "values_end": _step_into(tags.INVOKE),
    }
