"""The pages about an agent itself: what it is made of, what is doubtful, and what it remembers."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.actions.base import Operation
from orchestrator.agent.agent import Agent
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import StagePlan
from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.prompts import list_dialects, load_dialect
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import find_project, read_body
from orchestrator.server.workbench.look import describe_project
from orchestrator.server.workbench.pages import show
from orchestrator.server.workbench.projects import Project, Projects

_MOST_MEMORIES = 200
_LONGEST_LINE = 400  # characters of a line that a finding is about


def show_definition(projects: Projects, request: Request) -> Response:
    """What an agent is made of, all findings of `orchestrator lint`, and the dialects.

    Findings are there for an agent that does not load, too.
    """
    project = projects.find(request.path_params["agent"])
    strict = request.query_params.get("strict") == "1"
    try:
        parts, wrong = _describe_parts(project.agent()), ""
    except OrchestratorError as error:
        parts, wrong = _describe_nothing(), error.message
    document = {
        "agent": describe_project(project),
        "folder": str(project.folder) if project.has_folder else "",
        "wrong": wrong,
        "strict": strict,
        **parts,
        "findings": [describe_finding(project, one) for one in _lint(project, strict)],
        "dialects": _list_dialects(project, parts["stages"]),
    }
    return show(request, "definition.html", document)


def _describe_nothing() -> dict[str, Any]:
    return {name: [] for name in ("stages", "operations", "knowledge_bases", "collaborators")}


def describe_operation(operation: Operation) -> dict[str, Any]:
    """What a page says of an action."""
    return {
        "name": operation.xml_name,
        "description": operation.description,
        "parameters": [
            {"name": it.name, "type": it.type, "required": it.required}
            for it in operation.parameters
        ],
    }


def _describe_parts(agent: Agent) -> dict[str, Any]:
    return {
        "stages": [_describe_stage(stage) for stage in agent.plan.stages.values()],
        "operations": [
            {**describe_operation(one), "waits": agent.plan.catalog.waits(one)}
            for one in agent.plan.catalog.operations
        ],
        "knowledge_bases": [
            {"id": base.id, "description": base.description}
            for base in agent.plan.knowledge_bases.values()
        ],
        "collaborators": [
            {"name": one.name, "instruction": one.instruction}
            for one in agent.plan.collaborators.values()
        ],
    }


def _lint(project: Project, strict: bool) -> list[Diagnostic]:
    from orchestrator.agent.lint import lint_agent

    if not project.has_folder:
        return [] if project.reason() else list(project.agent().diagnostics)
    model = project.model if isinstance(project.model, str) else None
    return lint_agent(project.folder, model, strict=strict)


def describe_finding(project: Project, finding: Diagnostic) -> dict[str, Any]:
    """A finding with its place in the agent's folder, and the line that it is about."""
    file = Path(finding.file) if finding.file else None
    inside = file is not None and project.has_folder and file.is_relative_to(project.folder)
    name = file.relative_to(project.folder).as_posix() if file is not None and inside else ""
    source = read_source_line(file, finding.line) if file is not None and inside else ""
    return {**finding.as_dict(), "name": name, "source": source}


def read_source_line(file: Path, line: int | None) -> str:
    """A line of a file, as far as it is of use; empty where there is none."""
    if not line:
        return ""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            text = next(islice((it[:_LONGEST_LINE] for it in stream), line - 1, line), "")
    except OSError:
        return ""
    return text.rstrip("\r\n")


def _list_dialects(project: Project, stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The dialects, those that the agent's stages use first."""
    used: dict[str, list[str]] = {}
    for stage in stages:
        used.setdefault(stage["dialect"], []).append(stage["stage"])
    own = project.folder / "templates" if project.has_folder else None
    overrides = own if own is not None and own.is_dir() else None
    try:
        names = list_dialects(overrides)
    except OrchestratorError:  # a finding says what is wrong with it
        names = list_dialects()
    found = [_describe_dialect(name, overrides, names[name], used.get(name, [])) for name in names]
    return sorted((one for one in found if one), key=lambda it: not it["stages"])


def _describe_dialect(
    name: str, own: Path | None, patterns: list[str], stages: list[str]
) -> dict[str, Any]:
    try:
        dialect = load_dialect(name, own)
    except OrchestratorError:
        return {}
    return {
        "name": name,
        "family": dialect.family,
        "protocol": dialect.protocol,
        "parser": dialect.parser,
        "patterns": patterns,
        "stages": stages,
        "own": own is not None and (own / name / "dialect.yaml").is_file(),
    }


def _describe_stage(stage: StagePlan) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "enabled": stage.enabled,
        "model": stage.model.model_id,
        "dialect": stage.dialect.name,
        "source": stage.template.source,
        "language": stage.template.language,
        "inference": dict(stage.inference),
        "parser": stage.parser_name,
    }


def show_memory(projects: Projects, request: Request) -> Response:
    """What an agent remembers, by memory, session and topic."""
    project = projects.find(request.path_params["agent"])
    agent = project.agent()
    found = _list_memories(agent)
    document = {
        "agent": describe_project(project),
        "remembers": agent.plan.features.memory is not None,
        "memories": [
            {**one, "sessions": agent.memories(one["id"])} for one in found[:_MOST_MEMORIES]
        ],
        "count": len(found),
    }
    return show(request, "memory.html", document)


def _list_memories(agent: Agent) -> list[dict[str, Any]]:
    memory = agent.plan.features.memory
    listing = getattr(memory.store, "memories", None) if memory is not None else None
    if listing is None:
        return []
    return [
        {"id": info.memory_id, "latest": info.latest}
        for info in listing(agent.sessions.clock())
        if info.owner == agent.plan.owner
    ]


async def forget(projects: Projects, request: Request) -> Response:
    """Forgets a memory, or one session of it."""
    body = await read_body(request)
    memory, session = body.get("memory"), body.get("session") or None
    if not isinstance(memory, str) or not memory:
        raise ValidationError("'memory' must be the id of a memory")
    project = await find_project(projects, request)
    agent = await run_blocking(project.agent)
    if agent.plan.features.memory is None:
        raise ResourceNotFound("the agent has no memory")
    await run_blocking(agent.forget, memory, session)
    return JSONResponse({})
