"""The trace parts of one step, in Bedrock's shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.errors import ResourceNotFound
from orchestrator.server.workbench.look import describe_project, describe_turn_head, find_turn
from orchestrator.server.workbench.pages import read_number, read_session, show
from orchestrator.server.workbench.projects import Projects

_LONGEST = 200_000  # characters of a part on the page; its JSON twin has it whole


def show_parts(projects: Projects, request: Request) -> Response:
    """The trace parts of a step."""
    project = projects.find(request.path_params["agent"])
    session = read_session(request.path_params["session"])
    turn = find_turn(project.agent(), session, request.path_params["turn"])
    traces = turn.step_traces()
    number = read_number(request.path_params["step"])
    if not 1 <= number <= len(traces):
        raise ResourceNotFound(f"the turn has {len(traces)} steps, and no step {number}")
    document = {
        "agent": describe_project(project),
        "session": session,
        "turn": describe_turn_head(turn),
        "step": turn.steps()[number - 1].as_dict(),
        "count": len(traces),
        "parts": traces[number - 1],
    }
    return show(request, "parts.html", document, shown=list_texts(traces[number - 1]))


def list_texts(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each part's kind and its JSON, as a page shows them."""
    found = []
    for part in parts:
        text = json.dumps(part, indent=2, ensure_ascii=False)
        found.append({"kind": _name(part), "text": text[:_LONGEST], "cut": len(text) - _LONGEST})
    return found


def _name(part: Mapping[str, Any]) -> str:
    for name, members in part.get("trace", {}).items():
        inner = next(iter(members), "") if isinstance(members, Mapping) else ""
        return f"{name} · {inner}" if name.endswith("Trace") and inner != "traceId" else str(name)
    return "part"
