"""The page on which agents and templates are dropped."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.prompts import STAGES
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import read_body
from orchestrator.server.workbench.dropped_files import MOST_BYTES, MOST_FILES
from orchestrator.server.workbench.imports import ImportRequest, carry_out, list_places
from orchestrator.server.workbench.pages import show
from orchestrator.server.workbench.projects import Projects


def show_import(projects: Projects, request: Request) -> Response:
    """Where files are dropped, and where they may go."""
    document = {
        "places": list_places(projects),
        "stages": list(STAGES),
        "into": request.query_params.get("into", ""),
        "most_files": MOST_FILES,
        "most_bytes": MOST_BYTES,
    }
    return show(request, "import.html", document)


async def import_files(projects: Projects, request: Request) -> Response:
    """What dropped files would become; with the digest of that, writes it."""
    asked = ImportRequest.read(await read_body(request))
    return JSONResponse(await run_blocking(carry_out, projects, asked))
