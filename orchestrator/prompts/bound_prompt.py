"""One turn's prompt of one stage: filled once, then steps are only added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.message import Message, Span, Text
from orchestrator.prompts.markers import Markers, Piece, end_of

if TYPE_CHECKING:
    from orchestrator.prompts.dialect import Dialect

# The placeholders that stand for messages.
HISTORY, SCRATCHPAD = "conversation_history", "agent_scratchpad"


class BoundPrompt:
    """One turn's prompt of one stage: filled once, then steps are only appended.

    With `raw_text` it is one text, for a text-completion model.
    """

    __slots__ = ("_bind_steps", "_head", "_tail", "raw_text", "system")

    def __init__(
        self,
        system: Text,
        head: list[Message],
        tail: Sequence[Message],
        *,
        raw_text: bool = False,
        bind_steps: Callable[[Sequence[Message]], BoundPrompt] | None = None,
    ) -> None:
        self.system = system
        self.raw_text = raw_text
        self._head = head
        self._tail = tail
        self._bind_steps = bind_steps

    def messages(self, scratchpad: Sequence[Message] = ()) -> list[Message]:
        """The conversation to send, with the steps of this turn in their place.

        Costs a copy of pointers: no message is filled, copied or encoded again. The exception is a
        template that has `$agent_scratchpad$` inside a text: that text is joined anew, of steps
        that were each written once.
        """
        if self._bind_steps is not None and scratchpad:
            bound = self._bind_steps(scratchpad)
            return join_messages(bound._head, bound._tail)
        head, tail = self._head, self._tail
        if not tail and scratchpad and head and head[-1]["role"] == "user":
            return [*head, *scratchpad]  # as in most steps; the first is the assistant's
        return join_messages(head, scratchpad, tail)


class ScratchpadText:
    """The steps of one turn as text. Each message is rendered once, when it is first seen."""

    __slots__ = ("_before", "_dialect", "_end", "_markers", "_seen", "_texts")

    def __init__(self, dialect: Dialect, before: str = "", markers: Markers | None = None) -> None:
        """`before` is the prompt's text up to the steps, which may not form one of the marks."""
        self._dialect = dialect
        self._before = self._end = end_of(before)
        self._markers = markers
        self._seen: list[Message] = []
        self._texts: list[str] = []

    def text(self, scratchpad: Sequence[Message]) -> str:
        """The text of all steps; a shorter or an entirely other scratchpad is fine, too."""
        known = min(len(self._seen), len(scratchpad))
        if known and scratchpad[known - 1] is not self._seen[known - 1]:
            self._seen, self._texts, known = [], [], 0
            self._end = self._before
        for message in scratchpad[known:]:
            text = self._dialect.step_text(message)
            if self._markers is not None:
                text = self._markers.break_marks_after(self._end, text)
                self._end = end_of(self._end + text)
            self._texts.append(text)
            self._seen.append(message)
        return "".join(self._texts[: len(scratchpad)])


class BoundTextPrompt(BoundPrompt):
    """A raw text prompt, as text-completion models take it: one text that ends where they go on."""

    __slots__ = ("_after", "_before", "_markers", "_steps")

    def __init__(self, before: list[Piece], after: list[Piece], dialect: Dialect) -> None:
        super().__init__(Text(), [], [], raw_text=True)
        self._markers = dialect.markers
        pieces = self._markers.break_marks([*before, *after])
        self._before, self._after = pieces[: len(before)], pieces[len(before) :]
        text_before = "".join([text for _, text in self._before])
        self._steps = ScratchpadText(dialect, text_before, self._markers)

    def messages(self, scratchpad: Sequence[Message] = ()) -> list[Message]:
        """The prompt as one user message.

        Costs joining its text: each step was rendered once, when it was first seen.
        """
        after = self._after
        steps = self._steps.text(scratchpad) if scratchpad else ""
        # A mark could begin at the end of the steps and end in the template's text.
        if steps and after:
            steps, after = self._markers.break_marks_at_end(steps, after)
        pieces = [*self._before, (SCRATCHPAD, steps), *after]
        text = "".join([piece for _, piece in pieces])
        return [Message("user", [{"text": text}], partial(spans_of, pieces))]


def join_messages(head: Sequence[Message], *others: Sequence[Message]) -> list[Message]:
    """The messages of all, in a new list; neighbours of one role are merged."""
    messages = [*head]
    for more in others:
        if more:
            if messages and messages[-1]["role"] == more[0]["role"]:
                append_message(messages, more[0])
                more = more[1:]
            messages += more
    return messages


def append_message(messages: list[Message], message: Message) -> None:
    """Appends `message`, as part of the last one when that has the same role."""
    if messages and messages[-1]["role"] == message["role"]:
        last = messages[-1]
        content = [*last["content"], *message["content"]]
        messages[-1] = Message(message["role"], content, partial(_merge_spans, last, message))
    else:
        messages.append(message)


def _merge_spans(first: Message, second: Message) -> tuple[Span, ...]:
    shift = len(first["content"])
    return first.spans + tuple(span._replace(block=span.block + shift) for span in second.spans)


def spans_of(pieces: Sequence[tuple[str, str]], block: int = 0) -> tuple[Span, ...]:
    """Who wrote which characters of the joined `pieces`."""
    spans, start = [], 0
    for origin, text in pieces:
        if text:
            spans.append(Span(block, start, start + len(text), origin))
            start += len(text)
    return tuple(spans)
