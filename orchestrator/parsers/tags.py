"""Which tags mean something, where: the grammar of replies, as tables.

A reply is read by a machine with a few states. For each state a table names the tags that count
there and the step that each makes the scanner take; every other tag is text. So a tag inside a
parameter's value, or a call quoted while thinking, is never taken for structure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

OUTSIDE, THINKING, ANSWER, PARTS, SOURCES = "outside", "thinking", "answer", "parts", "sources"
CALLS, INVOKE, VALUES, CDATA, DONE, CUT = "calls", "invoke", "values", "cdata", "done", "cut"
FUNCTION, QUOTED, APOSTROPHE = "function", "quoted", "apostrophe"

# What the text is that is read in each state.
KINDS: Mapping[str, str] = {
    OUTSIDE: "outside",
    THINKING: "thinking",
    SOURCES: "source",
    **dict.fromkeys((ANSWER, PARTS), "answer"),
    **dict.fromkeys((CALLS, INVOKE, VALUES, CDATA, FUNCTION, QUOTED, APOSTROPHE), "call"),
    **dict.fromkeys((DONE, CUT), "ignored"),
}

_NAME = r"[A-Za-z0-9_-]{1,128}"
_WHITE = r"[ \t\r\n]{0,128}"


def _build_prefix_pattern(word: str) -> str:
    # A pattern of every beginning of a word.
    pattern = ""
    for character in reversed(word):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return pattern


class CallLookahead:
    """Whether a tag that may only be mentioned begins a call: the text after it decides."""

    __slots__ = ("_begun", "_whole", "step")

    def __init__(self, step: str, whole: str, partial: str) -> None:
        self.step = step
        self._whole = re.compile(_WHITE + whole, re.IGNORECASE | re.ASCII)
        self._begun = re.compile(rf"{_WHITE}(?:{partial})\Z", re.IGNORECASE | re.ASCII)

    def __call__(self, text: str, start: int) -> bool | None:
        """Whether a call follows in `text` from `start`; `None` when the text ends too soon."""
        if self._whole.match(text, start):
            return True
        return None if self._begun.match(text, start) else False


# The steps of tags that begin a call only if a call follows, and are text else.
MAYBE: Mapping[str, CallLookahead] = {
    "maybe_call": CallLookahead("calls", "<invoke", _build_prefix_pattern("<invoke")),
    "maybe_function": CallLookahead("function", rf"{_NAME}(?:::|\()", f"(?:{_NAME}:?)?"),
    "maybe_fncall": CallLookahead(
        "function",
        rf"(?:<invoke|<tool_name|[\[{{]|{_NAME}(?:::|\())",
        f"{_build_prefix_pattern('<invoke')}|{_build_prefix_pattern('<tool_name')}|{_NAME}:?",
    ),
}

# Most characters of a tag's attributes, or of the name in `<__function=name>`.
_LONGEST = 256

_THINK = {"thinking": "think", "think": "think", "scratchpad": "think"}
_THOUGHT = {"/thinking": "thought", "/think": "thought", "/scratchpad": "thought"}
# Amazon Nova writes this markup when it falls out of native tool use.
_NOVA = {"__function=": "invoke"}
_NOVA_STRAY = dict.fromkeys(("__function=", "/__function", "__parameter=", "/__parameter"), "stray")
_CALL_ENDS = {
    **dict.fromkeys(("/invoke", "/__function"), "invoke_end"),
    "/function_calls": "calls_end",
    "/fncall": "function_end",
}
_RESULTS = {"function_results": "results", "function_result": "results"}
_MAYBE_OTHERS = {"function_call": "maybe_function", "fncall": "maybe_fncall"}

# Which calls may interrupt an answer, by parser. In every other grammar a call there is a
# quotation. Where tools are native all of them are, and the markup that Nova leaves behind is
# dropped.
_IN_ANSWER: Mapping[str, Mapping[str, str]] = {
    "xml": {**_NOVA, "function_calls": "maybe_call"},
    "tool_use": _NOVA_STRAY,
    "function_call": {"function_calls": "maybe_call", "function_call": "maybe_function"},
    "fncall": {"function_calls": "maybe_call", "fncall": "maybe_fncall"},
    "auto": {**_NOVA, "function_calls": "maybe_call", **_MAYBE_OTHERS},
}

_ANSWER = {"answer": "again", "/answer": "close", "answer_part": "part", "sources": "sources"}
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
        **_MAYBE_OTHERS,
        **_RESULTS,
    },
    THINKING: _THOUGHT,
    ANSWER: _ANSWER,
    PARTS: {**_ANSWER, "/answer_part": "part_end", "text": "segment", "/text": "segment"},
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
        "function_call": "function",
        "fncall": "function",
        **_RESULTS,
        "answer": "answer",
    },
    INVOKE: {
        **_NOVA,
        "invoke": "invoke",
        **_CALL_ENDS,
        **_RESULTS,
        "parameters": "values",
        "parameter": "values",
        "__parameter=": "values",
    },
    VALUES: {
        "/parameters": "values_end",
        "/parameter": "values_end",
        "/__parameter": "values_end",
        **_CALL_ENDS,
        "<![cdata[": "cdata",
    },
    CDATA: {"]]>": "cdata_end"},
    FUNCTION: {
        "function_call": "function",
        "fncall": "function",
        "/function_call": "function_end",
        "/fncall": "function_end",
        **_RESULTS,
        "invoke": "invoke",
        "tool_name": "named",
        "parameters": "values",
        '="': "quote",
        "='": "apostrophe",
    },
    QUOTED: {'"': "unquote", "\\": "escape"},
    APOSTROPHE: {"'": "unquote", "\\": "escape"},
    DONE: {**_NOVA, "function_calls": "maybe_call", **_MAYBE_OTHERS},
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
    **{state: _ORCHESTRATION[state] for state in (ANSWER, PARTS, SOURCES)},
    DONE: {},
}

_POST_PROCESSING: Mapping[str, Mapping[str, str]] = {
    OUTSIDE: {**_THINK, **_THOUGHT, "final_response": "answer", "/final_response": "stray_close"},
    THINKING: _THOUGHT,
    ANSWER: {"final_response": "again", "/final_response": "close"},
    DONE: {},
}


def _build_orchestration(parser: str) -> Mapping[str, Mapping[str, str]]:
    states = dict(_ORCHESTRATION)
    for state in (ANSWER, PARTS):
        states[state] = {**states[state], **_IN_ANSWER[parser]}
    if parser in _MAYBE_OTHERS:  # the expected grammar's calls are calls, however malformed
        states[OUTSIDE] = {**states[OUTSIDE], parser: "function"}
    return states


_STAGES = {
    **{f"ORCHESTRATION {parser}": _build_orchestration(parser) for parser in _IN_ANSWER},
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": _KNOWLEDGE_BASE,
    "POST_PROCESSING": _POST_PROCESSING,
}

# Marks that are no tags: where a quoted value begins, where it ends, and an escaped character.
_MARKS = {
    '="': r"[=:,({\[][ \t\r\n]{0,16}\"",
    "='": r"[=:,({\[][ \t\r\n]{0,16}'",
    '"': r"\"",
    "'": "'",
    "\\": r"\\[\s\S]",
}

# The steps of such marks; the text around them is one piece.
INSIDE_VALUES = frozenset({"quote", "apostrophe", "unquote", "escape"})

_MARK_BEGUN = re.compile(r"(?:[=:,({\[][ \t\r\n]{0,16}|\\)\Z")


def _is_literal(tag: str) -> bool:
    # Whether it is looked for as it is, without `<` before and `>` after it.
    return tag in _MARKS or tag[0] in "<]"


def _pattern_of(tag: str) -> str:
    return f"{tag}[^<> \t\r\n]{{1,{_LONGEST}}}" if tag[-1] == "=" else re.escape(tag)


class Rules:
    """The tags of one state.

    `kind` is what the text is that is read in it; `steps` has the scanner's step for each tag, by
    `key_of`; `plain` says whether text without `<` changes nothing.
    """

    __slots__ = ("_begun", "_marked", "_prefixes", "kind", "pattern", "plain", "state", "steps")

    def __init__(self, state: str, steps: Mapping[str, str]) -> None:
        self.state = state
        self.kind = KINDS[state]
        self.steps = steps
        self._marked = not steps.keys().isdisjoint(_MARKS)
        self.plain = not any(_is_literal(tag) and tag[0] != "<" for tag in steps)
        names = "|".join(_pattern_of(tag) for tag in steps if not _is_literal(tag)) or "(?!)"
        bare = [_MARKS.get(tag, re.escape(tag)) for tag in steps if _is_literal(tag)]
        others = "|".join(bare) or "(?!)"
        opening = f"<({names})(?:[ \t\r\n][^<>]{{0,{_LONGEST}}})?"
        self.pattern = re.compile(f"{opening}>|{others}", re.IGNORECASE | re.ASCII)
        self._begun = re.compile(opening, re.IGNORECASE | re.ASCII)
        tags = [tag if tag[0] in "<]" else "<" + tag for tag in steps if tag not in _MARKS]
        self._prefixes = frozenset(tag[:end] for tag in tags for end in range(1, len(tag) + 1))

    def key_of(self, found: re.Match[str]) -> str:
        """The key of a found tag in `steps`."""
        if self._marked and found[1] is None:
            first, last = found[0][0], found[0][-1]
            if first == "\\":
                return first
            return last if len(found[0]) == 1 else "=" + last
        key = (found[1] or found[0]).lower()
        return key.partition("=")[0] + "=" if key[0] == "_" else key

    def find_partial_tag(self, text: str, start: int) -> int:
        """Where a tag begins that the end of `text` cuts off; `len(text)` when none does."""
        end = len(text)
        if self.state == CDATA:
            return max(end - 2 if text.endswith("]]") else end - text.endswith("]"), start)
        at = text.rfind("<", max(start, end - 2 * _LONGEST - 32))
        if at >= 0 and (text[at:].lower() in self._prefixes or self._begun.fullmatch(text, at)):
            return at
        if self._marked and (partial := _MARK_BEGUN.search(text, max(end - 20, start))):
            return partial.start()
        return end

    def is_in_partial_tag(self, text: str, start: int, found: re.Match[str]) -> bool:
        """Whether a found mark stands in a tag's attributes, whose end has not been read yet."""
        if not self._marked or found[1] is not None:
            return False
        return self.find_partial_tag(text, start) < found.start()


@cache
def rules_of(stage: str) -> Mapping[str, Rules]:
    """The states of the replies of `stage`, by name; compiled when first asked for."""
    return {state: Rules(state, steps) for state, steps in _STAGES[stage].items()}
