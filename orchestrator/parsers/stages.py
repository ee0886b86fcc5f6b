"""The stages around the loop: pre-processing, knowledge-base answers, post-processing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from orchestrator.message import Block
from orchestrator.parsers import codes
from orchestrator.parsers.base import Parsed
from orchestrator.parsers.calls import tool_uses
from orchestrator.parsers.orchestration import answer_parts
from orchestrator.parsers.scanner import Scanner
from orchestrator.parsers.thinking import span_of

__all__ = ["KnowledgeBaseAnswer", "PostProcessing", "PreProcessing"]

_CATEGORY = re.compile(r"<category(?:[ \t\r\n][^<>]{0,256})?>([^<]*)", re.IGNORECASE | re.ASCII)
_LETTER = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])", re.IGNORECASE | re.ASCII)
_VALID = frozenset("DE")


class PreProcessing:
    """Parses a classification of the user's input.

    The input is valid if its category is D (the agent can help) or E (it answers a question that
    the agent asked). Any other letter (A malicious, B probing, C out of scope, or a template's
    own) is not, and neither is a reply without a letter (code `NO_CATEGORY`). The rationale keeps
    the thinking untrimmed, as recorded.
    """

    __slots__ = ("_fed", "pieces")

    def __init__(self) -> None:
        self._fed: list[str] = []
        self.pieces: list[Any] = []

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece; a classification has no answer to stream."""
        self._fed.append(text)
        return ()

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        text = "".join(self._fed or tool_uses(blocks)[0])
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
        member = {
            "isValidInput": letter in _VALID,
            "rationale": text[span[0] : span[1]] if span else "",
        }
        response = {
            "messageVersion": "1.0",
            "promptType": "PRE_PROCESSING",
            "preProcessingParsedResponse": member,
        }
        return Parsed(response, "" if letter else codes.NO_CATEGORY, tuple(notes))


def _letter_of(text: str, *, whole: bool = False) -> str:
    # `D`, `(d)`, `Category D`; where there is no tag, only a letter that is all there is.
    if whole:
        text = re.sub(r"</?\w{1,64}[ \t\r\n]{0,8}>", "", text).strip(" \t\r\n.()*:\"'")
        return text.upper() if len(text) == 1 and text.isascii() and text.isalpha() else ""
    found = _LETTER.findall(text)
    return found[-1].upper() if found else ""


class KnowledgeBaseAnswer(Scanner):
    """Parses an answer made from search results, with its citations.

    `<answer><answer_part><text>...</text><sources><source>id</source></sources></answer_part>`;
    an answer without parts, or a text without any tag, is one part without references.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("KNOWLEDGE_BASE_RESPONSE_GENERATION")

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        text = _finish(self, blocks)
        parts = answer_parts(self)
        if not parts and text:
            parts = [{"text": text, "references": []}]
        response = {
            "messageVersion": "1.0",
            "promptType": "KNOWLEDGE_BASE_RESPONSE_GENERATION",
            "knowledgeBaseResponseGenerationParsedResponse": {
                "generatedResponse": {"generatedResponseParts": parts}
            },
        }
        return Parsed(response, "" if parts else codes.EMPTY, tuple(self.notes))


class PostProcessing(Scanner):
    """Parses the reply that rewrites the final response, in `<final_response>`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("POST_PROCESSING")

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        text = _finish(self, blocks)
        response = {
            "messageVersion": "1.0",
            "promptType": "POST_PROCESSING",
            "postProcessingParsedResponse": {"responseText": text},
        }
        return Parsed(response, "" if text else codes.EMPTY, tuple(self.notes))


def _finish(scanner: Scanner, blocks: Sequence[Block]) -> str:
    # The answer's text, or all of the text that is not thinking when there is no answer tag.
    if not scanner.length:
        for text in tool_uses(blocks)[0]:
            scanner.feed(text)
    whole = scanner.close()
    if scanner.verdict:
        return "".join(scanner.said)
    text = scanner.outside(whole)
    if text:
        scanner.notes.append("no answer tag: the text without its thinking is the answer")
    return text
