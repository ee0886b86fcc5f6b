"""The events of a turn as those of Bedrock's response streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from orchestrator.engine.trace.reply import (
    Event,
    Reply,
    ReturnControl,
    TextDelta,
    TracePart,
    TurnEnd,
)
from orchestrator.server.runtime.response_shapes import get_converter

Told = tuple[str, Mapping[str, Any]]
"""An event's name and its members."""

_CHUNK_BYTES = 1_000_000  # (Bedrock: PartBody)
_FILES = 5  # (Bedrock: OutputFiles)
_BEGUN: Told = ("", {})


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the caller wants to be told.

    Attributes:
        trace: The name of the trace part's shape; empty without `enableTrace`.
        streams: Whether the answer comes as it is written (`streamFinalResponse`).
    """

    trace: str = ""
    streams: bool = False


async def stream_completion(
    events: AsyncGenerator[Event, None],
    asked: StreamOptions,
    part: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> AsyncGenerator[Told, None]:
    """The members of a `completion` stream, in the service's order.

    Its first item is nothing yet, for `started`; closing it stops the turn.

    Args:
        events: The turn.
        asked: What the caller wants of it.
        part: A part of the trace as callers are told it.

    Raises:
        OrchestratorError: The turn failed, after its trace was told.
    """
    said = False
    async with aclosing(events):
        yield _BEGUN
        async for event in events:
            if isinstance(event, TracePart):
                if asked.trace:
                    yield "trace", get_converter(asked.trace)(part(event.part))
            elif isinstance(event, TextDelta):
                if asked.streams:
                    for chunk in _chunks(event.text):
                        said = True
                        yield chunk
            elif isinstance(event, TurnEnd):
                for told in _final_events(event.reply, said):
                    yield told


async def start_stream(stream: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    """The stream after its first item: from here on closing it does what its `finally`s say.

    A generator that was never begun is closed without a word to what it holds.
    """
    await anext(stream)
    return stream


def _chunks(text: str, citations: Sequence[Mapping[str, Any]] = ()) -> Iterator[Told]:
    """A text as `chunk`s of the size that the service allows; the last has the citations."""
    content = text.encode("utf-8", "replace")
    start = 0
    while len(content) - start > _CHUNK_BYTES:
        end = start + _CHUNK_BYTES
        while content[end] & 0xC0 == 0x80:  # not within a character
            end -= 1
        yield "chunk", {"bytes": content[start:end]}
        start = end
    last: dict[str, Any] = {"bytes": content[start:]}
    if citations:
        last["attribution"] = {"citations": list(citations)}
    yield "chunk", last


def convert_citations(reply: Reply) -> list[dict[str, Any]]:
    """Bedrock's citations of an answer."""
    told: list[dict[str, Any]] = get_converter("Citations")(reply.citations)
    return told


def _final_events(reply: Reply, said: bool) -> Iterator[Told]:
    if reply.return_control is not None:
        yield "returnControl", _render_return_control(reply.return_control)
    elif said:
        if reply.citations:
            yield from _chunks("", convert_citations(reply))
    else:
        yield from _chunks(reply.text, convert_citations(reply))
    files = reply.files
    for start in range(0, len(files), _FILES):
        yield "files", {"files": files[start : start + _FILES]}


def _render_return_control(control: ReturnControl) -> dict[str, Any]:
    return {
        "invocationId": control.invocation_id,
        "invocationInputs": control.invocation_inputs,
    }
