"""One invocation of an agent: from an operation's parameters to the events of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.agent.agent import Agent
from orchestrator.engine.run.options import Options
from orchestrator.server.operations import EventStream, Request
from orchestrator.server.runtime.events import StreamOptions, Told, start_stream, stream_completion
from orchestrator.server.runtime.session_state import has_s3_files, read_state
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
