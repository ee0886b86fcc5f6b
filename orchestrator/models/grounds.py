"""What was said in a conversation, by whom: the texts that values and answers may be made of.

What the model itself said is no ground for a value: it may have been made up, and examples of a
question would be copied. What the template's author wrote, examples among it, is none either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.message import AUTHOR, Block, Message, Text, text_of
from orchestrator.models.base import ModelRequest
from orchestrator.models.user_dates import counts_from_today, find_shift, is_date

# The id of a passage that was found, as the dialect writes it: it is no value of a function.
_SOURCE = re.compile(r"<source>\n[^<\n]{1,200}\n</source>\n")
_STEP = "agent_scratchpad"  # the origin of a result that is told as text


class Grounds(NamedTuple):
    """The texts of a conversation."""

    said: tuple[str, ...] = ()  # by the user, and by whoever set the conversation up
    returned: tuple[str, ...] = ()  # by functions
    answered: tuple[str, ...] = ()  # by the model, in earlier turns
    now: str = ""  # the user's last input
    dated: Mapping[str, str] | None = None  # the dates of the last call that had some, if any
    since: tuple[str, ...] = ()  # by the user, from the question on that led to that call

    def move_dates(self) -> dict[str, str] | None:
        """The dates of that call as the last input moves them; `None` when it moves none.

        Empty when there is no call to move dates of, they cannot be moved so far, how far is not
        clear, or the input counts from the day on which it is said.
        """
        try:
            shift = find_shift(self.now)
            if shift is None:
                return {} if counts_from_today(self.now) else None
            return {name: shift.move(day) for name, day in (self.dated or {}).items()}
        except (ValueError, OverflowError):
            return {}

    @property
    def last_input(self) -> Grounds:
        """The last input alone."""
        return Grounds((self.now,), now=self.now)


NO_GROUNDS = Grounds()


def collect_grounds(request: ModelRequest) -> Grounds:
    """The texts of a request's conversation."""
    said = [*_pick_values(request.system, getattr(request.system, "spans", ()))]
    returned: list[str] = []
    answered: list[str] = []
    for message in request.messages:
        for index, block in enumerate(message["content"]):
            if "toolResult" in block:
                returned.append(_SOURCE.sub("", render_result(block)))
            elif "text" in block:
                spans = [span for span in getattr(message, "spans", ()) if span.block == index]
                texts = _pick_values(block["text"], spans)
                if message["role"] == "assistant":
                    answered += texts
                elif any(span.origin == _STEP for span in spans):
                    returned += texts
                else:
                    said += texts
    now = _find_last_input(request)
    dated, since = _find_dated_call(request.messages)
    return Grounds(tuple(said), tuple(returned), tuple(answered), now, dated, since)


def _find_dated_call(
    messages: Sequence[Message],
) -> tuple[Mapping[str, str] | None, tuple[str, ...]]:
    """The dates of the last call of earlier turns that had some, and what may be meant beside them.

    That is what the user has said from the question on that led to the call, and the dates of the
    other calls that it led to.
    """
    since: list[str] = []
    last: Mapping[str, str] | None = None
    for message in reversed(messages):
        for block in reversed(message["content"]):
            given = block["toolUse"]["input"] if since and "toolUse" in block else {}
            if dates := {name: value for name, value in given.items() if is_date(value)}:
                since += dates.values()
                last = last or dates
        if message["role"] == "user" and (text := text_of(message["content"])):
            since.append(text)
            if last:
                break
    return last, tuple(since)


def _find_last_input(request: ModelRequest) -> str:
    if request.question:
        return request.question
    inputs = (one for one in reversed(request.messages) if one["role"] == "user")
    return next((text for one in inputs if (text := text_of(one["content"]))), "")


def is_first_step(messages: Sequence[Message]) -> bool:
    """Whether the turn begins here: the last message has no results."""
    users = [message for message in messages if message["role"] == "user"]
    return bool(users) and not any("toolResult" in block for block in users[-1]["content"])


def render_result(block: Block) -> str:
    """The text of a `toolResult` block."""
    parts = block["toolResult"]["content"]
    return "\n".join(
        part["text"] if "text" in part else json.dumps(part.get("json"), ensure_ascii=False)
        for part in parts
    )


def _pick_values(text: str, spans: Sequence[Any]) -> Iterator[str]:
    if not spans and not isinstance(text, Text):
        yield text  # nothing is known of who wrote it
    for span in spans:
        if span.origin not in (AUTHOR, "tools"):
            yield text[span.start : span.end]
