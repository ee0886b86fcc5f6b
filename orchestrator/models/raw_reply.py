"""A model's reply as the JSON of its provider, as Bedrock's traces have it (recorded).

Claude's replies have the form of Anthropic's Messages, those of every other model Converse's; a
reply is never a mixture of both. What Converse does not say is made: a message's id of the
request's, the model's name of its Bedrock id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator.message import Block, text_to_json, to_json
from orchestrator.models.base import Usage

_CLAUDE_ID = re.compile(r"(?:^|[./])(claude-[a-z0-9.-]+?)(?:-v[0-9]+(?::[0-9a-z]+)?)?$")

# The members of a block in the service's own classes, which it writes whether they are set or not.
_MESSAGES_BLOCK: dict[str, Any] = dict.fromkeys(
    (
        *("imageSource", "reasoningTextSignature", "reasoningRedactedContent", "name", "type"),
        *("id", "source", "input", "is_error", "text", "content", "reasoningText"),
        *("guardContent", "tool_use_id"),
    )
)
_CONVERSE_BLOCK: dict[str, Any] = dict.fromkeys(
    (
        *("text", "image", "document", "video", "toolUse", "toolResult", "guardContent"),
        *("cachePoint", "reasoningContent", "citationsContent"),
    )
)


def raw_reply(
    model_id: str,
    content: Sequence[Block],
    stop_reason: str,
    usage: Sequence[int],
    *,
    request_id: str,
    milliseconds: int,
    stop_sequence: str | None = None,
    padded: bool = False,
) -> str:
    """A reply as JSON text.

    Args:
        model_id: The model's id, which says the provider.
        content: Converse content blocks.
        stop_reason: Converse's.
        usage: The tokens, in the order of `Usage`.
        request_id: The UUID of the request, for the message's id.
        milliseconds: How long the model took.
        stop_sequence: The stop sequence that ended the reply, if it is known.
        padded: Whether members that are not set are there, as `null`.
    """
    tokens = usage if isinstance(usage, Usage) else Usage(*usage)
    if claude := find_claude(model_id):
        # Only what differs is encoded: with all of it, a trace took an eighth longer (measured).
        encoded = ", ".join([_encode_messages_block(one, padded) for one in content])
        id = f"msg_bdrk_{request_id.replace('-', '')}"
        stop = "null" if stop_sequence is None else text_to_json(stop_sequence)
        return (
            f'{{"id": {text_to_json(id)}, "type": "message", '
            f'"role": "assistant", "model": "{claude}", "content": [{encoded}], '
            f'"stop_reason": {text_to_json(stop_reason)}, '
            f'"stop_sequence": {stop}, "usage": {{"input_tokens": {tokens.input_tokens}, '
            f'"output_tokens": {tokens.output_tokens}, '
            f'"cache_read_input_tokens": {tokens.cache_read_tokens or "null"}, '
            f'"cache_creation_input_tokens": {tokens.cache_write_tokens or "null"}}}}}'
        )
    blocks = [_pad(_name_type(one, padded), _CONVERSE_BLOCK, padded) for one in content]
    reply: dict[str, Any] = {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": stop_reason,
        "usage": _converse_usage(tokens, padded),
        "metrics": {"latencyMs": milliseconds},
    }
    if padded:
        reply |= dict.fromkeys(("additionalModelResponseFields", "trace", "performanceConfig"))
    return to_json(reply)


@lru_cache(maxsize=64)
def find_claude(model_id: str) -> str:
    """Anthropic's own name of a Claude model, by its id anywhere; empty for other models."""
    named = _CLAUDE_ID.search(model_id.lower())
    return named[1] if named else ""


def _encode_messages_block(block: Block, padded: bool) -> str:
    if padded:
        return to_json(_MESSAGES_BLOCK | _to_messages(block))
    if "text" in block:  # as most are
        return f'{{"type": "text", "text": {text_to_json(block["text"])}}}'
    if "toolUse" in block:
        use = block["toolUse"]
        id, name = text_to_json(use["toolUseId"]), text_to_json(use["name"])
        given = to_json(use["input"])
        return f'{{"type": "tool_use", "id": {id}, "name": {name}, "input": {given}}}'
    return to_json(_to_messages(block))


def _to_messages(block: Block) -> dict[str, Any]:
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    if "toolUse" in block:
        use = block["toolUse"]
        id, name = use["toolUseId"], use["name"]
        return {"type": "tool_use", "id": id, "name": name, "input": use["input"]}
    reasoning = block.get("reasoningContent")
    if reasoning is None:
        return dict(block)
    if "reasoningText" not in reasoning:
        return {"type": "redacted_thinking", "data": reasoning.get("redactedContent")}
    thought = reasoning["reasoningText"]
    return {"type": "thinking", "thinking": thought["text"], "signature": thought.get("signature")}


def _name_type(block: Block, padded: bool) -> Block:
    return (
        {"toolUse": {**block["toolUse"], "type": None}} if padded and "toolUse" in block else block
    )


def _pad(block: Block, members: Mapping[str, Any], padded: bool) -> Block:
    return {**members, **block} if padded else block


def _converse_usage(tokens: Usage, padded: bool) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "inputTokens": tokens.input_tokens,
        "outputTokens": tokens.output_tokens,
        "totalTokens": tokens.total_tokens,
    }
    cached = {"Read": tokens.cache_read_tokens, "Write": tokens.cache_write_tokens}
    for name, count in cached.items():
        if count or padded:
            usage[f"cache{name}InputTokens"] = count or None
        if padded:
            usage[f"cache{name}InputTokenCount"] = count or None
    return usage
