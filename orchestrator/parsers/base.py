"""What a parser is, and what it returns.

The result is the object that Bedrock's parser Lambda returns (AWS: "Write a custom parser Lambda
function"), with `messageVersion` and `promptType`. Orchestration results use version `"2.0"`,
whose `actionGroupInvocations` and `agentKnowledgeBases` are lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from orchestrator.message import Block

# The member of each stage's object that holds the result (AWS: "Write a custom parser Lambda
# function").
MEMBERS = {
    "PRE_PROCESSING": "preProcessingParsedResponse",
    "ORCHESTRATION": "orchestrationParsedResponse",
    "ROUTING_CLASSIFIER": "routingClassifierParsedResponse",
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": "knowledgeBaseResponseGenerationParsedResponse",
    "POST_PROCESSING": "postProcessingParsedResponse",
    "MEMORY_SUMMARIZATION": "memorySummarizationParsedResponse",
}

# Kinds of pieces that `Parser.feed` returns.
THINKING, ANSWER, CALL = "thinking", "answer", "call"


@dataclass(slots=True)
class Parsed:
    """What a reply means."""

    response: dict[str, Any]  # the parser-Lambda object
    # The reason code (see `orchestrator.parsers.codes`) when the reply could not be understood;
    # `response` then has `parsingErrorDetails` if its stage has that member.
    code: str = ""
    notes: tuple[str, ...] = ()  # leniencies that were needed to understand the reply
    # The call that could not be understood, as the model wrote it; empty when the mistake is no
    # call's.
    raw: str = ""
    # The calls that the reply makes in its text: what of each, as the model wrote it, names it
    # and its values
    written: tuple[str, ...] = ()


def build_response(stage: str, result: dict[str, Any]) -> dict[str, Any]:
    """The parser-Lambda object of a stage's result."""
    version = "2.0" if stage == "ORCHESTRATION" else "1.0"
    return {"messageVersion": version, "promptType": stage, MEMBERS[stage]: result}


class Parser(Protocol):
    """Reads one reply as it streams. Never raises on any input, and takes linear time.

    A custom parser (`orchestrator.actions.parser_lambda`) may raise `DependencyFailed` in `finish`.
    """

    # Whether `finish` may wait for more than the processor, so that it must not run in an event
    # loop's thread. It is the same for all parsers of one maker.
    blocking: ClassVar[bool]

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece of the reply's text; returns what it now knows, as (kind, text).

        The `ANSWER` pieces of a reply that ends the turn, joined, are the final response's text if
        an answer tag was opened outside the thinking; else the text is known only at the end. White
        space at the answer's ends is held back. Only a message to the user (`AgentCommunication`)
        after such an answer adds to its text.
        """
        ...

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply and returns its meaning.

        Args:
            blocks: The reply's content blocks, for native tool calls; text that was not fed
                before (nothing was fed at all) is taken from them.
        """
        ...
