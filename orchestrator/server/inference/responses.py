"""From a model's reply to the output of Converse, and to the events of ConverseStream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from time import monotonic
from typing import Any

from orchestrator.message import Block, text_of, to_json
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models._encoding import blob
from orchestrator.models.base import Usage
from orchestrator.models.blocks import normalise_blocks
from orchestrator.server.inference.requests import has_thinking

Told = tuple[str, Mapping[str, Any]]
"""An event of ConverseStream: its name and its members."""


async def answer(model: Model, request: ModelRequest) -> dict[str, Any]:
    """Converse's output."""
    start = monotonic()
    reply = await model.acomplete(request)
    return {
        "output": {"message": {"role": "assistant", "content": _read_content(reply)}},
        "stopReason": reply.stop_reason,
        **_render_costs(reply.usage, start),
    }


async def stream_answer(model: Model, request: ModelRequest) -> AsyncGenerator[Told, None]:
    """The events of ConverseStream; the first piece of the reply has come when this returns.

    Text is sent as it comes. Models do not report before the end what they thought, and thoughts
    come before text: for a request that has the model think, all blocks are sent at the end.
    """
    start = monotonic()
    pieces = model.astream(request)
    try:
        first = await anext(pieces)
    except BaseException:
        await _close(pieces)
        raise
    events = _events(first, pieces, start, held=has_thinking(request))
    return await _start_stream(events)


async def _start_stream(events: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    # A generator that was never begun is closed without a word to what it holds.
    await anext(events)
    return events


async def _close(pieces: AsyncIterator[str | ModelReply]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


async def _events(
    first: str | ModelReply,
    pieces: AsyncIterator[str | ModelReply],
    start: float,
    *,
    held: bool,
) -> AsyncGenerator[Told, None]:
    try:
        yield "", {}
        yield "messageStart", {"role": "assistant"}
        sent: list[str] = []
        async with aclosing(_prepend(first, pieces)) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    for event in _final_events(item, "".join(sent), start):
                        yield event
                elif item and not held:
                    sent.append(item)
                    yield _delta(0, {"text": item})
    finally:
        await _close(pieces)


async def _prepend(
    first: str | ModelReply, pieces: AsyncIterator[str | ModelReply]
) -> AsyncGenerator[str | ModelReply, None]:
    yield first
    async for item in pieces:
        yield item


def _final_events(reply: ModelReply, sent: str, start: float) -> Iterator[Told]:
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


def _block_events(index: int, block: Block) -> Iterator[Told]:
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


def _delta(index: int, delta: dict[str, Any]) -> Told:
    return "contentBlockDelta", {"delta": delta, "contentBlockIndex": index}


def _read_content(reply: ModelReply) -> list[Block]:
    return [_with_bytes(block) for block in normalise_blocks(reply.content)]


def _with_bytes(block: Block) -> Block:
    redacted = block.get("reasoningContent", {}).get("redactedContent")
    if isinstance(redacted, str):
        return {"reasoningContent": {"redactedContent": blob(redacted)}}
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
