"""The stages whose replies are answers: from search results, post-processing, and verbatim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from orchestrator.message import Block, text_of
from orchestrator.parsers import codes
from orchestrator.parsers.base import ANSWER, Parsed, build_response
from orchestrator.parsers.calls import tool_uses
from orchestrator.parsers.orchestration import answer_parts
from orchestrator.parsers.scanner import Scanner


class KnowledgeBaseAnswer(Scanner):
    """Parses an answer made from search results, with its citations.

    `<answer><answer_part><text>...</text><sources><source>id</source></sources></answer_part>`;
    an answer without parts, or a text without any tag, is one part without references.
    """

    __slots__ = ()

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__("KNOWLEDGE_BASE_RESPONSE_GENERATION")

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        text = _finish(self, blocks)
        parts = answer_parts(self)
        if not parts and text:
            parts = [{"text": text, "references": []}]
        result = {"generatedResponse": {"generatedResponseParts": parts}}
        response = build_response("KNOWLEDGE_BASE_RESPONSE_GENERATION", result)
        return Parsed(response, "" if parts else codes.EMPTY, tuple(self.notes))


class PostProcessing(Scanner):
    """Parses the reply that rewrites the final response, in `<final_response>`."""

    __slots__ = ()

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__("POST_PROCESSING")

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        text = _finish(self, blocks)
        response = build_response("POST_PROCESSING", {"responseText": text})
        return Parsed(response, "" if text else codes.EMPTY, tuple(self.notes))


def _finish(scanner: Scanner, blocks: Sequence[Block]) -> str:
    # The answer's text, or all of the text that is not thinking when there is no answer tag.
    if not scanner.length:
        for text in tool_uses(blocks)[0]:
            scanner.feed(text)
    whole = scanner.close()
    if scanner.verdict:
        return "".join(scanner.answer)
    text = scanner.outside(whole)
    if text:
        scanner.notes.append("no answer tag: the text without its thinking is the answer")
    return text


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
