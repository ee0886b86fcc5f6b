"""The pages about an agent itself: what it is made of, what is doubtful, and what it remembers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.agent.agent import Agent
from orchestrator.definition import lint_definition, load_definition
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import StagePlan
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import read_body
from orchestrator.server.workbench.look import describe_project
from orchestrator.server.workbench.pages import show
from orchestrator.server.workbench.projects import Project, Projects

_MOST_MEMORIES = 200


def show_definition(projects: Projects, request: Request) -> Response:
    """What an agent is made of, and the findings about its definition and templates."""
    project = projects.find(request.path_params["agent"])
    agent = project.agent()
    document = {
        "agent": describe_project(project),
        "folder": str(project.folder) if project.has_folder else "",
        "stages": [_describe_stage(stage) for stage in agent.plan.stages.values()],
        "operations": [
            {
                "name": one.xml_name,
                "description": one.description,
                "parameters": [
                    {"name": it.name, "type": it.type, "required": it.required}
                    for it in one.parameters
                ],
                "waits": agent.plan.catalog.waits(one),
            }
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
        "findings": [one.as_dict() for one in _find_doubts(project, agent)],
    }
    return show(request, "definition.html", document)


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


def _find_doubts(project: Project, agent: Agent) -> Iterator[Diagnostic]:
    if project.has_folder:
        yield from lint_definition(load_definition(project.folder))
    yield from agent.diagnostics


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
    project = projects.find(request.path_params["agent"])
    agent = await run_blocking(project.agent)
    if agent.plan.features.memory is None:
        raise ResourceNotFound("the agent has no memory")
    await run_blocking(agent.forget, memory, session)
    return JSONResponse({})
