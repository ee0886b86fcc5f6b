"""What changes something: questions, results, forks, and the end of sessions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.agent.agent import Agent
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.run.options import Options
from orchestrator.engine.trace.reply import Event, Files, Reply, TextDelta, TracePart, TurnEnd
from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.lines import LineResponse, to_line
from orchestrator.server.workbench.pages import read_session
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.sessions import NEVER, Sessions, session_label
from orchestrator.support.safe_json import json_or

MEMBERS = ("question", "results", "states", "attributes", "prompt_attributes", "files")
_KINDS: dict[type, str] = {dict: "an object of texts", list: "a list"}
_STATES = ("", "FAILURE", "REPROMPT")  # (Bedrock: `responseState`)
# Members of a trace part that repeat the prompt or the whole reply: a page asks for them when they
# are looked at.
_LONG = ("text", "rawResponse", "inferenceConfiguration", "metadata")


class ChatActions:
    """The actions of a chat page."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    async def ask(self, request: Request) -> Response:
        """One turn, or the next part of one that waits; its events come as lines of JSON."""
        body = await read_body(request)
        check_members(body, MEMBERS, "a question")
        project = await find_project(self._projects, request)
        stream = _stream_turn(project, read_session(request.path_params["session"]), body)
        await anext(stream)  # begun: whoever closes it stops the turn
        return LineResponse(stream)

    async def fork(self, request: Request) -> Response:
        """A copy of the session up to a turn, or up to one of its model calls."""
        body = await read_body(request)
        agent, session = await self._find(request)
        call = body.get("call")
        if call is not None and (not isinstance(call, int) or isinstance(call, bool)):
            raise ValidationError("'call' must be the number of a model call")
        turn = read_text(body, "turn")
        new = await run_blocking(lambda: agent.fork(session, turn, call))
        given = await run_blocking(_describe_given, agent, session, turn) if call is None else {}
        return JSONResponse({"session": new, **given})

    async def end(self, request: Request) -> Response:
        """Ends a session; its next turn begins anew."""
        project = await find_project(self._projects, request)
        await run_blocking(_end_session, project, read_session(request.path_params["session"]))
        return JSONResponse({})

    async def delete(self, request: Request) -> Response:
        """Deletes a session and its journal."""
        agent, session = await self._find(request)
        label = session_label(agent.plan.owner, session)
        await run_blocking(delete_session, agent.sessions, label)
        return JSONResponse({})

    async def _find(self, request: Request) -> tuple[Agent, str]:
        project = await find_project(self._projects, request)
        return await run_blocking(project.agent), read_session(request.path_params["session"])


def _describe_given(agent: Agent, session: str, turn_id: str) -> dict[str, Any]:
    """What a turn's question came with; of files the names, as a form cannot send them again."""
    start = next((it.records[0] for it in agent.turns(session) if it.id == turn_id), {})
    given = start.get("with", {})
    files = [*given.get("files", ()), *given.get("attachments", ())]
    names = dict.fromkeys(str(it.get("name") or "a file") for it in files)
    return {
        "attributes": start.get("attributes") or {},
        "prompt_attributes": start.get("prompt_attributes") or {},
        "files": list(names),
    }


def _end_session(project: Project, session: str) -> None:
    with project.use() as agent:
        agent.end_session(session)


async def _stream_turn(
    project: Project, session: str, body: Mapping[str, Any]
) -> AsyncGenerator[bytes, None]:
    with ExitStack() as held:
        agent = await run_blocking(held.enter_context, project.use())
        options = await run_blocking(_read_options, agent, session, body)
        events = await agent.astart(read_text(body, "question"), session, **options)
        async with aclosing(stream_events(events)) as lines:
            async for line in lines:
                yield line


def delete_session(sessions: Sessions, label: str) -> None:
    """Deletes the session with a label, and its journal.

    Raises:
        SessionConflict: Another process runs a turn of it.
    """
    session = sessions.acquire(label, NEVER)
    try:
        sessions.refuse_running(session)
        sessions.store.delete(session.key)
    finally:
        sessions.abandon(session)


async def find_project(projects: Projects, request: Request) -> Project:
    """The agent of a request; to find it may compile agents, which takes a thread.

    Raises:
        ResourceNotFound: There is none.
    """
    return await run_blocking(projects.find, request.path_params["agent"])


async def read_body(request: Request) -> Mapping[str, Any]:
    """The JSON object that a request brings.

    Raises:
        ValidationError: It is none.
    """
    text = (await request.body()).decode("utf-8", "replace")
    body = json_or(text, None) if text else {}
    if not isinstance(body, dict):
        raise ValidationError("the body must be a JSON object")
    return body


def check_members(body: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Checks the names of what comes with a request.

    Raises:
        ValidationError: One is unknown.
    """
    if unknown := body.keys() - {*known}:
        raise ValidationError(f"there is no member {min(unknown)!r} of {what}")


def read_text(body: Mapping[str, Any], name: str) -> str:
    """A text of a body; empty where it is left out.

    Raises:
        ValidationError: It is no text.
    """
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise ValidationError(f"{name!r} must be a text")
    return value


def _read_options(agent: Agent, session: str, body: Mapping[str, Any]) -> Options:
    options: Options = {}
    for name, kind in (("attributes", dict), ("prompt_attributes", dict), ("files", list)):
        if body.get(name) is not None and not isinstance(body[name], kind):
            raise ValidationError(f"{name!r} must be {_KINDS[kind]}")
    if body.get("attributes"):
        options["session_attributes"] = body["attributes"]
    if body.get("prompt_attributes"):
        options["prompt_session_attributes"] = body["prompt_attributes"]
    if body.get("files"):
        options["files"] = [read_file(one) for one in body["files"]]
    if body.get("results") is not None:
        results = _build_results(agent, session, body["results"])
        options["results"] = add_states(results, body.get("states"))
    return options


def read_file(given: Any) -> dict[str, Any]:
    """A file of a question in the shape of Bedrock's `sessionState`.

    Raises:
        ValidationError: It is none.
    """
    try:
        data = base64.b64decode(given["data"], validate=True)
        name, kind = str(given["name"]), str(given.get("type") or "application/octet-stream")
    except (TypeError, LookupError, binascii.Error, ValueError) as error:
        raise ValidationError("a file has a 'name', a 'type' and its 'data' in Base64") from error
    source = {"sourceType": "BYTE_CONTENT", "byteContent": {"data": data, "mediaType": kind}}
    return {"name": name, "source": source, "useCase": "CHAT"}


def _build_results(agent: Agent, session: str, given: Any) -> dict[str, Any]:
    """The results of the calls that a session waits for; `given` has one a call, in their order."""
    log = agent.sessions.peek(session_label(agent.plan.owner, session)).open
    waits = log.suspend_record if log is not None else None
    if waits is None:
        raise ValidationError(f"session {session!r} waits for no results")
    if waits.get("undecided"):  # a form's yes or no would leave open what is meant by it
        raise ValidationError(
            f"session {session!r} waits for a decision about calls whose outcome nobody knows: "
            f"give it with `orchestrator sessions decide {session}`"
        )
    control = ControlReturn(waits["invocation_id"], waits["inputs"])
    return control.answer(group_results(waits["inputs"], given))


def group_results(inputs: Sequence[Mapping[str, Any]], given: Any) -> dict[str, Any]:
    """Results by the names of their calls, as `ControlReturn.answer` takes them.

    Raises:
        ValidationError: They are not as many as the calls.
    """
    if not isinstance(given, list) or len(given) != len(inputs):
        raise ValidationError(f"{len(inputs)} calls wait: give a list of as many results")
    by_name: dict[str, list[Any]] = {}
    for item, value in zip(inputs, given, strict=True):
        call = next(iter(item.values()))
        by_name.setdefault(str(call.get("function") or call["apiPath"]), []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in by_name.items()}


def add_states(results: dict[str, Any], states: Any) -> dict[str, Any]:
    """The results, with how each call went where it did not go well; `states` has one a call."""
    items = results["returnControlInvocationResults"]
    if states is None:
        return results
    if not isinstance(states, list) or [*states] != [it for it in states if it in _STATES]:
        raise ValidationError("'states' must be a list of '', 'FAILURE' and 'REPROMPT'")
    for item, state in zip(items, states, strict=False):
        (result,) = item.values()
        # A call that was denied was not carried out.
        if state and "responseBody" in result:
            result["responseState"] = state
    return results


async def stream_events(events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
    """The events of a turn as lines; closing it stops the turn."""
    async with aclosing(events):
        yield b""
        try:
            async for event in events:
                for item in describe_event(event):
                    yield to_line(item)
        except OrchestratorError as error:
            yield to_line(
                {"type": "error", "message": error.message, "error": type(error).__name__}
            )


def describe_event(event: Event) -> Iterator[dict[str, Any]]:
    """An event as the page reads it."""
    if isinstance(event, TextDelta):
        yield {"type": "text", "text": event.text}
    elif isinstance(event, TracePart):
        yield from describe_part(event.part)
    elif isinstance(event, ControlReturn):
        yield {"type": "waits", "inputs": event.invocation_inputs}
    elif isinstance(event, Files):
        names = [{"name": one["name"], "size": len(one["bytes"])} for one in event.files]
        yield {"type": "files", "files": names}
    elif isinstance(event, TurnEnd):
        yield _describe_end(event.reply)


def _describe_end(reply: Reply) -> dict[str, Any]:
    return {
        "type": "end",
        "text": reply.text,
        "stop_reason": reply.stop_reason,
        "session": reply.session_id,
        "usage": reply.usage._asdict(),
        "citations": reply.citations,
        "notes": reply.notes,
    }


def describe_part(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A trace part as the page reads it: without the prompt and the whole reply."""
    agent = part.get("collaboratorName", "")
    for stage, members in (part.get("trace") or {}).items():
        for kind, value in members.items() if isinstance(members, Mapping) else ():
            if isinstance(value, Mapping):
                short = {name: one for name, one in value.items() if name not in _LONG}
                if kind in ("rationale", "observation"):
                    short = dict(value)
                yield {"type": "step", "agent": agent, "stage": stage, "kind": kind, **_flat(short)}


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"value": value}
