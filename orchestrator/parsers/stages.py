"""The parsers of all stages but ORCHESTRATION, and of an agent without it.

Answers are streamed: those from search results, of the post-processing, and verbatim ones. Nobody
waits for the other replies word by word: each is read when it is whole.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from orchestrator.message import Block, text_of
from orchestrator.parsers import codes
from orchestrator.parsers.base import ANSWER, THINKING, Parsed, build_response
from orchestrator.parsers.calls import tool_uses
from orchestrator.parsers.orchestration import answer_parts, span_of
from orchestrator.parsers.scanner import Piece, Scanner


class _StreamedAnswer(Scanner, ABC):
    """Parses a reply that is an answer, and streams it."""

    __slots__ = ()

    blocking: ClassVar[bool] = False
    stage: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(self.stage)

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        if not self.length:
            for text in tool_uses(blocks)[0]:
                self.feed(text)
        whole = self.close()
        answer = "".join(self.answer) if self.verdict else self.outside(whole)
        if answer and not self.verdict:
            self.notes.append("no answer tag: the text without its thinking is the answer")
        result, code = self._read(answer)
        return Parsed(build_response(self.stage, result), code, tuple(self.notes))

    @abstractmethod
    def _read(self, answer: str) -> tuple[dict[str, Any], str]:
        """The stage's result of the answer's text, and the reason code."""


class KnowledgeBaseAnswer(_StreamedAnswer):
    """Parses an answer made from search results, with its citations.

    `<answer><answer_part><text>...</text><sources><source>id</source></sources></answer_part>`;
    an answer without parts, or a text without any tag, is one part without references.
    """

    __slots__ = ()

    stage = "KNOWLEDGE_BASE_RESPONSE_GENERATION"

    def _read(self, answer: str) -> tuple[dict[str, Any], str]:
        parts = answer_parts(self)
        if not parts and answer:
            parts = [{"text": answer, "references": []}]
        result = {"generatedResponse": {"generatedResponseParts": parts}}
        return result, "" if parts else codes.EMPTY


class PostProcessing(_StreamedAnswer):
    """Parses the reply that rewrites the final response, in `<final_response>`."""

    __slots__ = ()

    stage = "POST_PROCESSING"

    def _read(self, answer: str) -> tuple[dict[str, Any], str]:
        return {"responseText": answer}, "" if answer else codes.EMPTY


class Verbatim:
    """The parser of an agent without ORCHESTRATION: the reply is the answer, as it is."""

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece of the reply; it is a piece of the answer."""
        self._pieces.append(text)
        return [(ANSWER, text)] if text else ()

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply."""
        text = "".join(self._pieces) or text_of(blocks)
        details = {"invocationType": "FINISH", "agentFinalResponse": {"responseText": text}}
        result = {"rationale": "", "responseDetails": details}
        return Parsed(build_response("ORCHESTRATION", result))


_FLAGS = re.IGNORECASE | re.ASCII
_CATEGORY = re.compile(r"<category(?:[ \t\r\n][^<>]{0,256})?>([^<]*)", _FLAGS)
_LETTER = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])", _FLAGS)
_MARKUP = re.compile(r"</?\w{1,64}[ \t\r\n]{0,8}>")
_VALID = frozenset("DE")
_DOCUMENTED = frozenset("ABCDE")


class _BufferedParser(ABC):
    """Collects a reply and reads it when it ends."""

    __slots__ = ("_fed", "pieces")

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        self._fed: list[str] = []
        self.pieces: list[Piece] = []

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece; there is no answer to stream."""
        self._fed.append(text)
        return ()

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        return self._read("".join(self._fed or tool_uses(blocks)[0]))

    @abstractmethod
    def _read(self, text: str) -> Parsed:
        """What the whole reply means."""

    def _mark(self, text: str, thought: tuple[int, int] | None, found: list[Piece]) -> None:
        # What each piece of the text was taken for; thinking and `found` come in order.
        start, end = thought or (0, 0)
        marks = [("tag", 0, 0)] if thought is None else [(THINKING, start, end)]
        marks += [piece for piece in found if piece[1] >= end]
        position = 0
        for kind, start, end in marks:
            self._add("outside", position, start)
            self._add(kind, start, end)
            position = max(position, end)
        self._add("outside", position, len(text))

    def _add(self, kind: str, start: int, end: int) -> None:
        if end > start:
            self.pieces.append((kind, start, end))


class PreProcessing(_BufferedParser):
    """Parses a classification of the user's input.

    The input is valid if its category is D (the agent can help) or E (it answers a question that
    the agent asked). Any other letter (A malicious, B probing, C out of scope, or a template's
    own, as the samples' F and N) is not, and neither is a reply without a letter (code
    `NO_CATEGORY`). The rationale is the thinking: as it is where tools are native, and trimmed for
    the models that write calls as text (both recorded).
    """

    __slots__ = ("_trims",)

    def __init__(self, *, trims: bool = False) -> None:
        super().__init__()
        self._trims = trims

    def _read(self, text: str) -> Parsed:
        notes: list[str] = []
        found = list(_CATEGORY.finditer(text))
        span = span_of(text, found[-1].start() if found else len(text))
        if found:
            letter = _letter_of(found[-1][1])
            if len({_letter_of(one[1]) for one in found}) > 1:
                notes.append("several categories: the last one counts")
        else:
            letter = _letter_of(text[span[1] :] if span else text, whole=True)
            if letter:
                notes.append("the category has no tag")
        if not letter:
            notes.append("no category: the input counts as invalid")
        elif letter not in _DOCUMENTED:
            notes.append(f"the category {letter!r} is the template's own: only D and E are valid")
        self._mark(text, span, [("category", one.start(1), one.end(1)) for one in found[-1:]])
        rationale = text[span[0] : span[1]] if span else ""
        if self._trims:
            rationale = rationale.strip()
        result = {"isValidInput": letter in _VALID, "rationale": rationale}
        response = build_response("PRE_PROCESSING", result)
        return Parsed(response, "" if letter else codes.NO_CATEGORY, tuple(notes))


def _letter_of(text: str, *, whole: bool = False) -> str:
    # `D`, `(d)`, `Category D`; where there is no tag, only a letter that is all there is.
    if whole:
        text = _MARKUP.sub("", text).strip(" \t\r\n.()*:\"'")
        return text.upper() if len(text) == 1 and text.isascii() and text.isalpha() else ""
    found = _LETTER.findall(text)
    return found[-1].upper() if found else ""


_ROUTE = re.compile(r"<a[ \t\r\n]{0,8}>([^<>]*)", _FLAGS)
_LAST_AGENT = "keep_previous_agent"
_UNDECIDED = "undecidable"
_TOOLS = frozenset({"knowledge_base", "tool_use"})
_LONGEST_NAME = 200


class Routing(_BufferedParser):
    """Parses the choice of the agent that answers: `<a>name</a>`, the last one after the thinking.

    `keep_previous_agent` is `LAST_AGENT`; `undecidable`, the tools of the supervisor
    (`knowledge_base`, `tool_use`) and a reply without a choice (code `NO_ROUTE`) are `UNDECIDED`:
    the supervisor then runs its own loop. Whether a name is an agent's is not known here. The
    invocation has no `input`: the agent gets the user's words.
    """

    __slots__ = ()

    def _read(self, text: str) -> Parsed:
        from orchestrator.parsers.text_calls import decode

        span = span_of(text, len(text))
        # Thinking that was never closed ends where the text ends, and may hold the choice.
        after = span[1] if span and span[1] < len(text) else 0
        found = list(_ROUTE.finditer(text, after))
        notes = ["several choices: the last one counts"] if len(found) > 1 else []
        name = decode(found[-1][1]).strip("\"'` \t\r\n") if found else ""
        self._mark(text, span, [("route", one.start(1), one.end(1)) for one in found[-1:]])
        details: dict[str, Any] = {"type": "UNDECIDED"}
        code, key = "", name.lower()
        if not name or len(name) > _LONGEST_NAME or "\n" in name:
            code = codes.NO_ROUTE
            notes.append("no agent is named: the supervisor decides")
        elif key == _LAST_AGENT:
            details["type"] = "LAST_AGENT"
        elif key in _TOOLS:
            notes.append(f"{key!r} is the supervisor's own: its loop goes on")
        elif key != _UNDECIDED:
            invocation = {"agentCollaboratorName": name}
            details = {"type": "AGENT", "agentCollaboratorInvocation": invocation}
        response = build_response("ROUTING_CLASSIFIER", {"responseDetails": details})
        return Parsed(response, code, tuple(notes))


_SUMMARY = re.compile(r"<(/?)summary[ \t\r\n]{0,8}>", _FLAGS)
_TOPIC = re.compile(
    r"<topic(?:[ \t\r\n]{1,8}name[ \t]{0,8}=[ \t]{0,8}"
    r"(?:\"([^<>]{0,512}?)\"|'([^<>]{0,512}?)'|([^\s\"'<>]{0,512})))?[ \t\r\n]{0,8}>",
    _FLAGS,
)
_THOUGHT = re.compile(r"</(?:thinking|think|scratchpad)[ \t\r\n]{0,256}>", _FLAGS)
_TOPIC_END = re.compile(r"</topic[ \t\r\n]{0,8}>", _FLAGS)


class MemorySummary(_BufferedParser):
    """Parses the summary of a session: `<summary><topic name='...'>...</topic>...</summary>`.

    Names may be in either quotes or none, and end tags may be missing. A summary without topics,
    or a text without any tag, is one topic without a name. An empty `<summary>` has no topics and
    is no mistake; a reply without text is (code `EMPTY`).
    """

    __slots__ = ()

    def _read(self, text: str) -> Parsed:
        from orchestrator.parsers.text_calls import decode

        notes: list[str] = []
        span, start, end = _summary_of(text)
        found = list(_TOPIC.finditer(text, start, end))
        ends = [*(one.start() for one in found[1:]), end][: len(found)]
        topics, marks = [], []
        for one, stop in zip(found, ends, strict=True):
            closed = _TOPIC_END.search(text, one.end(), stop)
            stop = closed.start() if closed else stop
            marks.append(("topic", one.end(), stop))
            summary = decode(text[one.end() : stop])
            if summary:
                topics.append(
                    {"topic": decode(one[1] or one[2] or one[3] or ""), "summary": summary}
                )
        if not found and (plain := decode(text[start:end])):
            notes.append("the summary has no topics: it is one without a name")
            topics, marks = [{"topic": "", "summary": plain}], [("topic", start, end)]
        self._mark(text, span, marks)
        response = build_response("MEMORY_SUMMARIZATION", {"topicwiseSummaries": topics})
        written = topics or _SUMMARY.search(text, span[1] if span else 0)
        return Parsed(response, "" if written else codes.EMPTY, tuple(notes))


def _summary_of(text: str) -> tuple[tuple[int, int] | None, int, int]:
    # The thinking, and where the summary begins and ends: in its tags, or after the thinking.
    span = span_of(text, len(text))
    if span and span[1] == len(text):
        opened = _SUMMARY.search(text, span[0])  # thinking that was never closed
        span = (span[0], opened.start()) if opened else span
    start, end = (span[1] if span else 0), len(text)
    if closed := _THOUGHT.match(text, start):
        start = closed.end()
    for found in _SUMMARY.finditer(text, start):
        if found[1]:
            return span, start, found.start()
        start = found.end()
    return span, start, end
