"""Running the server: in this process, in several, or in a thread beside a test."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from orchestrator.errors import DependencyFailed, OrchestratorError, ValidationError
from orchestrator.server import metrics
from orchestrator.server.access.authenticator import Clock
from orchestrator.server.access.guards import check_binding, describe_bind_error
from orchestrator.server.access.keys import warn_if_readable
from orchestrator.server.active_requests import ActiveRequests
from orchestrator.server.app import application
from orchestrator.server.ids import now
from orchestrator.server.probes import MetricsApp
from orchestrator.server.process_log import log_requests
from orchestrator.server.protocols.http1 import IDLE_SECONDS, Protocol
from orchestrator.server.responsiveness import responsive
from orchestrator.server.settings import Settings
from orchestrator.server.supervisor import Supervisor
from orchestrator.server.uvicorn_config import FastStopServer, build_config
from orchestrator.support.aws import serving_at
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from orchestrator.server.state import ServerState

_log = get_logger("orchestrator.server")

_SETTINGS = "ORCHESTRATOR_SERVER_SETTINGS"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Connections that wait while the application starts.
_BACKLOG = 2048
# That a worker may be busy: to load a model keeps all of its threads waiting.
_WORKER_SECONDS = 60
# After turns were left: time to send their clients the error.
_SPARE_SECONDS = 5.0
# Scrapes of metrics at once.
_SCRAPES = 16


def serve(settings: Settings, report: Callable[[str, ServerState], None]) -> None:
    """Serves until the process is asked to stop (SIGTERM, SIGINT), and ends in order.

    Running turns go on for `settings.shutdown_seconds`, and are then left open in their journals;
    another process goes on with them. A second SIGINT leaves them at once.
    `report` is called with the server's URL and its state, once it takes connections.

    Raises:
        ValidationError: The settings do not fit together, or the address cannot be used.
        OrchestratorError: What they name cannot be opened, or a worker process could not start.
    """
    from orchestrator.server.state import ServerState

    check_binding(settings)
    if settings.workbench or settings.price:
        from orchestrator.server.workbench.served_agents import check_workbench

        check_workbench(settings)
    if settings.workers > 1 and settings.is_in_memory:
        raise ValidationError(
            f"{settings.workers} worker processes share nothing but their state: give --state, "
            "or serve with one"
        )
    with ExitStack() as opened:
        listening = opened.enter_context(_bind_socket(settings))
        opened.enter_context(serving_at(listening.getsockname()[1]))
        url = _build_url(settings.host, listening)
        with ServerState(settings) as state:
            if settings.keys is not None:  # here, and not in each worker
                warn_if_readable(settings.keys)
            if settings.workers == 1:
                with _serve_metrics(settings, state.metrics.render):
                    _run_single(state, listening, url, lambda: report(url, state))
                return
            # What is wrong is reported here, and not once by every worker.
            application(state)
            opened.enter_context(metrics.share_folder())
            opened.enter_context(_serve_metrics(settings, metrics.render))
            supervisor = _build_supervisor(settings, listening)
            report(url, state)
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise DependencyFailed("a worker process could not start; what it logged says why")


def _run_single(
    state: ServerState, listening: socket.socket, url: str, report: Callable[[], None]
) -> None:
    settings = state.settings
    app = application(state, during=lambda running: _single_lifespan(state, running))
    if settings.workbench:
        app = _add_workbench(app, state, url)
    server = uvicorn.Server(build_server_config(app, settings))

    def handle_signal(number: int, frame: FrameType | None) -> None:
        # Before uvicorn listens to signals; after its end it raises again those that it took.
        server.should_exit = True

    before = {number: signal.signal(number, handle_signal) for number in _SIGNALS}
    try:
        report()
        with responsive():
            server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _add_workbench(app: ASGIApp, state: ServerState, url: str) -> ASGIApp:
    # Its pages are loaded for those who ask for it alone.
    from orchestrator.server.workbench.served_agents import WorkbenchDoor

    door = WorkbenchDoor(app, state)
    state.workbench = f"{url}{door.address}"
    return door


@contextmanager
def _serve_metrics(settings: Settings, render: Callable[[], bytes]) -> Iterator[None]:
    """Answers `GET /metrics` on a port of its own, in a thread, if the settings name one."""
    if settings.metrics_port is None:
        yield
        return
    own = replace(settings, host=settings.metrics_host, port=settings.metrics_port)
    with _bind_socket(own, "--metrics-port") as listening:
        config = build_config(
            MetricsApp(render),
            http=Protocol,
            loop="asyncio",
            lifespan="off",
            limit_concurrency=_SCRAPES,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        work = partial(server.run, sockets=[listening])
        thread = threading.Thread(target=work, name="orchestrator-metrics", daemon=True)
        thread.start()
        _log.info("metrics are on %s/metrics", _build_url(own.host, listening))
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()


def _build_supervisor(settings: Settings, listening: socket.socket) -> Supervisor:
    """What starts workers, and others for those that die; it listens to signals from here on."""
    port = listening.getsockname()[1]
    os.environ[_SETTINGS] = replace(settings, port=port).as_text()
    config = build_server_config("orchestrator.server.serving:worker", settings, factory=True)
    return Supervisor(config, sockets=[listening])


def worker() -> ASGIApp:
    """The application of a worker process, whose settings `serve` has put into the environment."""
    from orchestrator.server.state import ServerState

    settings = Settings.from_text(os.environ[_SETTINGS])
    log_requests(settings.log_format)
    threading.Thread(target=_end_with_parent, name="orchestrator-parent", daemon=True).start()
    try:
        state = ServerState(settings)
        app = application(state, during=lambda running: _worker_lifespan(state, running))
    except OrchestratorError as error:
        _log.error("%s", error.message)
        sys.exit(STARTUP_FAILURE)
    return app


@contextmanager
def _worker_lifespan(state: ServerState, running: ActiveRequests) -> Iterator[None]:
    with responsive(), serving_at(state.settings.port), state, _single_lifespan(state, running):
        yield


@contextmanager
def _single_lifespan(state: ServerState, running: ActiveRequests) -> Iterator[None]:
    with state.recovery.running(), _stop_on_signals(running, state.settings):
        yield


def _end_with_parent() -> None:
    """Has a worker whose parent was killed stop, instead of holding the port for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _stop_on_signals(running: ActiveRequests, settings: Settings) -> Iterator[None]:
    """Has signals, besides what uvicorn does with them, give turns their last seconds."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def handle_signal(number: int, frame: FrameType | None) -> None:
        # A terminal's Ctrl-C reaches workers twice: as SIGINT, and as their parent's SIGTERM.
        if number == signal.SIGINT and running.is_stopping:
            loop.call_soon_threadsafe(running.leave)
        else:
            loop.call_soon_threadsafe(running.stop, settings.shutdown_seconds)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _SIGNALS:
        signal.signal(number, handle_signal)
    yield


@contextmanager
def _bind_socket(settings: Settings, option: str = "--port") -> Iterator[socket.socket]:
    """A socket that takes connections already; they wait until they are answered.

    For messages, `option` is the one that names the port.
    """
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise ValidationError(f"the host {settings.host!r} has no address here") from None
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with closing(listening):
        try:
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as error:
            text = describe_bind_error(settings.host, settings.port, option, error)
            raise ValidationError(text) from None
        listening.set_inheritable(True)
        yield listening


def _build_url(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name and not name.startswith('[') else name}:{port}"


def build_server_config(app: Any, settings: Settings, *, factory: bool = False) -> uvicorn.Config:
    """How uvicorn is to serve the application, or what makes it."""
    return build_config(
        app,
        factory=factory,
        workers=settings.workers,
        http=Protocol,
        loop="orchestrator.server.fair_loop:FairEventLoop",
        lifespan="on",
        timeout_keep_alive=IDLE_SECONDS,
        timeout_worker_healthcheck=_WORKER_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds + _SPARE_SECONDS),
    )


@contextmanager
def serve_in_thread(state: ServerState, *, clock: Clock = now) -> Iterator[str]:
    """Serves in a thread of this process while a `with` block runs; gives the URL.

    Args:
        state: What to serve; `settings.port` may be 0. It stays open.
        clock: Gives the time that signatures are compared with.

    Raises:
        ValidationError: The address cannot be used.
    """
    settings = state.settings
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    @contextmanager
    def lifespan(running: ActiveRequests) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def stop_server() -> None:
            running.stop(settings.shutdown_seconds)
            server.end()

        stop.append(lambda: loop.call_soon_threadsafe(stop_server))
        ready.set()
        yield

    app = application(state, clock=clock, during=lifespan)
    with _bind_socket(settings) as listening:
        if settings.workbench:
            app = _add_workbench(app, state, _build_url(settings.host, listening))
        server = FastStopServer(build_server_config(app, settings))

        def run() -> None:
            try:
                server.run(sockets=[listening])
            finally:
                ready.set()

        thread = threading.Thread(target=run, name="orchestrator-server", daemon=True)
        thread.start()
        ready.wait()
        try:
            yield _build_url(settings.host, listening)
        finally:
            for tell in stop:
                tell()
            thread.join()
