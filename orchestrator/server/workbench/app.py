"""The workbench as an ASGI application: its routes, behind its gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route, Router

from orchestrator.errors import (
    DefinitionError,
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ValidationError,
)
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.settings import Settings
from orchestrator.server.workbench import (
    evaluations,
    file_pages,
    import_pages,
    look,
    models_page,
    overview,
    try_out,
)
from orchestrator.server.workbench.chat import ChatActions
from orchestrator.server.workbench.pages import render, send_static, show, wants_json
from orchestrator.server.workbench.parts import show_parts
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.remote.door import RemoteDoor
from orchestrator.server.workbench.security import ROOT, ROOT_KEY, Gate
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")

Page = Callable[[Projects, Request], Response]


def build_workbench(projects: Projects, settings: Settings) -> Gate:
    """The application over some agents; its `token` opens it."""
    agent = f"{ROOT}/agents/{{agent}}"
    start = len(agent)
    session = f"{agent}/sessions/{{session}}"
    turn = f"{session}/turns/{{turn}}"
    run = f"{agent}/evaluations/{{run}}"
    file = f"{agent}/files/{{file}}"
    remote = RemoteDoor(projects)
    pages: dict[str, Page] = {
        f"{ROOT}/": partial(look.show_home, remote.describe_servers),
        f"{ROOT}/import": import_pages.show_import,
        f"{ROOT}/models": models_page.show_models,
        agent: look.show_agent,
        f"{agent}/definition": overview.show_definition,
        f"{agent}/memory": overview.show_memory,
        session: look.show_session,
        turn: look.show_turn,
        f"{turn}/trace": look.show_trace,
        f"{turn}/steps/{{step}}": look.show_step,
        f"{turn}/steps/{{step}}/parts": show_parts,
        f"{turn}/steps/{{step}}/what-if": try_out.show_form,
        f"{agent}/compare": try_out.show_comparison,
        f"{agent}/evaluations": evaluations.show_evaluations,
        run: evaluations.show_run,
        f"{agent}/files": file_pages.show_files,
        file: file_pages.show_file,
        f"{run}/report": evaluations.show_report,
        f"{run}/results/{{result}}": evaluations.show_result,
    }
    chat, trying = ChatActions(projects), try_out.TryOut(projects)
    filing = file_pages.FileActions(projects)
    evaluating = evaluations.Evaluations(projects)
    models, model = models_page.Models(projects), f"{ROOT}/models/{{model}}"
    actions: dict[str, Callable[[Request], Awaitable[Response]]] = {
        f"{ROOT}/import": partial(import_pages.import_files, projects),
        f"{ROOT}/models/cache/clear": models.clear,
        f"{model}/pull": models.pull,
        f"{model}/watch": models.watch,
        f"{model}/stop": models.stop,
        f"{model}/remove": models.remove,
        f"{agent}/memory/forget": partial(overview.forget, projects),
        f"{session}/ask": chat.ask,
        f"{session}/fork": chat.fork,
        f"{session}/end": chat.end,
        f"{session}/delete": chat.delete,
        f"{session}/decide": trying.decide,
        f"{turn}/steps/{{step}}/preview": trying.preview,
        f"{turn}/steps/{{step}}/run": trying.run,
        f"{turn}/steps/{{step}}/save": trying.save,
        f"{agent}/evaluations/start": evaluating.start,
        f"{file}/render": filing.render,
        f"{file}/run": filing.run,
        f"{file}/resume": filing.resume,
        f"{run}/watch": evaluating.watch,
        f"{run}/stop": evaluating.stop,
        f"{run}/resume": evaluating.resume,
        f"{run}/delete": evaluating.delete,
    }
    routes = [
        *(
            Route(path, _page(projects, remote.wrap_page(path[start:], page)), methods=["GET"])
            for path, page in pages.items()
        ),
        *(
            Route(path, _action(remote.wrap_action(path[start:], action)), methods=["POST"])
            for path, action in actions.items()
        ),
        Route(f"{ROOT}/static/{{name}}", _static, methods=["GET"]),
        Route(ROOT, lambda it: RedirectResponse(f"{it.scope[ROOT_KEY]}/"), methods=["GET"]),
    ]
    router = Router(routes, default=_missing)
    return Gate(router, settings, partial(render, "locked.html"))


async def _missing(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        error = ResourceNotFound("there is no such page")
        await _report(Request(scope, receive), error)(scope, receive, send)


async def _static(request: Request) -> Response:
    found = send_static(request.path_params["name"])
    return found or _report(request, ResourceNotFound("there is no such file"))


def _page(projects: Projects, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await run_blocking(page, projects, request)
        except OrchestratorError as error:
            return _report(request, error)
        except Exception as error:
            return _report(request, _report_fault(request, error))

    return answer


def _action(
    action: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await action(request)
        except (OrchestratorError, HTTPException) as error:
            message = error.detail if isinstance(error, HTTPException) else error.message
            return JSONResponse({"message": message}, _get_status(error))
        except Exception as error:
            fault = _report_fault(request, error)
            return JSONResponse({"message": fault.message}, _get_status(fault))

    return answer


class _Fault(OrchestratorError):
    """The workbench's own."""


def _report_fault(request: Request, error: Exception) -> _Fault:
    path = request.scope["path"][:200]
    _log.error("the workbench failed at %r: %s", path, type(error).__name__, exc_info=error)
    return _Fault(f"the workbench failed here ({type(error).__name__}); its log says where")


def _report(request: Request, error: OrchestratorError) -> Response:
    status = _get_status(error)
    found = [one.as_dict() for one in getattr(error, "diagnostics", ())]
    document = {"message": error.message, "diagnostics": found}
    if wants_json(request):
        return JSONResponse(document, status)
    return show(request, "error.html", {**document, "status": status}, status)


_STATUSES: dict[type[Exception], int] = {
    ResourceNotFound: 404,
    ValidationError: 400,
    SessionConflict: 409,
    DefinitionError: 422,
    _Fault: 500,
}


def _get_status(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    return next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 502)
