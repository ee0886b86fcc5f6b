"""The pages of remote agents: what Bedrock's API tells of them, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.actions.base import Operation
from orchestrator.errors import OrchestratorError, ResourceNotFound
from orchestrator.message import to_json
from orchestrator.server.workbench.costs import Prices, find_cost, join_costs
from orchestrator.server.workbench.overview import describe_operation
from orchestrator.server.workbench.pages import read_number, read_session, show
from orchestrator.server.workbench.parts import list_texts
from orchestrator.server.workbench.remote.server import RemoteAgent, RemoteServer
from orchestrator.server.workbench.remote.sessions import RemoteSessions, RemoteTurn, read_calls
from orchestrator.server.workbench.remote.trace_steps import TraceStep
from orchestrator.server.workbench.result_forms import describe_forms
from orchestrator.server.workbench.turn_view import (
    build_turn_view,
    measure_steps,
    sum_costs,
    sum_up,
)
from orchestrator.support.safe_json import json_or

_LONGEST = 200_000  # characters of a prompt on a page


class RemotePages:
    """The pages, by their paths below an agent's: those of local agents with the same paths."""

    def __init__(self, sessions: RemoteSessions, prices: Prices) -> None:
        self._sessions = sessions
        self._prices = prices
        session = "/sessions/{session}"
        turn = f"{session}/turns/{{turn}}"
        self.pages: dict[str, Callable[[RemoteAgent, Request], Response]] = {
            "": self.show_agent,
            session: self.show_session,
            turn: self.show_turn,
            f"{turn}/trace": self.show_trace,
            f"{turn}/steps/{{step}}": self.show_step,
            f"{turn}/steps/{{step}}/parts": self.show_parts,
            "/memory": self.show_memory,
        }

    def describe_server(self, server: RemoteServer) -> dict[str, Any]:
        """A server and its agents, for the page of all."""
        try:
            agents = [
                {**_describe(one), "sessions": len(self._sessions.list(one.key))}
                for one in server.list_agents()
            ]
        except OrchestratorError as error:
            return {"url": server.url, "agents": [], "wrong": error.message}
        return {"url": server.url, "agents": agents, "wrong": ""}

    def show_agent(self, agent: RemoteAgent, request: Request) -> Response:
        """One agent: what it is made of, its aliases, and the sessions that were held here."""
        wrong = ""
        operations: list[Operation] = []
        try:
            data = agent.server.read_definition(agent).data
            operations = agent.server.list_operations(agent)
            aliases = agent.server.list_aliases(agent.agent_id)
        except OrchestratorError as error:  # it may answer all the same
            data, aliases, wrong = {}, [], error.message
        document = {
            "agent": _describe(agent),
            "wrong": wrong,
            "instruction": str(data.get("instruction") or ""),
            "model": str(data.get("foundationModel") or ""),
            "alias": agent.alias_id,
            "aliases": [{**one, "key": replace(agent, alias_id=one["id"]).key} for one in aliases],
            "operations": list(map(describe_operation, operations)),
            "sessions": [
                {"id": one.id, "turns": len(one.turns), "updated": one.updated}
                for one in self._sessions.list(agent.key)
            ],
        }
        return show(request, "remote_agent.html", document)

    def show_memory(self, agent: RemoteAgent, request: Request) -> Response:
        """What the agent remembers under the id that is asked for: the API lists no ids."""
        wanted = request.query_params.get("id", "").strip()
        found: list[dict[str, Any]] = []
        wrong = ""
        if wanted:
            try:
                found = agent.server.list_memories(agent, wanted)
            except OrchestratorError as error:  # another id may be right
                wrong = error.message
        sessions = [{"sessionSummary": one} for one in found]
        document = {
            "agent": _describe(agent),
            "wanted": wanted,
            "wrong": wrong,
            "memories": [{"id": wanted, "sessions": sessions}] if found else [],
        }
        return show(request, "memory.html", document)

    def show_session(self, agent: RemoteAgent, request: Request) -> Response:
        """One session: what was said here."""
        session = self._sessions.peek(agent.key, _session_of(request))
        found = [(turn, turn.steps()) for turn in session.turns]
        costs = [sum_costs(steps, self._prices) for _, steps in found]
        document = {
            "agent": _describe(agent),
            "session": session.id,
            "turns": [
                {**_describe_turn(agent, turn, steps), "costs": cost.as_dict()}
                for (turn, steps), cost in zip(found, costs, strict=True)
            ],
            "costs": join_costs(costs).as_dict(),
        }
        return show(request, "session.html", document)

    def show_turn(self, agent: RemoteAgent, request: Request) -> Response:
        """One turn as a waterfall of its steps."""
        turn = self._find_turn(agent, request)
        steps = turn.steps()
        wanted = read_number(request.query_params.get("from", "1"))
        view = build_turn_view(steps, min(max(wanted, 1), max(len(steps), 1)), self._prices)
        document = {
            **self._describe_place(agent, request, turn),
            **view.as_dict(),
        }
        return show(request, "turn.html", document, view=view)

    def show_trace(self, agent: RemoteAgent, request: Request) -> Response:
        """The trace as the server sent it."""
        return JSONResponse(self._find_turn(agent, request).parts)

    def show_step(self, agent: RemoteAgent, request: Request) -> Response:
        """One step: what a model was asked and answered, or what an action gave."""
        document, step = self._describe_step(agent, request)
        document |= {
            "prompt": step.prompt,
            "thought": step.thought,
            "dollars": find_cost(self._prices, step.name, step.usage),
        }
        cut = max(len(step.prompt) - _LONGEST, 0)
        messages = split_prompt(step.prompt)
        return show(request, "remote_step.html", document, messages=messages, cut=cut)

    def show_parts(self, agent: RemoteAgent, request: Request) -> Response:
        """The trace parts of a step."""
        document, step = self._describe_step(agent, request)
        document["parts"] = step.parts
        return show(request, "parts.html", document, shown=list_texts(step.parts))

    def _find_turn(self, agent: RemoteAgent, request: Request) -> RemoteTurn:
        session, id = _session_of(request), request.path_params["turn"]
        turn = self._sessions.peek(agent.key, session).find(id)
        if turn is None:
            raise ResourceNotFound(f"session {session!r} has no turn {id!r} that was held here")
        return turn

    def _describe_place(
        self, agent: RemoteAgent, request: Request, turn: RemoteTurn
    ) -> dict[str, Any]:
        return {
            "agent": _describe(agent),
            "session": _session_of(request),
            "turn": {
                "id": turn.id,
                "question": turn.question,
                "text": turn.text or turn.error,
                "stop_reason": turn.stop_reason,
                "at": turn.at,
                "forked_from": None,
                "has_changed": False,
                "has_todays_prompts": False,
            },
        }

    def _describe_step(
        self, agent: RemoteAgent, request: Request
    ) -> tuple[dict[str, Any], TraceStep]:
        turn = self._find_turn(agent, request)
        steps = turn.steps()
        number = read_number(request.path_params["step"])
        if not 1 <= number <= len(steps):
            raise ResourceNotFound(f"the turn has {len(steps)} steps, and no step {number}")
        step = steps[number - 1]
        shown = {**step.as_dict(), "text": step.text[:_LONGEST], "arguments": step.arguments}
        place = self._describe_place(agent, request, turn)
        return {**place, "step": shown, "count": len(steps)}, step


def _find_operation(operations: list[Operation], call: Mapping[str, Any]) -> Operation | None:
    """The operation of a call, if the server tells what its agent is made of."""
    name = call.get("function"), call.get("httpMethod"), call.get("apiPath")
    for one in operations:
        own = (None, one.verb, one.path) if one.verb else (one.name, None, None)
        if one.group == call.get("actionGroup") and own == name:
            return one
    return None


def split_prompt(text: str) -> list[dict[str, str]]:
    """A prompt's messages with their roles, where the trace has it as JSON; else all of it."""
    found = json_or(text, None) if len(text) <= _LONGEST else None
    request: dict[str, Any] = found if isinstance(found, dict) else {}
    messages = request.get("messages")
    if not isinstance(messages, list) or not all(isinstance(it, dict) for it in messages):
        return [{"role": "", "text": text[:_LONGEST]}] if text else []
    system = {"role": "system", "content": request.get("system")}
    return [
        {"role": str(it.get("role", "")), "text": _flatten(it.get("content"))}
        for it in (system, *messages)
        if it.get("content")
    ]


def _flatten(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(map(_to_text, blocks))


def _to_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else to_json(block)


def _session_of(request: Request) -> str:
    return read_session(request.path_params["session"])


def _describe(agent: RemoteAgent) -> dict[str, Any]:
    return {
        "key": agent.key,
        "name": agent.name,
        "instruction": agent.description,
        "has_folder": False,
        "server": agent.server.url,
    }


def _describe_turn(
    agent: RemoteAgent, turn: RemoteTurn, steps: list[TraceStep]
) -> Mapping[str, Any]:
    operations = agent.server.list_operations(agent) if turn.waits else []
    return {
        "id": turn.id,
        "at": turn.at,
        "question": turn.question,
        "text": turn.text or turn.error,
        "stop_reason": turn.stop_reason,
        "new": False,
        "is_open": bool(turn.waits),
        "has_failed": bool(turn.error),
        "forked_from": None,
        "totals": sum_up(steps),
        "milliseconds": measure_steps(steps),
        "calls": list(read_calls(steps, bool(turn.waits))),
        "thoughts": [
            {"index": it.index, "text": it.thought} for it in steps if it.thought and not it.branch
        ],
        "waits": turn.waits,
        "forms": describe_forms(turn.waits, partial(_find_operation, operations)),
        "invocation_id": turn.invocation_id,
    }
