"""A turn as a chat completion, whole and in chunks (OpenAI: chat completions)."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from orchestrator.engine.trace.reply import Event, Reply, TextDelta, TurnEnd
from orchestrator.server.chat.conversation import Asked
from orchestrator.server.chat.errors import error_body
from orchestrator.server.chat.handover import tool_calls
from orchestrator.server.operations import Fault
from orchestrator.server.rest import event_of

__all__ = ["chunks", "completion"]

_FINISHES = {
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "max_tokens": "length",
    "return_control": "tool_calls",
}
_DONE = b"data: [DONE]\n\n"


def completion(asked: Asked, reply: Reply) -> dict[str, Any]:
    """A whole completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.return_control is not None:
        calls = tool_calls(reply.return_control, reply.session_id)
        message |= {"content": reply.text or None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


async def chunks(
    asked: Asked,
    events: AsyncGenerator[Event, None],
    watched: Callable[[AsyncGenerator[Event, None]], AsyncGenerator[Event, None]],
    fault_of: Callable[[BaseException], Fault],
) -> AsyncGenerator[bytes, None]:
    """The chunks of a completion as server-sent events.

    The first item is empty, for whoever begins the generator; from then on closing it stops the
    turn. A turn that fails ends with an error in a chunk's place.

    Args:
        asked: What was asked for.
        events: The turn.
        watched: Gives the events until their time is over.
        fault_of: An error as an exception of the service.
    """
    head = _head(asked, "chat.completion.chunk")
    if asked.counts:
        head["usage"] = None
    async with aclosing(events):
        yield b""
        try:
            yield _event(head, {"role": "assistant", "content": ""})
            async for event in watched(events):
                if isinstance(event, TextDelta):
                    if event.text:
                        yield _event(head, {"content": event.text})
                elif isinstance(event, TurnEnd):
                    for chunk in _ending(asked, head, event.reply):
                        yield chunk
        except Exception as error:
            yield event_of(error_body(fault_of(error))[1])
            return
    yield _DONE


def _ending(asked: Asked, head: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
    if reply.return_control is not None:
        calls = tool_calls(reply.return_control, reply.session_id)
        told = [{"index": index, **call} for index, call in enumerate(calls)]
        yield _event(head, {"tool_calls": told})
    yield _event(head, {}, _finish(reply))
    if asked.counts:
        yield event_of({**head, "choices": [], "usage": _usage(reply)})


def _head(asked: Asked, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.model,
    }


def _event(head: Mapping[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return event_of({**head, "choices": [choice]})


def _finish(reply: Reply) -> str:
    return _FINISHES.get(reply.stop_reason, "stop")


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    }
