"""The routes of AG-UI: `POST /ag-ui`, and `POST /ag-ui/AGENT` where there are several agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.engine.trace.reply import Event, TurnEnd
from orchestrator.server.ag_ui.events import RunMapper
from orchestrator.server.ag_ui.older_clients import to_older
from orchestrator.server.ag_ui.requests import CANCELLED, RunRequest, parse_request
from orchestrator.server.chat.responses import build_error
from orchestrator.server.chat.return_control import build_results, find_session
from orchestrator.server.disconnects import EventResponse
from orchestrator.server.operations import Caller, Fault
from orchestrator.server.rest import RestApi, find_agent, read_json, to_sse
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.sessions import session_label

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.server.active_requests import ActiveRequests
    from orchestrator.server.agents.registry import Agents


def routes_of(agents: Agents, running: ActiveRequests) -> list[Route]:
    """The routes; each reads `request.state.caller`, who is calling."""
    before, during = (RestApi(agents, running, render) for render in (build_error, _build_event))

    async def handle(request: Request) -> Response:
        return await before.respond(request, partial(_run, during))

    return [Route(path, handle, methods=["POST"]) for path in ("/ag-ui", "/ag-ui/{agent:path}")]


def _build_event(fault: Fault) -> dict[str, Any]:
    """`RUN_ERROR`, after which nothing comes."""
    return {"type": "RUN_ERROR", "message": fault.message, "code": fault.name}


async def _run(api: RestApi, request: Request) -> Response:
    asked = parse_request(await read_json(request))
    name = request.path_params.get("agent", "")
    agent, events = await _start_turn(api.agents, request.state.caller, name, asked)
    stream = _stream(api, request, asked, agent, events)
    # Begun: whoever closes it closes the turn.
    await anext(stream)
    return EventResponse(stream)


async def _start_turn(
    agents: Agents, caller: Caller, name: str, asked: RunRequest
) -> tuple[Agent, AsyncGenerator[Event, None]]:
    session = asked.run.thread_id
    options = asked.options
    agent = await run_blocking(find_agent, agents, caller, name)
    if asked.results is not None:
        session = find_session(dict.fromkeys(asked.results, ""), session)
        results = await run_blocking(_build_results, agent, session, asked.results)
        options = {**options, "results": results}
    return agent, await agent.astart(asked.question, session, **options)


def _build_results(agent: Agent, session: str, answers: Mapping[str, str | None]) -> dict[str, Any]:
    texts = {id: CANCELLED if text is None else text for id, text in answers.items()}
    return build_results(agent, session, texts, denied={id for id in texts if answers[id] is None})


async def _stream(
    api: RestApi,
    request: Request,
    asked: RunRequest,
    agent: Agent,
    events: AsyncGenerator[Event, None],
) -> AsyncGenerator[bytes, None]:
    """The events as server-sent events; the first item is empty, for whoever begins it."""
    mapper = RunMapper(asked.run)
    # Who sends no version of the protocol is older than the first one.
    encode = _encode if asked.run.protocol_version else _encode_older
    async with aclosing(events):
        yield b""
        try:
            for item in mapper.start():
                yield encode(item)
            async for event in api.limit_events(events):
                if isinstance(event, TurnEnd):
                    attributes = await run_blocking(_read_attributes, agent, asked.run.thread_id)
                    for item in mapper.finish(event, attributes):
                        yield encode(item)
                else:
                    for item in mapper.of(event):
                        yield encode(item)
        except Exception as error:
            yield api.to_error_event(error, request)


def _read_attributes(agent: Agent, session: str) -> Mapping[str, str]:
    return agent.sessions.peek(session_label(agent.plan.owner, session)).attributes


def _encode(event: Any) -> bytes:
    return to_sse(_to_json(event))


def _encode_older(event: Any) -> bytes:
    return to_sse(to_older(_to_json(event)))


def _to_json(event: Any) -> dict[str, Any]:
    members: dict[str, Any] = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    return members
