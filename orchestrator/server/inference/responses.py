"""From a model's reply to the output of Converse, and to the events of ConverseStream."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping
from time import monotonic
from typing import Any

from orchestrator.message import Block, normalise_blocks, text_of, to_json
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.server.inference.requests import has_thinking
from orchestrator.server.operations import StreamEvent


async def answer(model: Model, request: ModelRequest) -> dict[str, Any]:
    """Converse's output."""
    start = monotonic()
    reply = await model.acomplete(request)
    return {
        "output": {"message": {"role": "assistant", "content": _read_content(reply)}},
        "stopReason": reply.stop_reason,
        **_render_costs(reply.usage, start),
    }


async def stream_answer(model: Model, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
    """The events of ConverseStream; the first piece of the reply has come when this returns.

    Text is sent as it comes. Models do not report before the end what they thought, and thoughts
    come before text: for a request that has the model think, all blocks are sent at the end.
    """
    events = _events(model, request)
    await anext(events)
    return events


async def _events(model: Model, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
    """The events, after an empty one when the first piece has come."""
    start, held = monotonic(), has_thinking(request)
    pieces = model.astream(request)
    try:
        item: str | ModelReply | None = await anext(pieces)
        yield "", {}
        yield "messageStart", {"role": "assistant"}
        sent: list[str] = []
        while item is not None:
            if isinstance(item, ModelReply):
                for event in _final_events(item, "".join(sent), start):
                    yield event
            elif item and not held:
                sent.append(item)
                yield _delta(0, {"text": item})
            item = await anext(pieces, None)
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


def _final_events(reply: ModelReply, sent: str, start: float) -> Iterator[StreamEvent]:
    content = _read_content(reply)
    index = 0
    if sent:
        whole = text_of(content)
        if whole.startswith(sent) and whole != sent:
            yield _delta(0, {"text": whole[len(sent) :]})
        yield "contentBlockStop", {"contentBlockIndex": 0}
        content = [block for block in content if "text" not in block]
        index = 1
    for block in content:
        yield from _block_events(index, block)
        index += 1
    yield "messageStop", {"stopReason": reply.stop_reason}
    yield "metadata", _render_costs(reply.usage, start)


def _block_events(index: int, block: Block) -> Iterator[StreamEvent]:
    use = block.get("toolUse")
    if use is not None:
        start = {"toolUseId": use["toolUseId"], "name": use["name"]}
        yield "contentBlockStart", {"start": {"toolUse": start}, "contentBlockIndex": index}
        arguments = use["input"]
        text = arguments if isinstance(arguments, str) else to_json(arguments)
        yield _delta(index, {"toolUse": {"input": text}})
    elif "text" in block:
        yield _delta(index, {"text": block["text"]})
    elif "reasoningContent" in block:
        for member in _thinking_deltas(block["reasoningContent"]):
            yield _delta(index, {"reasoningContent": member})
    yield "contentBlockStop", {"contentBlockIndex": index}


def _thinking_deltas(thought: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "redactedContent" in thought:
        yield {"redactedContent": thought["redactedContent"]}
        return
    text = thought["reasoningText"]
    yield {"text": text["text"]}
    if text.get("signature"):
        yield {"signature": text["signature"]}


def _delta(index: int, delta: dict[str, Any]) -> StreamEvent:
    return "contentBlockDelta", {"delta": delta, "contentBlockIndex": index}


def _read_content(reply: ModelReply) -> list[Block]:
    return [_with_bytes(block) for block in normalise_blocks(reply.content)]


def _with_bytes(block: Block) -> Block:
    redacted = block.get("reasoningContent", {}).get("redactedContent")
    if isinstance(redacted, str):
        return {"reasoningContent": {"redactedContent": b64decode(redacted)}}
    return block


def _render_costs(usage: Usage, start: float) -> dict[str, Any]:
    return {
        "usage": {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "totalTokens": usage.total_tokens,
            "cacheReadInputTokens": usage.cache_read_tokens,
            "cacheWriteInputTokens": usage.cache_write_tokens,
        },
        "metrics": {"latencyMs": int((monotonic() - start) * 1000)},
    }
