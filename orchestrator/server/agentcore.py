"""The contract of Amazon Bedrock AgentCore's runtime: one agent behind `POST /invocations`.

A container that answers these two paths on port 8080 can be deployed there (AWS: "Understand the
AgentCore Runtime service contract"). The body is the agent's own affair; here it has InvokeAgent's
members, or a `prompt`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator.engine.trace.reply import Event, Reply, TextDelta, TracePart, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.server.disconnects import EventResponse
from orchestrator.server.operations import Fault
from orchestrator.server.rest import RestApi, find_agent, read_json, to_sse, wait_for_reply
from orchestrator.server.runtime.invoke import (
    build_options,
    read_state,
    render_return_control,
    run_blocking,
)
from orchestrator.server.wire.requests import read_members

if TYPE_CHECKING:
    from orchestrator.server.active_requests import ActiveRequests
    from orchestrator.server.agents.registry import Agents

_SESSION = "x-amzn-bedrock-agentcore-runtime-session-id"
_LONGEST = 256
_SESSION_ID = re.compile(r"[0-9a-zA-Z._:-]{2,100}")
_QUESTIONS = ("prompt", "inputText", "input", "message")
_MEMBERS = frozenset(
    {"enableTrace", "endSession", "memoryId", "promptCreationConfigurations", "sessionState"}
)


def routes_of(agents: Agents, running: ActiveRequests) -> list[Route]:
    """The routes; `/invocations` reads `request.state.caller`, who is calling."""
    runtime = _Runtime(RestApi(agents, running, _render_error))
    return [
        Route("/invocations", runtime.invoke, methods=["POST"]),
        Route("/ping", runtime.ping, methods=["GET"]),
    ]


class _Runtime:
    def __init__(self, api: RestApi) -> None:
        self._api = api
        self._turns = 0
        self._since = int(time.time())

    async def ping(self, request: Request) -> Response:
        """Whether the server is well, and busy; asked again and again by whoever runs it."""
        request.state.context.name("agentcore", "Ping")
        status = "HealthyBusy" if self._turns else "Healthy"
        return JSONResponse({"status": status, "time_of_last_update": self._since})

    async def invoke(self, request: Request) -> Response:
        """One turn."""
        request.state.context.name("agentcore", "Invocations")
        self._add_turns(1)
        busy = True
        try:
            answer = await self._api.respond(request, self._answer)
            # A stream counts as a running turn until it ends.
            busy = not isinstance(answer, EventResponse)
            return answer
        finally:
            if busy:
                self._add_turns(-1)

    async def _answer(self, request: Request) -> Response:
        body = await read_json(request)
        session_id = _read_session_id(request.headers.get(_SESSION), body)
        request.state.context.session_id = session_id
        name = body.get("agent") or request.query_params.get("agent") or ""
        if not isinstance(name, str):
            raise ValidationError("'agent' must be the name or id of an agent")
        members = read_members("bedrock-agent-runtime", "InvokeAgent", _MEMBERS, body)
        state = members.get("sessionState") or {}
        question = "" if state.get("returnControlInvocationResults") else _read_question(body)
        caller, agents = request.state.caller, self._api.agents
        state = await run_blocking(read_state, agents.resources.settings.buckets, caller, state)
        agent = await run_blocking(find_agent, agents, caller, name)
        streams = "text/event-stream" in request.headers.get("accept", "")
        options = build_options(members, state)
        events = await agent.astart(question, session_id, listen=streams, **options)
        if not streams:
            reply = await wait_for_reply(self._api.limit_events(events))
            return JSONResponse(_render_reply(reply))
        stream = self._events(request, events, bool(members.get("enableTrace")))
        await anext(stream)
        return EventResponse(stream)

    async def _events(
        self, request: Request, events: AsyncGenerator[Event, None], traced: bool
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(events):
                # Begun: from here on closing it stops the turn.
                yield b""
                try:
                    async for event in self._api.limit_events(events):
                        for part in self._render_event(event, traced):
                            yield to_sse(part)
                except Exception as error:
                    yield self._api.to_error_event(error, request)
        finally:
            self._add_turns(-1)

    def _render_event(self, event: Event, traced: bool) -> Iterator[Mapping[str, Any]]:
        if isinstance(event, TextDelta) and event.text:
            yield {"chunk": {"text": event.text}}
        elif isinstance(event, TracePart) and traced:
            yield {"trace": self._api.redactor.redact_trace_part(event.part)}
        elif isinstance(event, TurnEnd):
            yield {"end": _render_reply(event.reply)}

    def _add_turns(self, change: int) -> None:
        was = self._turns
        self._turns = was + change
        if bool(was) != bool(self._turns):
            self._since = int(time.time())


def _render_error(fault: Fault) -> dict[str, Any]:
    return {"error": fault.message, "errorType": fault.name}


def _read_session_id(header: str | None, body: Mapping[str, Any]) -> str:
    value = header if header is not None else body.get("sessionId")
    if value is None:
        return str(uuid.uuid4())
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise ValidationError(f"a session id has 1 to {_LONGEST} characters")
    if _SESSION_ID.fullmatch(value):
        return value
    # AgentCore's may be longer than Bedrock's, and have other characters.
    return f"agentcore-{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()}"


def _read_question(body: Mapping[str, Any]) -> str:
    inside = body.get("input")
    for members in (body, inside if isinstance(inside, dict) else {}):
        for name in _QUESTIONS:
            if isinstance(value := members.get(name), str):
                return value
    raise ValidationError(f"the body has no question; give it as {_QUESTIONS[0]!r}")


def _render_reply(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    result: dict[str, Any] = {
        "response": reply.text,
        "status": "success",
        "stopReason": reply.stop_reason,
        "sessionId": reply.session_id,
        "usage": {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens},
    }
    if reply.citations:
        result["citations"] = reply.citations
    if reply.return_control is not None:
        result["returnControl"] = render_return_control(reply.return_control)
    if reply.files:
        result["files"] = [
            {**file, "bytes": base64.b64encode(file["bytes"]).decode()} for file in reply.files
        ]
    return result
