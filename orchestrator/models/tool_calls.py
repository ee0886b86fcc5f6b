"""Tool calls as text, as open chat models were trained, from and to Converse's blocks.

The embedded model reads and writes plain text when it answers, and else

```
<tool_call>
{"name": "group__function", "arguments": {"id": "7"}}
</tool_call>
<tool_response>
what the function returned
</tool_response>
```

Only the template's author writes such tags: in what a user, a function or the model itself wrote,
they are encoded, so that nobody's text ends a result or begins another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import AUTHOR, Block, Message, Span, Text, text_of
from orchestrator.models.base import CallFormat
from orchestrator.models.grounds import render_result
from orchestrator.support.invisible import BREAKS, SPACES, UNSEEN
from orchestrator.support.safe_json import json_or
from orchestrator.support.words import drop_http_verb

CALL_OPEN, CALL_CLOSE = "<tool_call>\n", "\n</tool_call>"
# A capital letter in the middle of a sentence.
_NAME = re.compile(r"(?<=[a-z,;:] )[^\W\d_a-z]\w+")
RESULT_OPEN, RESULT_CLOSE = "<tool_response>\n", "\n</tool_response>"
ANSWER, ANSWER_CLOSE = "<answer>", "</answer>"
# What begins one of the tags, also in the ways in which models take it for one: with white space
# around the slash, and with what nobody sees between any two of its letters.
_GAP = f"[{BREAKS}{SPACES}{UNSEEN}]*+"
_NAMES = "|".join(f"[{UNSEEN}]*+".join(name) for name in ("tools", "tool_call", "tool_response"))
_TAG = re.compile(f"<(?={_GAP}(?:/{_GAP})?({_NAMES})(?!\\w))", re.IGNORECASE)


def system_text(system: str) -> str:
    """The system prompt as the model reads it."""
    # Nothing is known of who wrote one without spans: whoever asks the model by themselves.
    return encode_values(system, system.spans) if isinstance(system, Text) else system


def turns(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """The messages as (role, text), consecutive ones of the same role joined."""
    joined: list[tuple[str, str]] = []
    for message in messages:
        role = message["role"]
        text = "\n".join([_text(message, index) for index in range(len(message["content"]))])
        if joined and joined[-1][0] == role:
            text = f"{joined.pop()[1]}\n{text}"
        joined.append((role, text))
    return joined


def encode_values(text: str, spans: Sequence[Span]) -> str:
    """`text` with the tags encoded that its author did not write; all of them without `spans`."""
    authors = [span for span in spans if span.origin == AUTHOR]

    def encode(found: re.Match[str]) -> str:
        at = found.start()
        return (
            "<" if any(one.start <= at and found.end(1) <= one.end for one in authors) else "&lt;"
        )

    return _TAG.sub(encode, text)


def _text(message: Message, index: int) -> str:
    block = message["content"][index]
    if "text" in block:
        text: str = block["text"]
        if _TAG.search(text):
            spans = getattr(message, "spans", ())
            text = encode_values(text, [span for span in spans if span.block == index])
        if message["role"] == "assistant":
            text = text.removeprefix(ANSWER).removesuffix(ANSWER_CLOSE)
        return text
    if "toolUse" in block:
        use = block["toolUse"]
        call = render_call(use["name"], use["input"])
        return CALL_OPEN + _TAG.sub(r"\\u003c", call) + CALL_CLOSE
    if "toolResult" in block:
        return RESULT_OPEN + encode_values(render_result(block), ()) + RESULT_CLOSE
    raise ValidationError(
        f"the embedded model takes text, calls and results, and a message has {', '.join(block)!r}"
    )


def render_call(name: str, arguments: Any) -> str:
    """A call as the model writes it, character for character: the prompt cache depends on it."""
    call = {"name": drop_http_verb(name), "arguments": arguments}
    return json.dumps(call, ensure_ascii=False)


def is_asked_by_name(messages: Sequence[Message]) -> bool:
    """Whether the turn starts here and the user names somebody or something."""
    last = messages[-1]
    return all("text" in block for block in last["content"]) and bool(
        _NAME.search(text_of(last["content"]))
    )


class ReplyReader:
    """Splits a reply as it is decoded: what to show at once, and the blocks at last."""

    def __init__(self, form: CallFormat | None) -> None:
        """Begins a reply; without a `form` it is text and nothing else."""
        self._marked = form is not None and not form.choices
        self._names = (
            {drop_http_verb(one.name): one.name for one in form.operations} if form else {}
        )
        self._text = ""
        self.raw = ""  # what the model wrote of a call

    def feed(self, piece: str) -> str:
        """Takes the next piece; returns the text to show now, which may be empty."""
        if self.raw or (not self._text and self._marked and piece.startswith("<")):
            self.raw += piece
            return ""
        if self._marked and not self._text:
            piece = ANSWER + piece
        self._text += piece
        return piece

    def blocks(self, id: str) -> list[Block] | None:
        """The reply's content blocks, or `None` when a call was cut; `id` is the call's."""
        if not self.raw:
            return [{"text": self._text}] if self._text else []
        if self.call is None:
            return None
        name, arguments = self.call
        return [{"toolUse": {"toolUseId": id, "name": name, "input": arguments}}]

    @property
    def call(self) -> tuple[str, dict[str, Any]] | None:
        """The name and the arguments of the call, when the reply is a whole one."""
        body = self.raw.strip().removeprefix(CALL_OPEN.strip()).removesuffix(CALL_CLOSE.strip())
        try:
            call = json_or(body, None)
            return self._names.get(call["name"], call["name"]), dict(call["arguments"])
        except (ValueError, KeyError, TypeError):
            return None
