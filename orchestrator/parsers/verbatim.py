"""The parser of an agent without ORCHESTRATION: the reply is the answer, as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from orchestrator.message import Block, text_of
from orchestrator.parsers.base import ANSWER, Parsed


class Verbatim:
    """Takes nothing for a call, a thought or a tag."""

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
        return Parsed(
            {
                "messageVersion": "2.0",
                "promptType": "ORCHESTRATION",
                "orchestrationParsedResponse": {"rationale": "", "responseDetails": details},
            }
        )
