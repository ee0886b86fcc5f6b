"""Turns of remote agents: asked through InvokeAgent, and sent to the page as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.engine.results import ControlReturn
from orchestrator.errors import (
    DependencyFailed,
    OrchestratorError,
    SessionConflict,
    ValidationError,
)
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import (
    MEMBERS,
    add_states,
    check_members,
    describe_part,
    group_results,
    read_body,
    read_file,
    read_text,
)
from orchestrator.server.workbench.lines import LineResponse, to_line
from orchestrator.server.workbench.pages import read_session
from orchestrator.server.workbench.remote.server import Invocation, RemoteAgent
from orchestrator.server.workbench.remote.sessions import (
    RemoteSession,
    RemoteSessions,
    RemoteTurn,
)
from orchestrator.support.threads import in_thread

_MOST_RUNNING = 16  # turns at the same time: a thread waits for each
_MOST_TEXT = 25_000_000  # bytes of an answer, and of its files


class RemoteActions:
    """What a chat page's buttons do with a remote agent."""

    def __init__(self, sessions: RemoteSessions) -> None:
        self._sessions = sessions
        self._running = 0

    async def ask(self, agent: RemoteAgent, request: Request) -> Response:
        """One turn, or the next part of one that waits; its events come as lines of JSON."""
        body = await read_body(request)
        check_members(body, MEMBERS, "a question")
        session = self._sessions.open(agent.key, read_session(request.path_params["session"]))
        if session.is_busy:
            raise SessionConflict(f"session {session.id!r} is busy with another turn")
        if self._running >= _MOST_RUNNING:
            raise ValidationError(f"{_MOST_RUNNING} turns run already; stop one of them")
        members = _build_members(session, body)
        resumes = body.get("results") is not None
        turn = session.turns[-1] if resumes else RemoteTurn(read_text(body, "question"))
        stream = self._stream(agent, session, turn, members)
        await anext(stream)  # begun: whoever closes it stops the turn
        return LineResponse(stream)

    async def end(self, agent: RemoteAgent, request: Request) -> Response:
        """Ends a session at the server."""
        session = read_session(request.path_params["session"])
        await run_blocking(_end_session, agent, session)
        return JSONResponse({})

    async def forget(self, agent: RemoteAgent, request: Request) -> Response:
        """Forgets what was seen of a session."""
        self._sessions.forget(agent.key, read_session(request.path_params["session"]))
        return JSONResponse({})

    async def forget_memory(self, agent: RemoteAgent, request: Request) -> Response:
        """Has the server forget a memory."""
        memory = read_text(await read_body(request), "memory")
        if not memory:
            raise ValidationError("'memory' must be the id of a memory")
        await run_blocking(agent.server.forget, agent, memory)
        return JSONResponse({})

    async def _stream(
        self,
        agent: RemoteAgent,
        session: RemoteSession,
        turn: RemoteTurn,
        members: Mapping[str, Any],
    ) -> AsyncGenerator[bytes, None]:
        session.is_busy = True
        self._running += 1
        invocation: Invocation | None = None
        try:
            yield b""
            invocation = await _invoke(agent, session.id, members)
            turn.waits, turn.invocation_id, turn.text, turn.error = [], "", "", ""
            async for line in _read_events(invocation, turn):
                yield line
        except OrchestratorError as error:
            turn.error, turn.stop_reason = error.message, "failed"
            kind = type(error).__name__
            yield to_line({"type": "error", "message": error.message, "error": kind})
        finally:
            session.is_busy = False
            self._running -= 1
            # A turn that was never begun, such as one that was refused, leaves nothing.
            if invocation is not None:
                invocation.stop()
                self._sessions.keep(agent.key, session, turn)
                await run_blocking(invocation.close)


async def _invoke(agent: RemoteAgent, session_id: str, members: Mapping[str, Any]) -> Invocation:
    begin = partial(agent.server.invoke, agent, session_id, **members)
    future = in_thread(begin, at_once=False)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        # Whoever asked is gone before the server has answered: then nobody waits for the turn.
        future.add_done_callback(_give_up)
        raise


def _give_up(future: Future[Invocation]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().stop()
        future.result().close()


def _read_inputs(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls that a server hands over.

    Raises:
        DependencyFailed: One has no name.
    """
    inputs = payload.get("invocationInputs") or []
    for item in inputs:
        call: Mapping[str, Any] = next(iter(item.values()), {})
        if "actionGroup" not in call or not ("function" in call or "apiPath" in call):
            raise DependencyFailed("the server hands a call over that has no name")
    return list(inputs)


def _end_session(agent: RemoteAgent, session_id: str) -> None:
    invocation = agent.server.invoke(agent, session_id, endSession=True)
    try:
        while invocation.read() is not None:
            pass
    finally:
        invocation.close()


async def _read_events(invocation: Invocation, turn: RemoteTurn) -> AsyncGenerator[bytes, None]:
    pieces: list[bytes] = []
    size = 0
    while (event := await run_blocking(invocation.read)) is not None:
        if "chunk" in event:
            piece: bytes = event["chunk"].get("bytes", b"")
            pieces.append(piece)
            size += len(piece)
            citations = event["chunk"].get("attribution", {}).get("citations", [])
            size += len(to_line({"citations": citations})) if citations else 0
            turn.citations += citations
            yield to_line({"type": "text", "text": piece.decode("utf-8", "replace")})
        elif "trace" in event:
            turn.add_part(event["trace"])
            for item in describe_part(event["trace"]):
                yield to_line(item)
        elif "files" in event:
            files = event["files"].get("files", [])
            size += sum(len(one.get("bytes", b"")) for one in files)
            names = [
                {"name": one.get("name", ""), "size": len(one.get("bytes", b""))} for one in files
            ]
            yield to_line({"type": "files", "files": names})
        elif "returnControl" in event:
            turn.invocation_id = str(event["returnControl"].get("invocationId", ""))
            turn.waits = _read_inputs(event["returnControl"])
            yield to_line({"type": "waits", "inputs": turn.waits})
        if size > _MOST_TEXT:
            raise ValidationError(f"the server answered with more than {_MOST_TEXT:,} bytes")
    turn.text = b"".join(pieces).decode("utf-8", "replace")
    turn.stop_reason = "return_control" if turn.waits else "end_turn"
    yield to_line(await run_blocking(_describe_end, turn))


def _describe_end(turn: RemoteTurn) -> dict[str, Any]:
    usages = [it.usage for it in turn.steps() if it.usage is not None]
    return {
        "type": "end",
        "text": turn.text,
        "stop_reason": turn.stop_reason,
        "usage": {
            "input_tokens": sum(it.input_tokens for it in usages),
            "output_tokens": sum(it.output_tokens for it in usages),
        },
        "citations": turn.citations,
        "notes": [f"{turn.lost} trace parts were too large to keep"] if turn.lost else [],
    }


def _build_members(session: RemoteSession, body: Mapping[str, Any]) -> dict[str, Any]:
    """The members of InvokeAgent for what a page asks."""
    state: dict[str, Any] = {}
    for name, member in (
        ("attributes", "sessionAttributes"),
        ("prompt_attributes", "promptSessionAttributes"),
    ):
        given = body.get(name) or {}
        if not isinstance(given, dict) or not all(isinstance(it, str) for it in given.values()):
            raise ValidationError(f"{name!r} must be an object of texts")
        if given:
            state[member] = given
    files = body.get("files") or []
    if not isinstance(files, list):
        raise ValidationError("'files' must be a list")
    if files:
        state["files"] = [read_file(one) for one in files]
    if body.get("results") is None:
        return {"inputText": read_text(body, "question"), "sessionState": state}
    waiting = session.turns[-1] if session.turns else None
    if waiting is None or not waiting.waits:
        raise ValidationError(f"session {session.id!r} waits for no results")
    control = ControlReturn(waiting.invocation_id, waiting.waits)
    results = control.answer(group_results(waiting.waits, body["results"]))
    return {"sessionState": {**state, **add_states(results, body.get("states"))}}
