"""The pages of templates and scripts in an agent's folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.errors import DefinitionError, OrchestratorError, ValidationError
from orchestrator.models import Model
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import read_body
from orchestrator.server.workbench.lines import LineResponse, to_line
from orchestrator.server.workbench.look import describe_project
from orchestrator.server.workbench.overview import describe_finding
from orchestrator.server.workbench.pages import render, show
from orchestrator.server.workbench.project_files import (
    ProjectFile,
    find_project_file,
    lint_project_file,
    list_inputs,
    list_project_files,
    read_inputs,
    read_text_of,
    render_project_file,
    resume_project_file,
    run_project_file,
)
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.server.workbench.prompt_view import build_prompt_view
from orchestrator.support.findings import as_findings

_MOST_LINES = 5_000


def show_files(projects: Projects, request: Request) -> Response:
    """The templates and scripts of an agent's folder."""
    project = projects.find(request.path_params["agent"])
    document = {
        "agent": describe_project(project),
        "folder": str(project.folder),
        "files": [_describe(one) for one in list_project_files(project)],
    }
    return show(request, "files.html", document)


def _describe(file: ProjectFile) -> dict[str, Any]:
    return {"key": file.key, "name": file.name, "kind": file.kind, "language": file.language}


def show_file(projects: Projects, request: Request) -> Response:
    """One of them: its text with findings, and a form of its inputs."""
    project, file = _find(projects, request)
    text = read_text_of(file)
    lines = text.split("\n")
    document = {
        "agent": describe_project(project),
        "file": _describe(file),
        "text": text,
        "inputs": list_inputs(file),
        "findings": [describe_finding(project, one) for one in lint_project_file(file)],
    }
    more = max(len(lines) - _MOST_LINES, 0)
    return show(request, "file.html", document, lines=lines[:_MOST_LINES], more=more)


def _find(projects: Projects, request: Request) -> tuple[Project, ProjectFile]:
    project = projects.find(request.path_params["agent"])
    return project, find_project_file(project, request.path_params["file"])


class FileActions:
    """What a file's buttons do."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    async def render(self, request: Request) -> Response:
        """The messages that it makes of some inputs, with the origin of every character."""
        body = await read_body(request)
        return JSONResponse(await run_blocking(self._render, request, body))

    def _render(self, request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
        project, file = _find(self._projects, request)
        inputs = read_inputs(body.get("inputs", {}), file)
        try:
            prompt, found, place = render_project_file(file, inputs, _choose_model(project, body))
        except DefinitionError as error:
            findings = [describe_finding(project, one) for one in as_findings(error)]
            return {"html": "", "findings": findings, "place": "", "prompt": None}
        view = build_prompt_view(prompt)
        return {
            "html": render("preview.html", view=view, before=0),
            "findings": [describe_finding(project, one) for one in found],
            "place": place,
            "prompt": prompt.as_dict(),
        }

    async def run(self, request: Request) -> Response:
        """Runs it; its events come as lines."""
        body = await read_body(request)
        return await self._stream(request, body, _run)

    async def resume(self, request: Request) -> Response:
        """Goes on with a script that waits."""
        body = await read_body(request)
        return await self._stream(request, body, resume_project_file)

    async def _stream(
        self,
        request: Request,
        body: Mapping[str, Any],
        run: Callable[
            [ProjectFile, Mapping[str, Any], str | Model | None], AsyncGenerator[bytes, None]
        ],
    ) -> Response:
        project, file = await run_blocking(_find, self._projects, request)
        stream = _report_errors(run(file, body, _choose_model(project, body)))
        await anext(stream)  # begun: whoever closes it stops the run
        return LineResponse(stream)


async def _run(
    file: ProjectFile, body: Mapping[str, Any], model: str | Model | None
) -> AsyncGenerator[bytes, None]:
    inputs = read_inputs(body.get("inputs", {}), file)
    async with aclosing(run_project_file(file, inputs, model)) as lines:
        async for line in lines:
            yield line


async def _report_errors(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield b""
    async with aclosing(lines):
        try:
            async for line in lines:
                yield line
        except OrchestratorError as error:
            yield to_line({"type": "error", "message": error.message})


def _choose_model(project: Project, body: Mapping[str, Any]) -> str | Model | None:
    model = body.get("model") or None
    if model is not None and not isinstance(model, str):
        raise ValidationError("'model' must be a text")
    return model or project.model
