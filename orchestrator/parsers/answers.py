"""The stages whose replies are answers: from search results, and post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from orchestrator.message import Block
from orchestrator.parsers import codes
from orchestrator.parsers.base import Parsed
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

    blocking: ClassVar[bool] = False

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
