"""Text-completion models of Bedrock: their bodies for InvokeModel and their replies.

Anthropic Claude 2 and Instant and Amazon Titan Text answer one prompt text each in a JSON shape
of their own (AWS: "Inference request parameters and response fields for foundation models").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.models.base import Usage, read_token_count

_METRICS = "amazon-bedrock-invocationMetrics"


class Piece(NamedTuple):
    """What one reply, or one chunk of a stream, says."""

    text: str  # the text of this piece
    stop_reason: str  # Converse's name of the reason; empty while there is more to come


class TextShape(NamedTuple):
    """How a family writes a request and a reply."""

    body: Callable[[str, Mapping[str, Any]], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], Piece]


def shape_of(model_id: str) -> TextShape | None:
    """The shape for a model id or ARN; `None` when it has to be asked through Converse."""
    for pattern, shape in _SHAPES:
        if pattern in model_id:
            return shape
    return None


def metrics_of(chunk: Mapping[str, Any]) -> Usage | None:
    """The token counts that the last chunk of a stream carries."""
    counts = chunk.get(_METRICS)
    if not counts:
        return None
    return Usage(
        read_token_count(counts.get("inputTokenCount")),
        read_token_count(counts.get("outputTokenCount")),
        calls=1,
    )


def _map_parameters(names: Mapping[str, str], inference: Mapping[str, Any]) -> dict[str, Any]:
    return {theirs: inference[ours] for ours, theirs in names.items() if ours in inference}


_CLAUDE = {"temperature": "temperature", "topP": "top_p", "topK": "top_k"}
_CLAUDE_STOPS = {"max_tokens": "max_tokens", "stop_sequence": "stop_sequence"}
_TITAN = {
    "maximumLength": "maxTokenCount",
    "temperature": "temperature",
    "topP": "topP",
    "stopSequences": "stopSequences",
}
_TITAN_STOPS = {
    "CONTENT_FILTERED": "content_filtered",
    "LENGTH": "max_tokens",
    "STOP_CRITERIA_MET": "stop_sequence",
}


def _claude_body(prompt: str, inference: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "prompt": prompt,
        "max_tokens_to_sample": inference.get("maximumLength", 2048),
        **_map_parameters(_CLAUDE, inference),
    }
    if inference.get("stopSequences"):
        body["stop_sequences"] = inference["stopSequences"]
    return body


def _claude_read(reply: Mapping[str, Any]) -> Piece:
    reason = reply.get("stop_reason") or ""
    return Piece(reply.get("completion") or "", reason and _CLAUDE_STOPS.get(reason, "end_turn"))


def _titan_body(prompt: str, inference: Mapping[str, Any]) -> dict[str, Any]:
    return {"inputText": prompt, "textGenerationConfig": _map_parameters(_TITAN, inference)}


def _titan_read(reply: Mapping[str, Any]) -> Piece:
    # A whole answer has a list of results; a chunk of a stream has the members of one.
    result = (reply.get("results") or [reply])[0]
    reason = result.get("completionReason") or ""
    return Piece(result.get("outputText") or "", reason and _TITAN_STOPS.get(reason, "end_turn"))


_ANTHROPIC = TextShape(_claude_body, _claude_read)
_SHAPES = (
    ("anthropic.claude-v2", _ANTHROPIC),
    ("anthropic.claude-instant", _ANTHROPIC),
    ("amazon.titan-text", TextShape(_titan_body, _titan_read)),
)
