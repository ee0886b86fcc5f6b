"""The pages on which one looks: agents, sessions, turns, and every prompt's origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.agent.agent import Agent
from orchestrator.engine.plan import Plan
from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.engine.trace.past_turns import PastTurn
from orchestrator.errors import OrchestratorError, ResourceNotFound
from orchestrator.server.workbench.costs import find_cost, join_costs
from orchestrator.server.workbench.handed_calls import list_calls
from orchestrator.server.workbench.pages import read_number, read_session, show
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.server.workbench.prompt_view import build_prompt_view, build_template_view
from orchestrator.server.workbench.result_forms import describe_forms, find_operation
from orchestrator.server.workbench.turn_view import (
    MOST_ROWS,
    ROWS,
    build_turn_view,
    measure_steps,
    sum_costs,
    sum_up,
)
from orchestrator.sessions import SessionInfo

SESSION_PREFIX = "eval:"
"""What the ids of sessions begin with that a page's evaluations have held."""

_MOST_SESSIONS = 200  # of one page
_LONGEST = 200_000  # characters of a reply, a result or a record on a page


def show_home(
    describe_servers: Callable[[], list[dict[str, Any]]], projects: Projects, request: Request
) -> Response:
    """All agents, those of remote servers too."""
    agents = [_describe_agent(one) for one in projects.all()]
    document = {"agents": agents, "servers": describe_servers()}
    return show(request, "home.html", document)


def _describe_agent(project: Project) -> dict[str, Any]:
    wrong = project.reason()  # first: a file that was mended gives another name
    return {
        "key": project.key,
        "name": project.name,
        "instruction": project.instruction,
        "folder": str(project.folder) if project.has_folder else "",
        "sessions": len(list_sessions(project)),
        "wrong": wrong,
    }


def show_agent(projects: Projects, request: Request) -> Response:
    """One agent and its sessions."""
    project = projects.find(request.path_params["agent"])
    wanted = request.query_params.get("search", "").strip()
    sessions = [one for one in list_sessions(project) if wanted.lower() in one["id"].lower()]
    document = {
        "agent": describe_project(project),
        "search": wanted,
        "sessions": sessions[:_MOST_SESSIONS],
        "count": len(sessions),
        "wrong": project.reason(),
    }
    return show(request, "agent.html", document)


def describe_project(project: Project) -> dict[str, Any]:
    """What pages say of an agent."""
    return {
        "key": project.key,
        "name": project.name,
        "instruction": project.instruction,
        "has_folder": project.has_folder,
        "server": "",  # that of a remote agent
    }


def list_sessions(project: Project) -> list[dict[str, Any]]:
    """The sessions of an agent, the last changed first, but for those of evaluations."""
    from orchestrator.agent.compile import derive_agent_id

    try:
        owner = project.agent().plan.owner
    except OrchestratorError:  # its sessions can be told all the same
        owner = f"{derive_agent_id(project.name)}/TSTALIASID"
    return [
        _describe_session(info)
        for info in project.sessions.store.list()
        if info.label.rpartition("/")[0] == owner and not is_of_evaluation(info)
    ]


def is_of_evaluation(info: SessionInfo) -> bool:
    """Whether an evaluation of a page has held a session."""
    return info.session_id.startswith(SESSION_PREFIX)


def _describe_session(info: SessionInfo) -> dict[str, Any]:
    return {
        "id": info.session_id,
        "records": info.records,
        "updated": info.updated,
    }


def show_session(projects: Projects, request: Request) -> Response:
    """One session: what was said, and where one goes on."""
    project = projects.find(request.path_params["agent"])
    session = read_session(request.path_params["session"])
    agent = project.agent()
    found = [(turn, turn.steps()) for turn in agent.turns(session)]
    costs = [sum_costs(steps, projects.prices) for _, steps in found]
    document = {
        "agent": describe_project(project),
        "session": session,
        "turns": [
            {**_describe_turn(turn, steps, agent.plan), "costs": cost.as_dict()}
            for (turn, steps), cost in zip(found, costs, strict=True)
        ],
        "costs": join_costs(costs).as_dict(),
    }
    return show(request, "session.html", document)


def _describe_turn(turn: PastTurn, steps: Sequence[PastStep], plan: Plan) -> dict[str, Any]:
    waits = steps[-1].record.get("inputs", []) if steps and turn.is_open else []
    return {
        "id": turn.id,
        "at": turn.at,
        "question": turn.question,
        "text": turn.text,
        "stop_reason": turn.stop_reason,
        "new": turn.new,
        "is_open": turn.is_open,
        "has_failed": turn.has_failed,
        "forked_from": turn.fork_origin,
        "totals": sum_up(steps),
        "milliseconds": _measure(turn, steps),
        "calls": list(list_calls(steps, turn.is_open)),
        "thoughts": [
            {"index": it.index, "text": thought}
            for it in steps
            if it.kind == "model" and not it.branch and (thought := _find_thought(it))
        ],
        "waits": waits,
        "forms": describe_forms(waits, partial(find_operation, plan)),
        "invocation_id": steps[-1].record.get("invocation_id", "") if waits else "",
    }


def _find_thought(step: PastStep) -> str:
    parsed = step.record.get("response", {}).get("orchestrationParsedResponse", {})
    return str(parsed.get("rationale") or "")


def _measure(turn: PastTurn, steps: Sequence[PastStep]) -> float:
    took = measure_steps(steps)
    if turn.has_failed or turn.stop_reason == "cancelled":
        # What failed, or was stopped, is no step: the journal has what was done.
        return max(took, (turn.end_at - turn.at) / 1e6)
    return took


def show_turn(projects: Projects, request: Request) -> Response:
    """One turn as a waterfall of its steps."""
    project, agent, session = _find_session(projects, request)
    turn = find_turn(agent, session, request.path_params["turn"])
    steps = turn.steps()
    wanted = read_number(request.query_params.get("from", "1"))
    first = min(max(wanted, 1), max(len(steps), 1))
    most = min(read_number(request.query_params.get("rows", "")) or ROWS, MOST_ROWS)
    view = build_turn_view(steps, first, projects.prices, most)
    document = {
        "agent": describe_project(project),
        "session": session,
        "turn": describe_turn_head(turn),
        **view.as_dict(),
        "milliseconds": _measure(turn, steps),
    }
    return show(request, "turn.html", document, view=view)


def show_trace(projects: Projects, request: Request) -> Response:
    """The trace of a turn in Bedrock's shape, as JSON."""
    _, agent, session = _find_session(projects, request)
    turn = find_turn(agent, session, request.path_params["turn"])
    return JSONResponse(turn.trace)


def show_step(projects: Projects, request: Request) -> Response:
    """One step: the prompt and the reply of a model call, or what an action gave."""
    project, agent, session = _find_session(projects, request)
    turn = find_turn(agent, session, request.path_params["turn"])
    steps = turn.steps()
    number = read_number(request.path_params["step"])
    if not 1 <= number <= len(steps):
        raise ResourceNotFound(f"the turn has {len(steps)} steps, and no step {number}")
    step = steps[number - 1]
    document: dict[str, Any] = {
        "agent": describe_project(project),
        "session": session,
        "turn": describe_turn_head(turn),
        "step": {**step.as_dict(), "text": step.text, "arguments": dict(step.arguments)},
        "dollars": find_cost(projects.prices, step.name, step.usage),
        "count": len(steps),
        "record": _bound_record(step),
    }
    if step.kind != "model":
        return show(request, "step.html", document)
    earlier = [
        it
        for it in steps[: number - 1]
        if it.has_prompt and it.branch == step.branch and it.stage == step.stage
    ]
    return _show_model_call(request, document, step, earlier[-1] if earlier else None)


def _show_model_call(
    request: Request, document: dict[str, Any], step: PastStep, before: PastStep | None
) -> Response:
    try:
        parsed = step.parse()
    except OrchestratorError as error:
        parsed = _explain_failure(error)
    document |= {"parsed": parsed, "before": before.index if before is not None else 0}
    if not step.has_prompt:
        return show(request, "step.html", {**document, "prompt": None})
    prompt, template = step.prompt(), step.template
    usage = step.usage
    view = build_prompt_view(
        prompt,
        template=template,
        before=before.prompt() if before is not None else None,
        tokens=0 if usage is None else usage.total_tokens - usage.output_tokens,
    )
    document |= {
        "prompt": prompt.as_dict(),
        "template": None
        if template is None
        else {"text": template.text, "source": template.source, "language": template.language},
    }
    lines = [] if template is None else build_template_view(template, view.origins)
    return show(request, "prompt.html", document, view=view, lines=lines)


def _explain_failure(error: OrchestratorError) -> dict[str, Any]:
    nothing = dict.fromkeys(("code", "reprompt", "raw"), "")
    return {**nothing, "pieces": [], "notes": [error.message], "response": {}}


def describe_turn_head(turn: PastTurn) -> dict[str, Any]:
    """What pages say of a turn above its steps."""
    return {
        "id": turn.id,
        "question": turn.question,
        "text": turn.text,
        "stop_reason": turn.stop_reason,
        "at": turn.at,
        "forked_from": turn.fork_origin,
        "has_changed": turn.has_changed,
        "has_todays_prompts": turn.has_todays_prompts,
    }


def _bound_record(step: PastStep) -> dict[str, Any]:
    return {
        name: f"{value[:_LONGEST]}…" if isinstance(value, str) and len(value) > _LONGEST else value
        for name, value in step.record.items()
    }


def _find_session(projects: Projects, request: Request) -> tuple[Project, Agent, str]:
    project = projects.find(request.path_params["agent"])
    return project, project.agent(), read_session(request.path_params["session"])


def find_turn(agent: Agent, session: str, id: str) -> PastTurn:
    """A turn of a session.

    Raises:
        ResourceNotFound: There is none of that id.
    """
    for turn in agent.turns(session):
        if turn.id == id:
            return turn
    raise ResourceNotFound(f"session {session!r} has no turn {id!r}")
