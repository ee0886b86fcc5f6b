"""The page of models: weights on this machine, fetched after a click, and what agents use."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.models import weights
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import read_body
from orchestrator.server.workbench.jobs import Job, Key
from orchestrator.server.workbench.lines import show_progress
from orchestrator.server.workbench.pages import show
from orchestrator.server.workbench.projects import Project, Projects


def show_models(projects: Projects, request: Request) -> Response:
    """The embedded models, what was kept of prompts, and the models that each agent uses."""
    from orchestrator.models.prompt_states import PromptStates

    states = PromptStates()
    kept = states.entries()
    document = {
        "folder": str(weights.folder()),
        "models": [
            {**one.as_dict(), "job": _describe_job(projects, one.weights.name)}
            for one in weights.available()
        ],
        "agents": [_describe_agent(one) for one in projects.all()],
        "prompts": {
            "folder": str(states.folder),
            "count": len(kept),
            "size": sum(one.size for one in kept),
        },
    }
    return show(request, "models.html", document)


def _describe_job(projects: Projects, name: str) -> dict[str, Any] | None:
    job = projects.jobs.find(_job_key(name))
    return None if job is None else job.describe()


def _describe_agent(project: Project) -> dict[str, Any]:
    from orchestrator.agent.model_use import list_model_uses

    try:
        uses, wrong = [asdict(one) for one in list_model_uses(project.agent().plan)], ""
    except OrchestratorError as error:
        uses, wrong = [], error.message
    return {"key": project.key, "name": project.name, "wrong": wrong, "models": uses}


def _job_key(name: str) -> Key:
    return ("weights", name)


class _StoppedError(Exception):
    """The user has stopped a download; what is there is gone on with later."""


class Models:
    """What the page's buttons do."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    async def pull(self, request: Request) -> Response:
        """Begins to fetch a model's weights, as `orchestrator models pull` does."""
        await read_body(request)
        name = _find(request)

        def fetch(job: Job) -> None:
            def report(done: int, total: int, text: str) -> None:
                if job.is_stopped:
                    raise _StoppedError
                job.report({"done": done, "of": total, "text": text})

            try:
                weights.pull(name, report)
            except _StoppedError:
                return

        job = Job(fetch)
        job.report({"done": 0, "of": weights.find(name).size, "text": f"fetching {name}"})
        self._projects.jobs.begin(_job_key(name), job)
        return JSONResponse({})

    async def watch(self, request: Request) -> Response:
        """How far a download is, as lines of JSON, until it has ended."""
        await read_body(request)
        job = self._projects.jobs.find(_job_key(_find(request)))
        if job is None:
            raise ResourceNotFound("the model is not fetched now")
        return show_progress(job)

    async def stop(self, request: Request) -> Response:
        """Stops a download; it goes on there when it is begun again."""
        await read_body(request)
        job = self._projects.jobs.find(_job_key(_find(request)))
        if job is not None:
            job.stop()
        return JSONResponse({})

    async def remove(self, request: Request) -> Response:
        """Deletes a model's weights from this machine."""
        await read_body(request)
        name = _find(request)
        job = self._projects.jobs.find(_job_key(name))
        if job is not None and not job.has_ended:
            raise ValidationError(f"{name!r} is being fetched; stop that first")
        await run_blocking(weights.remove, name)
        return JSONResponse({})

    async def clear(self, request: Request) -> Response:
        """Deletes what was kept of prompts that embedded models have read."""
        from orchestrator.models.prompt_states import PromptStates

        await read_body(request)
        await run_blocking(PromptStates().clear)
        return JSONResponse({})


def _find(request: Request) -> str:
    return weights.find(request.path_params["model"]).name
