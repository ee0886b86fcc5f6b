"""Pages and their JSON twins: one document, shown as HTML or sent as it is."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from orchestrator.agent.evaluation.report.page import FOLDER as REPORT_FOLDER
from orchestrator.message import clean
from orchestrator.server.workbench.costs import format_dollars
from orchestrator.server.workbench.security import ROOT, ROOT_KEY
from orchestrator.server.workbench.turn_view import describe_arguments, format_milliseconds
from orchestrator.support.content_root import content_root

_MOST_DIGITS = 9
_OWN = Path(__file__).parent
_STATIC_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader([_OWN / "html", REPORT_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "duration": format_milliseconds,
        "moment": format_moment,
        "place": format_place,
        "call": describe_arguments,
        "dollars": format_dollars,
        "json": format_json,
        "count": lambda number: f"{number:,}",
    }
    return made


def render(name: str, root: str = ROOT, **values: Any) -> str:
    """The HTML of a template, whose links are below `root`."""
    text = (
        _environment().get_template(name).render(root=root, link=partial(to_link, root), **values)
    )
    return str(clean(text))


def format_moment(at: int) -> str:
    """A time in nanoseconds since 1970, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))


def format_json(value: Any) -> str:
    """A value as JSON to read; the page encodes it as any other text."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def format_place(path: str) -> str:
    """A path as it is best read: from the shipped content, or from the home folder."""
    for folder, name in ((content_root(), ""), (Path.home(), "~/")):
        if Path(path).is_relative_to(folder):
            return f"{name}{Path(path).relative_to(folder)}"
    return path


def to_link(root: str, key: str, session: str = "", turn: str = "", step: int = 0) -> str:
    """The address of an agent's page, or of one of its sessions, turns or steps."""
    from urllib.parse import quote

    link = f"{root}/agents/{quote(key, safe='')}"
    if session:
        # `..` is a session's id, and no browser would ask for a path that ends in it.
        link += f"/sessions/{'~' if not session.strip('.') else ''}{quote(session, safe='')}"
    if turn:
        link += f"/turns/{quote(turn, safe='')}"
    return f"{link}/steps/{step}" if step else link


def read_session(segment: str) -> str:
    """The session's id of a path that `to_link` made."""
    return segment.removeprefix("~")


def read_number(text: str) -> int:
    """A number of an address; 0 for what is none."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def wants_json(request: Request) -> bool:
    """Whether the JSON twin of a page is asked for."""
    accept = request.headers.get("accept", "")
    asked = "application/json" in accept and "text/html" not in accept
    return asked or request.query_params.get("format") == "json"


def show(
    request: Request, name: str, document: Mapping[str, Any], status: int = 200, **extra: Any
) -> Response:
    """A document as a page, or as JSON; `extra` is what only the page needs, or shows otherwise."""
    if wants_json(request):
        return JSONResponse(clean(dict(document)), status)
    root = request.scope.get(ROOT_KEY, ROOT)
    return HTMLResponse(render(name, root, request=request, **{**document, **extra}), status)


def send_static(name: str) -> Response | None:
    """One of the page's own files; `None` when there is no such file."""
    known = {file.name: file for file in (_OWN / "static").iterdir()}
    file = known.get(name)
    if file is None or file.suffix not in _STATIC_TYPES:
        return None
    kind = f"{_STATIC_TYPES[file.suffix]}; charset=utf-8"
    return Response(file.read_bytes(), headers={"content-type": kind, "cache-control": "no-cache"})
