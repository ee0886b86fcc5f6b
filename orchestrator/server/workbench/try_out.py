"""The pages on which something is changed and tried: what-if runs, comparisons, and saving."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.agent.agent import Agent
from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.engine.trace.past_turns import PastTurn
from orchestrator.errors import DefinitionError, ResourceNotFound, SessionConflict, ValidationError
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench import saving
from orchestrator.server.workbench.chat import find_project, read_body
from orchestrator.server.workbench.lines import LineResponse
from orchestrator.server.workbench.look import describe_project, describe_turn_head, find_turn
from orchestrator.server.workbench.pages import read_number, read_session, render, show
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.server.workbench.prompt_view import build_prompt_view
from orchestrator.server.workbench.turn_view import sum_up
from orchestrator.server.workbench.what_if import (
    Changes,
    WhatIf,
    count_actions,
    find_model_step,
)

_MOST_RUNS = 16  # what-if runs at the same time


def show_form(projects: Projects, request: Request) -> Response:
    """The form in which a model call is changed."""
    project, turn, step = _find(projects, request)
    agent, template = project.agent(), step.template
    document = {
        "agent": describe_project(project),
        "session": read_session(request.path_params["session"]),
        "turn": describe_turn_head(turn),
        "step": step.as_dict(),
        "template": template.text if template is not None else "",
        "source": template.source if template is not None else None,
        "is_current": bool(step.team)
        or (template is not None and template.text == agent.plan.stages[step.stage].template.text),
        "collaborator": step.team,
        "instruction": agent.plan.instruction,
        "model": step.name,
        "results": [
            {"number": number, "name": one.name, "text": one.text}
            for number, one in count_actions(turn, step)
        ],
    }
    return show(request, "what_if.html", document)


def show_comparison(projects: Projects, request: Request) -> Response:
    """Two turns side by side: what was done, what was answered, and how the last prompts differ."""
    project = projects.find(request.path_params["agent"])
    query = dict(parse_qsl(request.url.query))
    sides = [_read_side(project, query, side) for side in ("left", "right")]
    lines = saving.compare(*(side.pop("prompt") for side in sides))
    document = {
        "agent": describe_project(project),
        "sides": sides,
        "difference": lines,
    }
    return show(request, "compare.html", document)


def _read_side(project: Project, query: Mapping[str, str], side: str) -> dict[str, Any]:
    session, turn_id = query.get(side, ""), query.get(f"{side}-turn", "")
    agent = project.agent()
    turns = agent.turns(session)
    if not turns:
        raise ResourceNotFound(f"there is no session {session!r}")
    turn = find_turn(agent, session, turn_id) if turn_id else turns[-1]
    steps = turn.steps()
    calls = [it for it in steps if it.has_prompt and not it.branch]
    return {
        "session": session,
        "turn": describe_turn_head(turn),
        "totals": sum_up(steps),
        "steps": [{**it.as_dict(), "arguments": dict(it.arguments)} for it in steps],
        "prompt": _flatten(calls[-1]) if calls else "",
    }


def _flatten(step: PastStep) -> str:
    prompt = step.prompt()
    parts = [str(prompt.system)]
    for message in prompt.messages:
        parts.append(f"[{message['role']}]")
        for block in message["content"]:
            parts.append(block["text"] if "text" in block else str(block))
    return "\n".join(parts)


class TryOut:
    """What the form's buttons do."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._runs: dict[tuple[str, str], WhatIf] = {}  # by agent and session

    async def preview(self, request: Request) -> Response:
        """The prompt as the changed agent would have been sent it, and what lint says of it."""
        body = await read_body(request)
        return JSONResponse(await run_blocking(self._preview, request, body))

    def _preview(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        project, turn, step = _find(self._projects, request)
        changes = _read_changes(body, step)
        try:
            changed = changes.apply_to(project.agent())
        except DefinitionError as error:
            found = [one.as_dict() for one in error.diagnostics] or [_describe_error(error)]
            return {"html": "", "findings": found, "prompt": None}
        template = step.template if step.team else changed.plan.stages[step.stage].template
        findings = [one.as_dict() for one in template.diagnostics] if template else []
        try:
            after = turn.steps_as(changed.plan, changes.results)[step.index - 1]
        except SessionConflict as error:
            finding = {"severity": "warning", "message": error.message, "line": None}
            return {"html": "", "findings": [*findings, finding], "prompt": None}
        prompt = after.prompt()
        before = step.prompt() if step.has_prompt else None
        view = build_prompt_view(prompt, template=template, before=before)
        html = render("preview.html", view=view, before=step.index)
        return {"html": html, "findings": findings, "prompt": prompt.as_dict()}

    async def run(self, request: Request) -> Response:
        """Runs the turn from the step; its events come as lines."""
        body = await read_body(request)
        if len(self._runs) >= _MOST_RUNS:
            raise ValidationError(f"{_MOST_RUNS} runs wait already; stop one of them")
        stream = self._stream(request, body)
        await anext(stream)  # begun: whoever closes it stops the run
        return LineResponse(stream)

    async def _stream(
        self, request: Request, body: Mapping[str, Any]
    ) -> AsyncGenerator[bytes, None]:
        project = await find_project(self._projects, request)
        with ExitStack() as held:
            own = await run_blocking(held.enter_context, project.use())
            run, agent, session = await run_blocking(self._prepare, request, body, own)
            key = project.key, session
            self._runs[key] = run
            try:
                yield b""
                async with aclosing(run.stream(agent, session)) as lines:
                    async for line in lines:
                        yield line
            finally:
                run.stop()
                if self._runs.get(key) is run:
                    del self._runs[key]

    def _prepare(
        self, request: Request, body: Mapping[str, Any], own: Agent
    ) -> tuple[WhatIf, Agent, str]:
        _, turn, step = _find(self._projects, request)
        changes = _read_changes(body, step)
        agent = changes.apply_to(own)
        session = agent.fork(
            read_session(request.path_params["session"]),
            turn.id,
            step.call,
            results=changes.results,
        )
        run = WhatIf(turn, step, run_all=body.get("actions") == "run")
        return run, run.prepare(agent), session

    async def decide(self, request: Request) -> Response:
        """Decides on a call that waits."""
        body = await read_body(request)
        session = read_session(request.path_params["session"])
        run = self._runs.get((request.path_params["agent"], session))
        if run is None:
            raise ResourceNotFound("nothing runs in this session")
        run.answer(str(body.get("id")), body)
        return JSONResponse({})

    async def save(self, request: Request) -> Response:
        """The difference of an edited template to its file; with `digest`, writes it."""
        body = await read_body(request)
        return JSONResponse(await run_blocking(self._save, request, body))

    def _save(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        project, _, step = _find(self._projects, request)
        agent = project.agent()
        changes = _read_changes({"template": body.get("template")}, step)
        if changes.template is None:
            raise ValidationError("there is no template to save")
        changed = changes.apply_to(agent)  # nothing is saved that does not load
        stage = agent.plan.stages[step.stage]
        file = saving.find_file(project.folder, stage)
        findings = [one.as_dict() for one in changed.plan.stages[step.stage].template.diagnostics]
        place = str(file.relative_to(project.folder.resolve()))
        if isinstance(body.get("digest"), str):
            saving.save_template(file, changes.template, body["digest"])
            return {"file": place, "saved": True, "findings": findings}
        return {
            "file": place,
            "digest": saving.digest_of(file),
            "difference": saving.compare(stage.template.text, changes.template),
            "findings": findings,
        }


def _read_changes(body: Mapping[str, Any], step: PastStep) -> Changes:
    changes = Changes.read(body, step.stage)
    changes.check(step)
    return changes


def _describe_error(error: DefinitionError) -> dict[str, Any]:
    place = {"line": error.line, "column": error.column}
    return {"severity": "error", "message": error.reason, **place}


def _find(projects: Projects, request: Request) -> tuple[Project, PastTurn, PastStep]:
    project = projects.find(request.path_params["agent"])
    session = read_session(request.path_params["session"])
    turn = find_turn(project.agent(), session, request.path_params["turn"])
    return project, turn, find_model_step(turn, read_number(request.path_params["step"]))
