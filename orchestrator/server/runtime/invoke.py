"""InvokeAgent and InvokeInlineAgent: from a call to the events of its answer; agents' memories."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.agent.agent import Agent
from orchestrator.agent.build import build
from orchestrator.agent.source import optimize_model
from orchestrator.engine.input_files import MOST_BYTES
from orchestrator.engine.plan import Plan
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.run.options import Options
from orchestrator.engine.trace.reply import Event, Reply, TextDelta, TracePart, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.server.access.permissions import check_retrieval
from orchestrator.server.agents.build import DefinitionReader
from orchestrator.server.buckets import read_uri
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.operations import Caller, EventStream, Handler, Request, StreamEvent
from orchestrator.server.wire.shapes import get_converter
from orchestrator.support.lru_cache import LruCache
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from orchestrator.engine.undecided_calls import Undecided
    from orchestrator.server.agents.build import AgentResources
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.path_redaction import PathRedactor


def operations_of_agents(agents: Agents) -> dict[str, Handler]:
    """InvokeAgent, InvokeInlineAgent, GetAgentMemory and DeleteAgentMemory."""
    resources = agents.resources
    turns = Turns(resources.settings.buckets, resources.redactor)
    return {
        "InvokeInlineAgent": partial(_invoke_inline, turns, InlineAgents(resources)),
        "InvokeAgent": partial(_invoke, agents, turns, OptimizedAgents()),
        "GetAgentMemory": partial(_get_memories, agents),
        "DeleteAgentMemory": partial(_delete_memories, agents),
    }


def _find_agent(agents: Agents, request: Request) -> Agent:
    params = request.params
    return agents.resolve_alias(request.caller, params["agentId"], params["agentAliasId"])


async def _invoke(
    agents: Agents, turns: Turns, optimized: OptimizedAgents, request: Request
) -> EventStream:
    params = request.params
    agent = agents.get_cached(request.caller, params["agentId"], params["agentAliasId"])
    if agent is None:
        agent = await run_blocking(_find_agent, agents, request)
    configurations = params.get("bedrockModelConfigurations")
    if configurations and is_optimized(configurations):
        agent = optimized.of(agent)
    return await turns.stream(agent, request, state="sessionState", trace="TracePart")


def _get_memories(agents: Agents, request: Request) -> Mapping[str, Any]:
    params = request.params
    found = _find_agent(agents, request).memories(params["memoryId"])
    result, token = paginate(
        (((place,), it) for place, it in enumerate(found)),
        params.get("maxItems"),
        params.get("nextToken"),
        f"{params['agentId']}/{params['agentAliasId']}/{params['memoryId']}",
    )
    return render_page("memoryContents", (get_converter("Memories")(result), token))


def _delete_memories(agents: Agents, request: Request) -> Mapping[str, Any]:
    params = request.params
    _find_agent(agents, request).forget(params.get("memoryId"), params.get("sessionId"))
    return {}


_OF_THE_CALL = frozenset(
    (
        *("inputText", "sessionId", "endSession", "enableTrace", "inlineSessionState"),
        *("streamingConfigurations", "promptCreationConfigurations"),
    )
)
_MOST_AGENTS = 128
_MOST_OPTIMIZED = 64


async def _invoke_inline(turns: Turns, agents: InlineAgents, request: Request) -> EventStream:
    agent = await run_blocking(agents.agent, request)
    own = agent.for_tenant(request.caller.tenant)
    return await turns.stream(
        own, request, state="inlineSessionState", trace="InlineAgentTracePart"
    )


class InlineAgents:
    """The agents that were defined in calls, the last ones of them; safe for many threads."""

    def __init__(self, resources: AgentResources) -> None:
        self._resources = resources
        self._kept: LruCache[Agent] = LruCache(_MOST_AGENTS)

    def agent(self, request: Request) -> Agent:
        """The agent that a call defines; may wait for S3, or for an agent that it leads.

        Raises:
            DefinitionError: The definition is wrong, or reaches out of itself.
            Fault: The caller may not use what it names.
            OrchestratorError: What it names is not there, or cannot be read.
        """
        own = {name: it for name, it in request.params.items() if name not in _OF_THE_CALL}
        reader = DefinitionReader(self._resources, request.caller)
        definition = reader.read(own)
        caller = request.caller
        # Faster than `digest`: a definition may be large, and comes with every turn.
        found = [caller.tenant, caller.allow, definition, reader.digests]
        text = json.dumps(found, sort_keys=True, default=repr)
        key = hashlib.sha256(text.encode()).hexdigest()
        return self._kept.get(key, lambda: build(reader.to_source(definition)))


def is_optimized(configurations: Mapping[str, Any] | None) -> bool:
    """Whether a `performanceConfig` in it asks for latency-optimised models."""
    return ((configurations or {}).get("performanceConfig") or {}).get("latency") == "optimized"


class OptimizedAgents:
    """Agents with latency-optimised models: of the agents that were asked so last."""

    def __init__(self) -> None:
        self._plans: LruCache[tuple[Plan, Plan]] = LruCache(_MOST_OPTIMIZED)

    def of(self, agent: Agent) -> Agent:
        """The same agent, all of whose models of Amazon Bedrock are latency-optimised."""
        own = agent.plan
        # Kept with the plan itself, so that no other one can get its id meanwhile.
        _, plan = self._plans.get(str(id(own)), lambda: (own, _optimize_plan(own)))
        quick = copy(agent)
        quick.plan = plan
        return quick


def _optimize_plan(plan: Plan) -> Plan:
    team = [
        one if one.agent is None else replace(one, agent=_optimize_plan(one.agent))
        for one in plan.features.collaborators
    ]
    stages = {
        name: replace(one, model=optimize_model(one.model)) for name, one in plan.stages.items()
    }
    return replace(plan, stages=stages, features=replace(plan.features, collaborators=team))


T = TypeVar("T")
_CONTENT = "application/json"
# Bedrock: PartBody and OutputFiles.
_CHUNK_BYTES = 1_000_000
_FILES = 5


async def run_blocking(function: Callable[..., T], *arguments: Any) -> T:
    """What a function that may block returns, while the event loop goes on."""
    return await asyncio.wrap_future(in_thread(partial(function, *arguments), at_once=False))


class Turns:
    """Has agents answer calls."""

    def __init__(self, buckets: Mapping[str, Path], redactor: PathRedactor) -> None:
        """Takes folders by the buckets that they stand for, and what hides the server's paths."""
        self._buckets = buckets
        self._redactor = redactor

    async def stream(
        self, agent: Agent, request: Request, *, state: str, trace: str
    ) -> EventStream:
        """Has an agent answer, event by event.

        What is wrong with the call is raised here; what goes wrong later ends the events. `state`
        names the member that holds the session's state, `trace` the shape of the trace parts.

        Raises:
            ValidationError: A parameter is wrong.
            SessionConflict: Another invocation has the session.
            AccessDenied: The caller may not use what a parameter names.
        """
        params = request.params
        session_id = params["sessionId"]
        members = {"sessionId": session_id, "contentType": _CONTENT}
        if "memoryId" in params:
            members["memoryId"] = params["memoryId"]
        session = params.get(state) or {}
        results = bool(session.get("returnControlInvocationResults"))
        question = "" if results else params.get("inputText", "")
        if params.get("endSession") and not question.strip() and not results:
            await run_blocking(agent.end_session, session_id)
            return EventStream(await start_stream(_empty_stream()), members)
        if not question.strip() and not results:
            # Whoever asks nothing wants to go on: what has to be decided for that is handed over.
            undecided = await run_blocking(agent.find_undecided, session_id)
            if undecided:
                return EventStream(await start_stream(_hand_over(undecided[0])), members)
        read = partial(read_state, self._buckets, request.caller, session)
        session_state = await run_blocking(read) if _has_s3_files(session) else read()
        shape = trace if params.get("enableTrace") else ""
        streaming = params.get("streamingConfigurations") or {}
        with_text = bool(streaming.get("streamFinalResponse"))
        events = await agent.astart(
            question,
            session_id,
            listen=with_text or bool(shape),
            stream_text=with_text,
            **build_options(params, session_state),
        )
        return EventStream(await start_stream(self._convert(events, shape, with_text)), members)

    async def _convert(
        self, events: AsyncGenerator[Event, None], trace: str, with_text: bool
    ) -> AsyncGenerator[StreamEvent, None]:
        """The members of a `completion` stream, in the service's order.

        `trace` is the shape of trace parts, empty for none; `with_text` sends text as it comes. The
        first item is empty, for `start_stream`; closing the generator stops the turn.
        """
        sent = False
        async with aclosing(events):
            yield "", {}
            async for event in events:
                if isinstance(event, TracePart):
                    if trace:
                        part = self._redactor.redact_trace_part(event.part)
                        yield "trace", get_converter(trace)(part)
                elif isinstance(event, TextDelta):
                    if with_text:
                        for chunk in _chunks(event.text):
                            sent = True
                            yield chunk
                elif isinstance(event, TurnEnd):
                    for item in _final_events(event.reply, sent):
                        yield item


async def start_stream(
    stream: AsyncGenerator[StreamEvent, None],
) -> AsyncGenerator[StreamEvent, None]:
    """The stream after its first item: from here on closing it runs its `finally` blocks."""
    # Closing a generator that never started runs none of its code, and would leave the turn open.
    await anext(stream)
    return stream


async def _empty_stream() -> AsyncGenerator[StreamEvent, None]:
    yield "", {}


async def _hand_over(undecided: Undecided) -> AsyncGenerator[StreamEvent, None]:
    """What a turn waits for somebody to decide, in the shape of a return of control."""
    inputs = [dict(call.input) for call in undecided.calls]
    yield "", {}
    yield "returnControl", render_return_control(ControlReturn(undecided.invocation_id, inputs))


def build_options(params: Mapping[str, Any], state: Mapping[str, Any]) -> Options:
    """InvokeAgent's members as options of a turn."""
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


def _chunks(text: str, citations: Sequence[Mapping[str, Any]] = ()) -> Iterator[StreamEvent]:
    """A text as `chunk`s of the size that the service allows; the last has the citations."""
    content = text.encode("utf-8", "replace")
    start = 0
    while len(content) - start > _CHUNK_BYTES:
        end = start + _CHUNK_BYTES
        # A chunk does not end within a character: each is decoded by itself.
        while content[end] & 0xC0 == 0x80:
            end -= 1
        yield "chunk", {"bytes": content[start:end]}
        start = end
    last: dict[str, Any] = {"bytes": content[start:]}
    if citations:
        last["attribution"] = {"citations": list(citations)}
    yield "chunk", last


def convert_citations(reply: Reply) -> list[dict[str, Any]]:
    """Bedrock's citations of an answer."""
    citations: list[dict[str, Any]] = get_converter("Citations")(reply.citations)
    return citations


def _final_events(reply: Reply, sent: bool) -> Iterator[StreamEvent]:
    if reply.return_control is not None:
        yield "returnControl", render_return_control(reply.return_control)
    elif sent:
        if reply.citations:
            yield from _chunks("", convert_citations(reply))
    else:
        yield from _chunks(reply.text, convert_citations(reply))
    files = reply.files
    for start in range(0, len(files), _FILES):
        yield "files", {"files": files[start : start + _FILES]}


def render_return_control(control: ControlReturn) -> dict[str, Any]:
    """Bedrock's members of returned control."""
    inputs = control.invocation_inputs
    return {"invocationId": control.invocation_id, "invocationInputs": inputs}


def _has_s3_files(state: Mapping[str, Any]) -> bool:
    return any((file.get("source") or {}).get("s3Location") for file in state.get("files") or ())


def read_state(
    buckets: Mapping[str, Path], caller: Caller, state: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A `sessionState` or `inlineSessionState` for the engine, with the bytes of files in S3.

    Raises:
        AccessDenied: The caller may not use what it names.
        ValidationError: A file has no source.
        ResourceNotFound: A file is not there.
        DependencyFailed: A file could not be read.
    """
    for base in state.get("knowledgeBaseConfigurations") or ():
        check_retrieval(caller, base.get("retrievalConfiguration"))
    files = state.get("files")
    if not files:
        return state
    return {**state, "files": [_read_file(buckets, caller, file) for file in files]}


def _read_file(
    buckets: Mapping[str, Path], caller: Caller, file: Mapping[str, Any]
) -> Mapping[str, Any]:
    source = file.get("source")
    # The engine reads files of other forms, which only its own callers may give.
    if not source:
        raise ValidationError(f"the file {file.get('name')!r} has no source")
    if source.get("sourceType") != "S3" or "s3Location" not in source:
        return file
    content = read_uri(source["s3Location"].get("uri", ""), caller, buckets, MOST_BYTES)
    return {**file, "source": {"sourceType": "BYTE_CONTENT", "byteContent": {"data": content}}}
