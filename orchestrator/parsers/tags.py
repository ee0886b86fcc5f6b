"""Which tags mean something, where: the grammar of replies, as tables.

A reply is read by a machine with a few states. For each state a table names the tags that count
there and the step that each makes the scanner take; every other tag is text. So a tag inside a
parameter's value, or a call quoted while thinking, is never taken for structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

OUTSIDE, THINKING, ANSWER, PARTS, SOURCES = "outside", "thinking", "answer", "parts", "sources"
CALLS, INVOKE, NAMED, VALUES, CDATA = "calls", "invoke", "named", "values", "cdata"
FUNCTION, NAME, ARGUMENTS, JSON = "function", "name", "arguments", "json"
QUOTED, APOSTROPHE, DONE, CUT = "quoted", "apostrophe", "done", "cut"

_IN_CALLS = (CALLS, INVOKE, NAMED, VALUES, CDATA, FUNCTION, NAME, ARGUMENTS, JSON)

# What the text is that is read in each state.
KINDS: Mapping[str, str] = {
    OUTSIDE: "outside",
    THINKING: "thinking",
    SOURCES: "source",
    **dict.fromkeys((ANSWER, PARTS), "answer"),
    **dict.fromkeys((*_IN_CALLS, QUOTED, APOSTROPHE), "call"),
    **dict.fromkeys((DONE, CUT), "ignored"),
}

_NAME = r"[A-Za-z0-9_-]{1,128}"
_WHITE = r"[ \t\r\n]{0,128}"


def _build_prefix_pattern(*words: str) -> str:
    # A pattern of every beginning of the words.
    following: dict[str, list[str]] = {}
    for word in filter(None, words):
        following.setdefault(word[0], []).append(word[1:])
    ways = [re.escape(one) + _build_prefix_pattern(*rest) for one, rest in following.items()]
    return f"(?:{'|'.join(ways)})?" if ways else ""


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
# Whatever element stands in an `<invoke>`, its text is a value.
_IN_INVOKE = {
    **_NOVA,
    "invoke": "invoke",
    **_CALL_ENDS,
    **_RESULTS,
    **dict.fromkeys(("parameters", "parameter", "__parameter=", "@element"), "values"),
}
# A value in parentheses has no tags but the end of its call: no other is told from the value's own.
_FUNCTION_ENDS = {**dict.fromkeys(("/function_call", "/fncall"), "function_end"), **_RESULTS}
_IN_FUNCTION = {**dict.fromkeys(("function_call", "fncall"), "function"), **_FUNCTION_ENDS}
_QUOTES = {"@quote": "quote", "@apostrophe": "quote"}

# Which calls may interrupt an answer, by parser; every other grammar's call there is a quotation.
_IN_ANSWER: Mapping[str, Mapping[str, str]] = {
    "xml": {**_NOVA, "function_calls": "maybe_call"},
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
    INVOKE: {**_IN_INVOKE, "tool_name": "named", "@brace": "json"},
    NAMED: {**_IN_INVOKE, "/tool_name": "unnamed"},
    VALUES: {
        "/parameters": "values_end",
        "/parameter": "values_end",
        "/__parameter": "values_end",
        **_CALL_ENDS,
        "@cdata": "cdata",
    },
    CDATA: {"@cdata_end": "cdata_end"},
    JSON: {**_CALL_ENDS, **_QUOTES},
    FUNCTION: {
        **_IN_FUNCTION,
        "invoke": "invoke",
        "tool_name": "named",
        "parameters": "values",
        "@brace": "arguments",
        "@word": "name",
    },
    NAME: {**_IN_FUNCTION, "@empty": "pass", "@open": "arguments"},
    ARGUMENTS: {**_FUNCTION_ENDS, **_QUOTES},
    QUOTED: {"@unquote": "unquote", "@escape": "pass"},
    APOSTROPHE: {"@unquote_apostrophe": "unquote", "@escape": "pass"},
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

# Where tools are native, text is never a call; in an answer, what Nova leaves behind is dropped.
_NATIVE: Mapping[str, Mapping[str, str]] = {
    **_KNOWLEDGE_BASE,
    **{state: {**_ORCHESTRATION[state], **_NOVA_STRAY} for state in (ANSWER, PARTS)},
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
    "ORCHESTRATION tool_use": _NATIVE,
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": _KNOWLEDGE_BASE,
    "POST_PROCESSING": _POST_PROCESSING,
}


_ATTRIBUTES = rf"[ \t\r\n][^<>]{{0,{_LONGEST}}}"
_ELEMENT = rf"[^\s<>/!?&]{{1,{_LONGEST}}}"

# What else begins with `<` than a tag of the table: how it goes on, and what of that the end of a
# text may leave.
_OTHER_TAGS: Mapping[str, tuple[str, str]] = {
    "@cdata": (r"!\[cdata\[", f"(?:!{_build_prefix_pattern('[cdata')})?"),
    "@element": (
        rf"{_ELEMENT}(?:\s(?:[^<>]{{0,{_LONGEST}}}[^<>/])?)?>",
        rf"(?:{_ELEMENT}(?:\s[^<>]{{0,{_LONGEST + 1}}})?)?",
    ),
}

# What begins with another character, with the groups that say which it is; in `begun_mark` the end
# of the text may have cut it off.
_MARKS: Mapping[str, str] = {
    "@quote": rf"[=:,({{\[]{_WHITE}(?:\"(?P<quote>)|'(?P<apostrophe>)|\Z(?P<begun_mark>))",
    "@apostrophe": "",  # in the one before
    "@unquote": r"\"(?P<unquote>)",
    "@unquote_apostrophe": "'(?P<unquote_apostrophe>)",
    "@escape": r"\\(?:[\s\S](?P<escape>)|\Z(?P<begun_mark>))",
    "@cdata_end": r"\](?:\]>(?P<cdata_end>)|\]?\Z(?P<begun_mark>))",
    "@brace": r"[{\[](?P<brace>)",
    "@word": r"[^\s<](?P<word>)",
    "@empty": rf"\((?:{_WHITE}\)(?P<empty>)|{_WHITE}\Z(?P<begun_mark>)|(?P<open>))",
    "@open": "",  # in the one before
}

# The steps of marks that change nothing but where a value ends: the text around them is one piece.
INSIDE_VALUES = frozenset({"quote", "unquote", "pass", "arguments", "name", "json"})

# The groups of what the end of a text has begun: more text decides what it is.
BEGUN = frozenset({"begun", "begun_mark"})


class Rules:
    """The tags of one state.

    `kind` is what the text is that is read in it, and `plain` says whether text without `<` changes
    nothing.

    `pattern` finds the first tag or mark (`step_of` says what it means), or what the end of the
    text has begun of one, which is then a group of `BEGUN`. Every place is tried for a whole one
    first and for a begun one second, and the first place wins. So what a place holds never depends
    on where a stream was cut: while more text may decide it, nothing behind it is looked at.
    """

    __slots__ = ("_steps", "kind", "pattern", "plain", "state")

    def __init__(self, state: str, steps: Mapping[str, str]) -> None:
        self.state = state
        self.kind = KINDS[state]
        self._steps = steps
        self.plain = not any(tag in _MARKS for tag in steps)
        self.pattern = re.compile(_build_pattern(steps), re.IGNORECASE | re.ASCII)

    def step_of(self, found: re.Match[str]) -> str:
        """The scanner's step for a tag or mark that was found."""
        if found.lastgroup != "tag":
            return self._steps[f"@{found.lastgroup}"]
        name = found["tag"]
        step = self._steps.get(name)
        if step is None:
            name = name.lower()
            step = self._steps[name.partition("=")[0] + "=" if name[0] == "_" else name]
        return step


def _build_pattern(steps: Iterable[str]) -> str:
    # Each alternative begins with its first character, which the search is fast for.
    marks = [_MARKS[tag] for tag in steps if _MARKS.get(tag)]
    tags = [tag for tag in steps if tag[0] != "@"]
    others = [tag for tag in steps if tag in _OTHER_TAGS]
    if not tags and not others:
        return "|".join(marks) or "(?!)"
    names = "|".join(map(_pattern_of, tags))
    whole = [f"(?P<tag>{names})(?:{_ATTRIBUTES})?>"]
    valued = [_pattern_of(tag) for tag in tags if tag[-1] == "="]
    begun = [_build_prefix_pattern(*tags), *valued, f"(?:{names}){_ATTRIBUTES}"]
    for other in others:
        pattern, prefix = _OTHER_TAGS[other]
        whole.append(f"{pattern}(?P<{other[1:]}>)")
        begun.append(prefix)
    # Only the last `<` of a text can be that of a tag which its end cuts off.
    last = rf"(?=[^<>]{{0,{2 * _LONGEST + 32}}}\Z)(?:{'|'.join(begun)})\Z(?P<begun>)"
    return "|".join([f"<(?:{'|'.join(whole)}|{last})", *marks])


def _pattern_of(tag: str) -> str:
    return f"{tag}[^<> \t\r\n]{{1,{_LONGEST}}}" if tag[-1] == "=" else re.escape(tag)


class _States(dict[str, Rules]):
    # Those of a stage by name; most replies reach few, and the others are not compiled.
    def __init__(self, stage: str) -> None:
        self._stage = _STAGES[stage]

    def __missing__(self, state: str) -> Rules:
        rules = self[state] = Rules(state, self._stage[state])
        return rules


@cache
def rules_of(stage: str) -> Mapping[str, Rules]:
    """The states of the replies of `stage`, by name; each is compiled when first asked for."""
    return _States(stage)
