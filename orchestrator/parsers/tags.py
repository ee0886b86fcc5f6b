"""Which tags mean something, where: the grammar of replies, as tables.

A reply is read by a machine with a few states. For each state a table names the tags that count
there and the step that each makes the scanner take; every other tag is text. So a tag inside a
parameter's value, or a call quoted while thinking, is never taken for structure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

__all__ = ["KINDS", "MAYBE_CALL", "Rules", "call_follows", "rules_of"]

OUTSIDE, THINKING, ANSWER, PARTS, SOURCES = "outside", "thinking", "answer", "parts", "sources"
CALLS, INVOKE, VALUES, CDATA, DONE, CUT = "calls", "invoke", "values", "cdata", "done", "cut"

KINDS: Mapping[str, str] = {
    OUTSIDE: "outside",
    THINKING: "thinking",
    ANSWER: "answer",
    PARTS: "answer",
    SOURCES: "source",
    CALLS: "call",
    INVOKE: "call",
    VALUES: "call",
    CDATA: "call",
    DONE: "ignored",
    CUT: "ignored",
}
"""What the text is that is read in each state."""

MAYBE_CALL = "maybe_call"
"""The step of `<function_calls>` in an answer: a call if an `<invoke>` follows, else text."""

_LONGEST = 256
"""Most characters of a tag's attributes, or of the name in `<__function=name>`."""

_THINK = {"thinking": "think", "think": "think", "scratchpad": "think"}
_THOUGHT = {"/thinking": "thought", "/think": "thought", "/scratchpad": "thought"}
# Amazon Nova writes this markup when it falls out of native tool use.
_NOVA = {"__function=": "invoke"}

_ORCHESTRATION: Mapping[str, Mapping[str, str]] = {
    OUTSIDE: {
        **_THINK,
        **_THOUGHT,
        **_NOVA,
        "answer": "answer",
        "/answer": "stray_close",
        "answer_part": "part",
        "function_calls": "calls",
        "invoke": "invoke",
        "function_results": "results",
    },
    THINKING: _THOUGHT,
    ANSWER: {
        **_NOVA,
        "answer": "again",
        "/answer": "close",
        "answer_part": "part",
        "sources": "sources",
        "function_calls": MAYBE_CALL,
    },
    PARTS: {
        **_NOVA,
        "answer": "again",
        "/answer": "close",
        "answer_part": "part",
        "/answer_part": "part_end",
        "text": "segment",
        "/text": "segment",
        "sources": "sources",
        "function_calls": MAYBE_CALL,
    },
    SOURCES: {
        "source": "source",
        "/source": "source",
        "/sources": "sources_end",
        "answer_part": "part",
        "/answer_part": "part_end",
        "/answer": "close",
    },
    CALLS: {
        **_NOVA,
        "invoke": "invoke",
        "function_calls": "calls",
        "/function_calls": "calls_end",
        "function_results": "results",
        "answer": "answer",
    },
    INVOKE: {
        **_NOVA,
        "invoke": "invoke",
        "/invoke": "invoke_end",
        "/__function": "invoke_end",
        "/function_calls": "calls_end",
        "function_results": "results",
        "parameters": "values",
        "parameter": "values",
        "__parameter=": "values",
    },
    VALUES: {
        "/parameters": "values_end",
        "/parameter": "values_end",
        "/__parameter": "values_end",
        "/invoke": "invoke_end",
        "/__function": "invoke_end",
        "/function_calls": "calls_end",
        "<![cdata[": "cdata",
    },
    CDATA: {"]]>": "cdata_end"},
    DONE: {**_NOVA, "function_calls": MAYBE_CALL},
    CUT: {},
}

_KNOWLEDGE_BASE: Mapping[str, Mapping[str, str]] = {
    OUTSIDE: {
        **_THINK,
        **_THOUGHT,
        "answer": "answer",
        "/answer": "stray_close",
        "answer_part": "part",
    },
    THINKING: _THOUGHT,
    ANSWER: {
        "answer": "again",
        "/answer": "close",
        "answer_part": "part",
        "sources": "sources",
    },
    PARTS: {
        "answer": "again",
        "/answer": "close",
        "answer_part": "part",
        "/answer_part": "part_end",
        "text": "segment",
        "/text": "segment",
        "sources": "sources",
    },
    SOURCES: _ORCHESTRATION[SOURCES],
    DONE: {},
}

_POST_PROCESSING: Mapping[str, Mapping[str, str]] = {
    OUTSIDE: {
        **_THINK,
        **_THOUGHT,
        "final_response": "answer",
        "/final_response": "stray_close",
    },
    THINKING: _THOUGHT,
    ANSWER: {"final_response": "again", "/final_response": "close"},
    DONE: {},
}


def _quoting(steps: Mapping[str, str]) -> Mapping[str, str]:
    # Calls in an answer are quotations of something: a native model has another way to call.
    return {tag: step for tag, step in steps.items() if step not in (MAYBE_CALL, "invoke")}


_STAGES = {
    "ORCHESTRATION": _ORCHESTRATION,
    "ORCHESTRATION native": {
        **_ORCHESTRATION,
        ANSWER: _quoting(_ORCHESTRATION[ANSWER]),
        PARTS: _quoting(_ORCHESTRATION[PARTS]),
    },
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": _KNOWLEDGE_BASE,
    "POST_PROCESSING": _POST_PROCESSING,
}


def _pattern_of(tag: str) -> str:
    return f"{tag}[^<> \t\r\n]{{1,{_LONGEST}}}" if tag[-1] == "=" else re.escape(tag)


class Rules:
    """The tags of one state.

    Attributes:
        state: The state's name.
        kind: What the text is that is read in it.
        steps: The scanner's step for each tag, by `key_of`.
        pattern: Finds the next tag.
    """

    __slots__ = ("_begun", "_prefixes", "kind", "pattern", "state", "steps")

    def __init__(self, state: str, steps: Mapping[str, str]) -> None:
        self.state = state
        self.kind = KINDS[state]
        self.steps = steps
        names = "|".join(_pattern_of(tag) for tag in steps if tag[0] not in "<]") or "(?!)"
        others = "|".join(re.escape(tag) for tag in steps if tag[0] in "<]") or "(?!)"
        begun = f"<({names})(?:[ \t\r\n][^<>]{{0,{_LONGEST}}})?"
        self.pattern = re.compile(f"{begun}>|{others}", re.IGNORECASE | re.ASCII)
        self._begun = re.compile(begun, re.IGNORECASE | re.ASCII)
        tags = [tag if tag[0] in "<]" else "<" + tag for tag in steps]
        self._prefixes = frozenset(tag[:end] for tag in tags for end in range(1, len(tag) + 1))

    def key_of(self, found: re.Match[str]) -> str:
        """The key of a found tag in `steps`."""
        key = (found[1] or found[0]).lower()
        return key.partition("=")[0] + "=" if key[0] == "_" else key

    def held_from(self, text: str, start: int) -> int:
        """Where a tag begins that the end of `text` cuts off; `len(text)` when none does."""
        end = len(text)
        if self.state == CDATA:
            return max(end - 2 if text.endswith("]]") else end - text.endswith("]"), start)
        at = text.rfind("<", start)
        if at < 0 or end - at > 2 * _LONGEST + 32:
            return end
        tail = text[at:]
        return at if tail.lower() in self._prefixes or self._begun.fullmatch(tail) else end


_SPACES = 128
_INVOKE = "<invoke"


def call_follows(text: str, start: int) -> bool | None:
    """Whether an `<invoke` follows, after white space only; `None` when the text ends too soon."""
    rest = text[start : start + _SPACES + len(_INVOKE) + 1]
    mark = rest.lstrip(" \t\r\n")
    if len(rest) - len(mark) > _SPACES:
        return False
    mark = mark.lower()
    if mark.startswith(_INVOKE):
        return True
    return None if start + len(rest) == len(text) and _INVOKE.startswith(mark) else False


@cache
def rules_of(stage: str) -> Mapping[str, Rules]:
    """The states of the replies of `stage`, by name; compiled when first asked for."""
    return {state: Rules(state, steps) for state, steps in _STAGES[stage].items()}
