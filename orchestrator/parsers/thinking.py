"""The model's thinking: where it begins and ends in a reply (recorded from the service).

It is greedy: everything from the first `<thinking>` to the last `</thinking>` before the answer
or the calls, with whatever the model wrote in between. A missing opening tag (the prompt had a
prefill) means from the start; a missing closing tag means to the end.
"""

from __future__ import annotations

import re

_OPEN = re.compile(r"<(?:thinking|think|scratchpad)(?:[ \t\r\n][^<>]{0,256})?>", re.I | re.A)
_CLOSE = re.compile(r"</(?:thinking|think|scratchpad)[ \t\r\n]{0,256}>", re.I | re.A)


def span_of(text: str, end: int) -> tuple[int, int] | None:
    """Where the thinking in `text[:end]` begins and ends; `None` when there is none."""
    # The usual case is one exact pair of tags, found without a regular expression.
    if text.startswith("<thinking>"):
        close = text.rfind("</thinking>", 10, end)
        if close >= 0 and text.find("</", close + 1, end) < 0:
            return 10, close
    opened = _OPEN.search(text, 0, end)
    closes = list(_CLOSE.finditer(text, 0, end))
    if opened is None:
        return (0, closes[-1].start()) if closes else None
    start = opened.end()
    if closes and closes[0].start() < opened.start():
        start = 0
    if closes and closes[-1].start() >= start:
        return start, closes[-1].start()
    return start, end


def thinking_of(text: str, end: int) -> str:
    """The thinking in `text[:end]`, trimmed; empty when there is none."""
    span = span_of(text, end)
    return text[span[0] : span[1]].strip() if span else ""
