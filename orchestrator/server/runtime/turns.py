"""One invocation of an agent: from an operation's parameters to the events of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.agent.agent import Agent
from orchestrator.engine.input_files import MOST_BYTES
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.run.options import Options
from orchestrator.engine.trace.reply import Event, Reply, TextDelta, TracePart, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.server.access.permissions import check_retrieval
from orchestrator.server.buckets import read_uri
from orchestrator.server.operations import Caller, EventStream, Request
from orchestrator.server.wire.shapes import get_converter
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

T = TypeVar("T")

_CONTENT = "application/json"


async def run_blocking(function: Callable[..., T], *arguments: Any) -> T:
    """What a function that may wait gives, without the event loop waiting for it."""
    return await asyncio.wrap_future(in_thread(partial(function, *arguments)))


async def stream_turn(
    world: ServerState, agent: Agent, request: Request, *, state: str, trace: str
) -> EventStream:
    """Has an agent answer, event by event.

    What is wrong with the call is raised here; what goes wrong later ends the events.

    Args:
        world: What the server has open.
        agent: The agent; its sessions are the tenant's.
        request: The call.
        state: What the operation calls the session's state.
        trace: The shape of its trace parts.

    Raises:
        ValidationError: A parameter is wrong.
        SessionConflict: Another invocation has the session.
        Fault: The caller may not use what a parameter names.
    """
    params = request.params
    session_id = params["sessionId"]
    members = {"sessionId": session_id, "contentType": _CONTENT}
    if "memoryId" in params:
        members["memoryId"] = params["memoryId"]
    given = params.get(state) or {}
    results = bool(given.get("returnControlInvocationResults"))
    question = "" if results else params.get("inputText", "")
    if params.get("endSession") and not question.strip() and not results:
        await run_blocking(agent.end_session, session_id)
        return EventStream(await start_stream(_empty_stream()), members)
    read = partial(read_state, world, request.caller, given)
    options = _build_options(params, await run_blocking(read) if has_s3_files(given) else read())
    asked = StreamOptions(trace if params.get("enableTrace") else "", _is_streaming(params))
    listen = bool(asked.trace) or asked.streams
    events = await agent.astart(question, session_id, listen=listen, **options)
    return EventStream(
        await start_stream(stream_completion(events, asked, world.places.redact_trace_part)),
        members,
    )


async def _empty_stream() -> AsyncGenerator[Told, None]:
    yield "", {}


def _is_streaming(params: Mapping[str, Any]) -> bool:
    return bool((params.get("streamingConfigurations") or {}).get("streamFinalResponse"))


def _build_options(params: Mapping[str, Any], state: Mapping[str, Any]) -> Options:
    options: Options = {}
    if state:
        options["session_state"] = state
    if params.get("endSession"):
        options["end_session"] = True
    if "memoryId" in params:
        options["memory_id"] = params["memoryId"]
    if "promptCreationConfigurations" in params:
        options["prompt_creation_configurations"] = params["promptCreationConfigurations"]
    if "streamingConfigurations" in params:
        options["streaming_configurations"] = params["streamingConfigurations"]
    return options


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


def _render_return_control(control: ControlReturn) -> dict[str, Any]:
    return {
        "invocationId": control.invocation_id,
        "invocationInputs": control.invocation_inputs,
    }


def has_s3_files(state: Mapping[str, Any]) -> bool:
    """Whether a file of the state is in S3: to read it may take its time."""
    return any((file.get("source") or {}).get("s3Location") for file in state.get("files") or ())


def read_state(world: ServerState, caller: Caller, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `sessionState` or `inlineSessionState` as the engine may have it.

    Args:
        world: What the server has open.
        caller: Who tells it.
        state: Bedrock's members, as boto3's caller gives them.

    Returns:
        The state; the bytes of files in S3 are in it.

    Raises:
        Fault: The caller may not use what it names.
        ValidationError: A file has no source.
        ResourceNotFound: A file is not there.
        DependencyFailed: A file could not be read.
    """
    for base in state.get("knowledgeBaseConfigurations") or ():
        check_retrieval(caller, base.get("retrievalConfiguration"))
    files = state.get("files")
    if not files:
        return state
    return {**state, "files": [_read_file(world, caller, file) for file in files]}


def _read_file(world: ServerState, caller: Caller, file: Mapping[str, Any]) -> Mapping[str, Any]:
    source = file.get("source")
    if not source:  # the engine reads files of other forms, which only its own callers may give
        raise ValidationError(f"the file {file.get('name')!r} has no source")
    if source.get("sourceType") != "S3" or "s3Location" not in source:
        return file
    content = read_uri(
        source["s3Location"].get("uri", ""), caller, world.settings.buckets, MOST_BYTES
    )
    return {**file, "source": {"sourceType": "BYTE_CONTENT", "byteContent": {"data": content}}}
