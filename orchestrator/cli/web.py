"""`orchestrator web`: the workbench, on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.findings import report_broken_agent
from orchestrator.cli.options import Model, Prices
from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.cli.verb import option, setting, verb
from orchestrator.errors import ValidationError
from orchestrator.support.lazy_imports import describe_missing_extra

if TYPE_CHECKING:
    from orchestrator.server.workbench.projects import Projects
    from orchestrator.server.workbench.remote.server import RemoteServer


@verb
def web(
    terminal: Terminal,
    agents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER|URL",
            help="Agents' folders, folders of such folders, and addresses of servers. Default: the "
            "working directory.",
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    state: Annotated[
        Path | None,
        option(
            "--state",
            "FILE",
            "Keep sessions in this SQLite file. Default: in each agent's folder, where the other "
            "verbs keep them.",
            resolve_path=True,
        ),
    ] = None,
    price: Prices = None,
    server: Annotated[
        list[str] | None,
        option("--server", "URL", "The same as a URL as argument. Repeatable."),
    ] = None,
    region: Annotated[
        str | None, option("--region", "NAME", "The region that servers' requests are signed for.")
    ] = None,
    profile: Annotated[
        str | None, option("--profile", "NAME", "A profile of AWS's configuration, for servers.")
    ] = None,
    host: Annotated[
        str, setting("--host", "ADDRESS", "The address to listen on, of this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, setting("--port", "N", "The port; 0 for any that is free.")] = 8090,
) -> None:
    """Open the workbench: talk to agents, and see where every prompt comes from.

    Prints an address with a token, which a browser needs once. Other users of the machine cannot
    open it, and it loads nothing from the network. Ctrl-C stops it.

    [bold]Examples[/bold]
      $ orchestrator web my-agent
      $ orchestrator web examples --model local
      $ orchestrator web http://127.0.0.1:8080
    """
    for library in ("starlette", "uvicorn"):
        if find_spec(library) is None:
            raise ValidationError(describe_missing_extra("the workbench needs", "serve", library))
    from orchestrator.models.prices import parse_prices
    from orchestrator.server.settings import Settings
    from orchestrator.server.workbench.projects import Projects
    from orchestrator.server.workbench.run import run_workbench

    if not 0 <= port < 65536:
        raise ValidationError(f"--port {port} is no port: give 0 to 65535")
    prices = parse_prices(price or ())
    folders = [Path(it) for it in agents or () if not _is_url(it)]
    urls = [it for it in agents or () if _is_url(it)] + (server or [])
    servers = _connect(urls, region, profile)
    if not folders and not urls:
        folders = [Path()]
    projects = Projects(folders, model=model, state=state, prices=prices, servers=servers)
    try:
        settings = Settings(host=host, port=port)
        run_workbench(projects, settings, lambda url: _report_start(terminal, url, projects))
    finally:
        projects.close()


def _is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _connect(urls: list[str], region: str | None, profile: str | None) -> list[RemoteServer]:
    if not urls:
        return []
    from orchestrator.server.workbench.remote.server import RemoteServer

    return [RemoteServer(url, number, region, profile) for number, url in enumerate(urls)]


def _report_start(terminal: Terminal, url: str, projects: Projects) -> None:
    found = {one.key: {"name": one.name, "folder": str(one.folder)} for one in projects.all()}
    agents = [one for key, one in found.items() if key not in projects.broken]
    wrong = [{**found[key], "reason": error.message} for key, error in projects.broken.items()]
    servers = [one.url for one in projects.servers]
    if terminal.json:
        more = {"servers": servers, "wrong": wrong}
        terminal.line(
            {"url": url, "agents": agents, **{name: it for name, it in more.items() if it}}
        )
        return
    terminal.path(assemble("The workbench is at ", (url, "name")))
    terminal.path(
        style_text("The address has a token: do not pass it on. Ctrl-C stops it.", "quiet")
    )
    for one in agents:
        terminal.path(assemble("  ", (clean(one["name"]), "name"), f"  {clean(one['folder'])}"))
    for one in wrong:
        report_broken_agent(terminal, one["name"], one["reason"])
    for server in servers:
        terminal.path(assemble("  agents of ", (clean(server), "name")))
    terminal.out.file.flush()
