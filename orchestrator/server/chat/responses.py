"""A turn as a chat completion, whole and in chunks (OpenAI: chat completions)."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request

from orchestrator.engine.trace.reply import Event, Reply, TextDelta, TurnEnd
from orchestrator.server.chat.conversation import ChatRequest
from orchestrator.server.chat.return_control import to_tool_calls
from orchestrator.server.operations import Fault
from orchestrator.server.rest import RestApi, to_sse

_FINISHES = {
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "max_tokens": "length",
    "return_control": "tool_calls",
}
_DONE = b"data: [DONE]\n\n"


def build_completion(asked: ChatRequest, reply: Reply) -> dict[str, Any]:
    """A whole completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.return_control is not None:
        calls = to_tool_calls(reply.return_control, reply.session_id)
        message |= {"content": reply.text or None, "tool_calls": calls}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _map_finish_reason(reply),
    }
    return {
        **_build_head(asked, "chat.completion"),
        "choices": [choice],
        "usage": _render_usage(reply),
    }


async def stream_chunks(
    api: RestApi, request: Request, asked: ChatRequest, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[bytes, None]:
    """The chunks of a completion as server-sent events.

    The first item is empty, for whoever begins the generator; from then on closing it stops the
    turn. A turn that fails ends with an error in a chunk's place.
    """
    head = _build_head(asked, "chat.completion.chunk")
    if asked.counts:
        head["usage"] = None
    async with aclosing(events):
        yield b""
        try:
            yield _render_chunk(head, {"role": "assistant", "content": ""})
            async for event in api.limit_events(events):
                if isinstance(event, TextDelta):
                    if event.text:
                        yield _render_chunk(head, {"content": event.text})
                elif isinstance(event, TurnEnd):
                    for chunk in _final_events(asked, head, event.reply):
                        yield chunk
        except Exception as error:
            yield api.to_error_event(error, request)
            return
    yield _DONE


def _final_events(asked: ChatRequest, head: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
    if reply.return_control is not None:
        calls = to_tool_calls(reply.return_control, reply.session_id)
        deltas = [{"index": index, **call} for index, call in enumerate(calls)]
        yield _render_chunk(head, {"tool_calls": deltas})
    yield _render_chunk(head, {}, _map_finish_reason(reply))
    if asked.counts:
        yield to_sse({**head, "choices": [], "usage": _render_usage(reply)})


def _build_head(asked: ChatRequest, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.model,
    }


def _render_chunk(
    head: Mapping[str, Any], delta: dict[str, Any], finish: str | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return to_sse({**head, "choices": [choice]})


def _map_finish_reason(reply: Reply) -> str:
    return _FINISHES.get(reply.stop_reason, "stop")


def _render_usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    }


_KINDS: Mapping[str, tuple[str, str | None]] = {
    "AccessDeniedException": ("permission_error", "access_denied"),
    "ConflictException": ("invalid_request_error", "conflict"),
    "DependencyFailedException": ("server_error", "dependency_failed"),
    "ModelNotReadyException": ("server_error", "model_not_ready"),
    "ResourceNotFoundException": ("invalid_request_error", "not_found"),
    "ServiceQuotaExceededException": ("invalid_request_error", "limit_exceeded"),
    "ThrottlingException": ("rate_limit_error", "rate_limit_exceeded"),
    "ValidationException": ("invalid_request_error", None),
}


def build_error(fault: Fault) -> dict[str, Any]:
    """The body for an exception of the service."""
    kind, code = _KINDS.get(fault.name, ("server_error", None))
    return {"error": {"message": fault.message, "type": kind, "param": None, "code": code}}
