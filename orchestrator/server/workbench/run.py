"""Runs a workbench: on this machine's own address, until it is stopped."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.access.guards import describe_bind_error, is_loopback
from orchestrator.server.settings import Settings
from orchestrator.server.uvicorn_config import FastStopServer, build_config
from orchestrator.server.workbench.app import build_workbench
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.security import ROOT

_BACKLOG = 128
_LAST_SECONDS = 5  # for turns that run when it is stopped


def run_workbench(projects: Projects, settings: Settings, report: Callable[[str], None]) -> None:
    """Serves until the process is asked to stop; `report` is called with the address to open.

    Raises:
        ValidationError: Others than this machine could reach the address, or it is in use.
    """
    with _bind(settings) as listening:
        server, url = _build_server(projects, settings, listening)
        report(url)
        server.run(sockets=[listening])


@contextmanager
def run_in_thread(projects: Projects, settings: Settings) -> Iterator[str]:
    """Serves in a thread of this process while a `with` block runs; gives the address to open.

    Raises:
        ValidationError: As for `run_workbench`.
    """
    with _bind(settings) as listening:
        server, url = _build_server(projects, settings, listening)
        thread = threading.Thread(
            target=lambda: server.run(sockets=[listening]), name="workbench", daemon=True
        )
        thread.start()
        try:
            yield url
        finally:
            server.end()
            thread.join()


def _build_server(
    projects: Projects, settings: Settings, listening: socket.socket
) -> tuple[FastStopServer, str]:
    app = build_workbench(projects, settings)
    config = build_config(app, lifespan="off", timeout_graceful_shutdown=_LAST_SECONDS)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    port = listening.getsockname()[1]
    return FastStopServer(config), f"http://{host}:{port}{ROOT}/#t={app.token}"


@contextmanager
def _bind(settings: Settings) -> Iterator[socket.socket]:
    if not is_loopback(settings.host):
        raise ValidationError(
            f"the workbench shows all that agents were told, and saves templates: on "
            f"{settings.host!r} others than this machine could use it. Leave --host out, and "
            "reach it from elsewhere through a tunnel, such as `ssh -L`"
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        address: Any = (settings.host, settings.port)
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        text = describe_bind_error(settings.host, settings.port, "--port", error)
        raise ValidationError(text) from None
    with closing(listening):
        yield listening
