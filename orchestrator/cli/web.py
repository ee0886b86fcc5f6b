"""`orchestrator web`: the workbench, on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import Model, Prices
from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.cli.verb import option, setting, verb
from orchestrator.errors import ValidationError
from orchestrator.support.lazy_imports import describe_missing_extra

if TYPE_CHECKING:
    from orchestrator.server.workbench.projects import Projects


@verb
def web(
    terminal: Terminal,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...",
            help="Agents' folders, or folders of such folders. Default: the working directory.",
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
    host: Annotated[
        str, setting("--host", "ADDRESS", "The address to listen on, of this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, setting("--port", "N", "The port; 0 for any that is free.")] = 8090,
) -> None:
    """Open the workbench: talk to agents, and see where every prompt comes from.

    It prints an address with a token, which a browser needs once. Nobody else on the machine can
    use it, and nothing is fetched from anywhere. Ctrl-C stops it.

    [bold]Examples[/bold]
      $ orchestrator web my-agent
      $ orchestrator web examples --model local
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
    projects = Projects(folders or [Path()], model=model, state=state, prices=prices)
    try:
        settings = Settings(host=host, port=port)
        run_workbench(projects, settings, lambda url: _report_start(terminal, url, projects))
    finally:
        projects.close()


def _report_start(terminal: Terminal, url: str, projects: Projects) -> None:
    agents = [{"name": one.name, "folder": str(one.folder)} for one in projects.all()]
    if terminal.json:
        terminal.line({"url": url, "agents": agents})
        return
    terminal.path(assemble("The workbench is at ", (url, "name")))
    terminal.path(
        style_text("The address has a token: do not pass it on. Ctrl-C stops it.", "quiet")
    )
    for one in agents:
        terminal.path(assemble("  ", (clean(one["name"]), "name"), f"  {clean(one['folder'])}"))
    terminal.out.file.flush()
