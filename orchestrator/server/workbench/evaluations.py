"""The pages of evaluations: cases and runs, a run as it goes on, what came of it, and each case."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import find_project, read_body
from orchestrator.server.workbench.evaluation_files import (
    RunEntry,
    find_run,
    list_case_files,
    list_runs,
    sum_up_run,
)
from orchestrator.server.workbench.evaluation_runs import (
    RunRequest,
    begin_run,
    delete_run,
    find_job,
    list_prompt_folders,
    read_request,
    result_key,
    resume_run,
)
from orchestrator.server.workbench.lines import show_progress
from orchestrator.server.workbench.look import describe_project
from orchestrator.server.workbench.pages import show
from orchestrator.server.workbench.projects import DATA_FOLDER, Project, Projects

if TYPE_CHECKING:
    from orchestrator.agent.evaluation import CaseResult, Comparison, Run


def show_evaluations(projects: Projects, request: Request) -> Response:
    """An agent's files of cases, a form that starts a run, and the runs."""
    project = projects.find(request.path_params["agent"])
    runs = [_describe_entry(projects, project, one) for one in list_runs(project.folder)]
    document = {
        "agent": describe_project(project),
        "folder": str(project.folder),
        "cases": [
            {"key": one.key, "name": one.name, "count": one.count}
            for one in list_case_files(project.folder)
        ],
        "prompts": list_prompt_folders(project.folder),
        "runs": runs,
        "export": _describe_export(project),
    }
    given = _read_given(project, request.query_params.get("like", ""))
    return show(request, "evaluations.html", document, given=given)


def _describe_export(project: Project) -> str:
    """The command that makes cases of a session; empty where no file keeps the sessions."""
    file = _find_store(project)
    if not file:
        return ""
    words = ["orchestrator", "sessions", "export", "SESSION", str(project.folder), "--as-cases"]
    if Path(file).resolve() != project.folder / DATA_FOLDER / "sessions.sqlite":
        words += ["--state", file]
    return shlex.join(words)


def _find_store(project: Project) -> str:
    """The file that keeps an agent's sessions; empty where they are in memory or in a database."""
    return str(getattr(project.sessions.store, "path", ""))


def _describe_entry(projects: Projects, project: Project, entry: RunEntry) -> dict[str, Any]:
    job = find_job(projects, project, entry.key)
    running = job is not None and not job.has_ended
    return {"key": entry.key, "name": entry.name, "running": running, **sum_up_run(entry)}


def _read_given(project: Project, key: str) -> RunRequest:
    if key:
        try:
            return read_request(find_run(project.folder, key).path)
        except OrchestratorError:  # the form is empty then
            pass
    return RunRequest("")


def show_run(projects: Projects, request: Request) -> Response:
    """A run: how far it is, or its figures, beside another one with `baseline`."""
    from orchestrator.agent.evaluation import read_run
    from orchestrator.agent.evaluation.report import build_context, build_document

    project, entry = _find(projects, request)
    run = read_run(entry.path)
    job = find_job(projects, project, entry.key)
    wanted = request.query_params.get("baseline", "")
    comparisons, complaint = _compare(project, run, wanted)
    runs = [one for one in list_runs(project.folder) if one.key != entry.key]
    document = {
        "agent": describe_project(project),
        "key": entry.key,
        "file": entry.name,
        "is_own": entry.is_own,
        "job": job.describe() if job is not None else None,
        "baseline": wanted,
        "complaint": complaint,
        **build_document(run, comparisons),
    }
    if job is not None and not job.has_ended:
        return show(request, "evaluation_progress.html", document)
    context = build_context(run, comparisons)
    keys = {one.key: result_key(one) for one in run.results}
    extra: dict[str, Any] = {**context, "keys": keys, "complete": _is_complete(run)}
    del extra["run"]
    others = [{"key": one.key, "name": one.name, **sum_up_run(one)} for one in runs]
    return show(request, "evaluation.html", document, held=run, others=others, **extra)


def _is_complete(run: Run) -> bool:
    done = [one for one in run.results if one.status != "error"]
    return len(done) >= run.result_count


def _compare(project: Project, run: Run, key: str) -> tuple[Sequence[Comparison], str]:
    from orchestrator.agent.evaluation import compare_runs, compare_variants, read_run

    if not key:
        return compare_variants(run), ""
    try:
        return compare_runs(run, read_run(find_run(project.folder, key).path)), ""
    except ValidationError as error:
        return (), error.message


def show_result(projects: Projects, request: Request) -> Response:
    """One case that was held: its turns and checks, and the way to its prompts."""
    from orchestrator.agent.evaluation import read_run

    project, entry = _find(projects, request)
    run = read_run(entry.path)
    wanted = request.path_params["result"]
    result = next((one for one in run.results if result_key(one) == wanted), None)
    if result is None:
        raise ResourceNotFound("the run has no such result")
    document = {
        "agent": describe_project(project),
        "key": entry.key,
        "started": run.head["started"],
        "result": result.as_dict(),
        "turns": _list_turns(project, result),
        "store": _find_store(project),
    }
    return show(request, "evaluation_result.html", document, held=result, signs=_get_signs())


def _get_signs() -> dict[str, str]:
    from orchestrator.agent.evaluation.report.page import SIGNS

    return SIGNS


def _list_turns(project: Project, result: CaseResult) -> list[dict[str, Any]]:
    """The turns of the case's session, where it was kept; calls that were answered go on in one."""
    try:
        turns = project.agent().turns(result.session) if result.session else []
    except OrchestratorError:
        return []
    found = []
    for turn in turns:
        steps = turn.steps()
        model = next((it.index for it in reversed(steps) if it.kind == "model"), 0)
        found.append({"id": turn.id, "question": turn.question, "steps": len(steps), "last": model})
    return found


def show_report(projects: Projects, request: Request) -> Response:
    """The report as one page that needs nothing else, to keep or to send."""
    from orchestrator.agent.evaluation import build_report, read_run, sum_variants
    from orchestrator.agent.evaluation.summary import find_shortfalls

    project, entry = _find(projects, request)
    run = read_run(entry.path)
    comparisons, _ = _compare(project, run, request.query_params.get("baseline", ""))
    text = build_report(run, comparisons, find_shortfalls(sum_variants(run))).encode(
        "utf-8", "replace"
    )
    headers = {"content-disposition": f'attachment; filename="evaluation-{entry.key}.html"'}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)


def _find(projects: Projects, request: Request) -> tuple[Project, RunEntry]:
    project = projects.find(request.path_params["agent"])
    return project, find_run(project.folder, request.path_params["run"])


class Evaluations:
    """What the pages' buttons do."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    async def start(self, request: Request) -> Response:
        """Starts a run."""
        asked = RunRequest.read(await read_body(request))
        project = await find_project(self._projects, request)
        key = await run_blocking(begin_run, self._projects, project, asked)
        return JSONResponse({"run": key})

    async def resume(self, request: Request) -> Response:
        """Goes on with a run."""
        await read_body(request)
        project = await find_project(self._projects, request)
        await run_blocking(resume_run, self._projects, project, request.path_params["run"])
        return JSONResponse({})

    async def watch(self, request: Request) -> Response:
        """How far a run is, as lines of JSON, until it has ended."""
        await read_body(request)
        project = await find_project(self._projects, request)
        job = find_job(self._projects, project, request.path_params["run"])
        if job is None:
            raise ResourceNotFound("the run is not held now")
        return show_progress(job)

    async def stop(self, request: Request) -> Response:
        """Stops a run; turns that run end first."""
        await read_body(request)
        project = await find_project(self._projects, request)
        job = find_job(self._projects, project, request.path_params["run"])
        if job is not None:
            job.stop()
        return JSONResponse({})

    async def delete(self, request: Request) -> Response:
        """Deletes a run and its sessions."""
        await read_body(request)
        project = await find_project(self._projects, request)
        await run_blocking(delete_run, self._projects, project, request.path_params["run"])
        return JSONResponse({})
