"""`orchestrator serve`: Amazon Bedrock's own API, for agents on this machine."""

from __future__ import annotations

import os
import re
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.findings import format_message, report_broken_agent, suggest_fix
from orchestrator.cli.options import Prices, parse_pairs
from orchestrator.cli.terminal import Terminal, assemble, clean, style_text
from orchestrator.cli.verb import option, setting, verb
from orchestrator.errors import ValidationError
from orchestrator.support.content_root import get_agent_root
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.load_errors import report_load_errors
from orchestrator.support.store_urls import resolve_store

if TYPE_CHECKING:
    from orchestrator.server.settings import Settings
    from orchestrator.server.state import ServerState

_LAST_SECONDS = 2.0
_SPECS = ("local", "local:", "openai:", "replay:", "scripted:")


@dataclass(frozen=True)
class ServeOptions:
    """The options of `serve`; those that `Settings` has, too, have its names."""

    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="An agent's folder, or a folder of agents' folders.",
            show_default=False,
            resolve_path=True,
        ),
    ] = None
    host: Annotated[str, setting("--host", "ADDRESS", "The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, setting("--port", "N", "The port; 0 for any that is free.")] = 8080
    agents: Annotated[
        Path | None,
        option(
            "--agents",
            "DIR",
            "The same as FOLDER; read again when files change.",
            resolve_path=True,
        ),
    ] = None
    state: Annotated[
        str | None,
        option(
            "--state",
            "FILE|URL",
            "Keep sessions in this SQLite file and all else beside it, or all in a database, such "
            "as postgresql://host/name. Default: in memory.",
        ),
    ] = None
    data: Annotated[
        Path | None,
        option(
            "--data",
            "DIR",
            "A folder for indexes of knowledge bases, where --state is a database.",
            resolve_path=True,
        ),
    ] = None
    model: Annotated[
        list[str] | None,
        option(
            "--model",
            "SPEC|PATTERN=SPEC",
            "Use this model instead of every other, or instead of those that fit a pattern "
            "such as 'anthropic.*'. Repeatable.",
        ),
    ] = None
    lambdas: Annotated[
        list[str] | None,
        option(
            "--lambda",
            "NAME=FILE[:FUNCTION]",
            "Use this function, by default `lambda_handler`, for the Lambda function of a "
            "name or ARN. Repeatable.",
        ),
    ] = None
    buckets: Annotated[
        list[str] | None,
        option("--bucket", "NAME=FOLDER", "Use this folder for an S3 bucket. Repeatable."),
    ] = None
    guardrails: Annotated[
        list[str] | None,
        option(
            "--guardrail",
            "NAME=FILE",
            "Use this local guardrail for the guardrail of an id or ARN. Repeatable.",
        ),
    ] = None
    keys: Annotated[
        Path | None,
        option(
            "--keys",
            "FILE",
            "Access keys, which callers have to sign with, and their tenants.",
        ),
    ] = None
    open: Annotated[
        bool, typer.Option("--open", help="Serve everybody who reaches the address, without keys.")
    ] = False
    workers: Annotated[int, setting("--workers", "N", "Worker processes; they need --state.")] = 1
    shutdown_seconds: Annotated[
        float, setting("--shutdown-seconds", "N", "How long running turns may go on at the end.")
    ] = 20.0
    turn_seconds: Annotated[
        float, setting("--turn-seconds", "N", "How long an invocation may take.")
    ] = 600.0
    body_bytes: Annotated[int, setting("--body-bytes", "N", "The largest body of a request.")] = (
        32_000_000
    )
    concurrency: Annotated[
        int, setting("--concurrency", "N", "Requests that each worker serves at once.")
    ] = 256
    metrics_port: Annotated[
        int | None,
        setting("--metrics-port", "N", "Answer GET /metrics on this port too, without a key."),
    ] = None
    metrics_host: Annotated[
        str, setting("--metrics-host", "ADDRESS", "The address of the metrics' port.")
    ] = "127.0.0.1"
    workbench: Annotated[
        bool,
        typer.Option(
            "--workbench", help="Serve the workbench, too: for this machine alone, at /workbench."
        ),
    ] = False
    price: Prices = None
    log_format: Annotated[
        str, setting("--log-format", "FORMAT", "The log on stderr: text, or json (a line each).")
    ] = "text"
    region: Annotated[str, setting("--region", "NAME", "The region in ARNs.")] = "us-east-1"
    account: Annotated[str, setting("--account", "ID", "The account in ARNs: twelve digits.")] = (
        "000000000000"
    )


@verb
def serve(terminal: Terminal, options: ServeOptions) -> None:
    """Serve agents over Amazon Bedrock's own API.

    boto3 clients need only endpoint_url=; chat clients use /v1. Ctrl-C lets running turns finish; a
    second Ctrl-C leaves them for the next start.

    [bold]Examples[/bold]
      $ orchestrator serve my-agent
      $ orchestrator serve examples --model local
      $ orchestrator serve my-agents --state s.sqlite --workers 4
      $ orchestrator serve my-agent --workbench
      $ orchestrator serve my-agents --host 0.0.0.0 --keys keys.yaml
    """
    _check_installed()
    if options.log_format == "json":
        terminal.log_error = partial(_log_error, debug=terminal.debug)
    from orchestrator.server import serving
    from orchestrator.server.process_log import log_requests
    from orchestrator.server.settings import Settings

    every, patterns = _parse_models(options.model)
    buckets = parse_pairs(options.buckets, "--bucket", "NAME=FOLDER")
    guardrails = parse_pairs(options.guardrails, "--guardrail", "NAME=FILE")
    converted = {
        "agents": _choose_agents(options),
        # A link stays one: to rotate keys, Kubernetes has it lead to another file.
        "keys": None if options.keys is None else options.keys.absolute(),
        "state": None if options.state is None else resolve_store(options.state),
        "model": every,
        "models": patterns,
        "lambdas": parse_pairs(options.lambdas, "--lambda", "NAME=FILE[:FUNCTION]"),
        "buckets": {name: Path(folder).resolve() for name, folder in buckets.items()},
        "guardrails": {name: Path(file).resolve() for name, file in guardrails.items()},
        "price": tuple(options.price or ()),
        "shutdown_seconds": max(options.shutdown_seconds, 0.0),
    }
    given = {name: it for name, it in vars(options).items() if name != "folder"}
    settings = Settings(**{**given, **converted})
    _check_settings(settings)
    end_log = log_requests(settings.log_format)
    # A service's log is read by others than who wrote the files.
    unread = nullcontext() if terminal.err.is_terminal else report_load_errors(None)
    try:
        with unread:
            serving.serve(settings, lambda url, world: _report_start(terminal, url, world))
    finally:
        end_log()
    _schedule_exit()


def _log_error(error: BaseException, *, debug: bool) -> None:
    # What ends the server, or keeps it from starting, is a line of its log as everything else is.
    from orchestrator.server.process_log import log_requests
    from orchestrator.support.logs import get_logger

    way_out = suggest_fix(error, debug=debug)
    text = f"{format_message(error)}{f'; {way_out}' if way_out else ''}"
    end_log = log_requests("json")
    get_logger("orchestrator.server").error("%s", text, exc_info=error if debug else None)
    end_log()


def _choose_agents(options: ServeOptions) -> Path | None:
    if options.folder is None:
        return options.agents
    if options.agents is not None:
        raise ValidationError("give FOLDER or --agents, not both: they say the same")
    return get_agent_root(options.folder)


def _schedule_exit() -> None:
    # A thread that waits for a model would keep the process alive, although nobody waits for it.
    last = threading.Timer(_LAST_SECONDS, os._exit, (0,))
    last.daemon = True
    last.start()


def _check_installed() -> None:
    for library in ("starlette", "uvicorn", "prometheus_client"):
        if find_spec(library) is None:
            raise ValidationError(describe_missing_extra("the server needs", "serve", library))


def _check_settings(settings: Settings) -> None:
    checks = (
        ("port", lambda it: 0 <= it < 65536, "is no port: give 0 to 65535"),
        (
            "metrics_port",
            lambda it: it is None or 0 <= it < 65536,
            "is no port: give 0 to 65535",
        ),
        ("log_format", ("text", "json").__contains__, "is no format: give text or json"),
        ("workers", lambda it: 0 < it <= 256, "is not possible: give 1 to 256"),
        ("turn_seconds", lambda it: it > 0, "is no time: give seconds over 0"),
        ("body_bytes", lambda it: it > 0, "lets nothing in: give 1 or more"),
        ("concurrency", lambda it: it > 0, "lets nobody in: give 1 or more"),
        (
            "region",
            re.compile(r"[a-z0-9-]{1,20}").fullmatch,
            "is no region: give small letters, digits and '-', such as eu-central-1",
        ),
        ("account", re.compile(r"[0-9]{12}").fullmatch, "is no account: give twelve digits"),
    )
    for name, is_possible, reason in checks:
        value = getattr(settings, name)
        if not is_possible(value):
            raise ValidationError(f"--{name.replace('_', '-')} {value!r} {reason}")


def _parse_models(items: list[str] | None) -> tuple[str | None, dict[str, str]]:
    every: str | None = None
    some = {}
    for one in items or ():
        if "=" in one and not one.startswith(_SPECS[1:]):
            some.update(parse_pairs([one], "--model"))
        elif every is not None:
            raise ValidationError(
                f"--model {every!r} and --model {one!r} are both for every agent: give the ids "
                f"that one is for, as in --model 'anthropic.*={one}'"
            )
        else:
            every = one
    return every, some


def _report_start(terminal: Terminal, url: str, world: ServerState) -> None:
    agents, wrong = _list_agents(world), _list_broken_agents(world)
    if terminal.json:
        document: dict[str, Any] = {"url": url, "pid": os.getpid(), "agents": agents}
        if world.workbench:
            document["workbench"] = world.workbench
        terminal.line({**document, "wrong": wrong} if wrong else document)
        return
    terminal.path(assemble("Serving Amazon Bedrock's API on ", (url, "name")))
    if world.workbench:
        terminal.path(assemble("The workbench is at ", (world.workbench, "name")))
        terminal.path(style_text("Its address has a token: do not pass it on.", "quiet"))
    terminal.path(style_text("Ctrl-C stops it.", "quiet"))
    terminal.print()
    for one in agents:
        terminal.path(
            assemble(
                f"  {one['agentId']}  {one['agentAliasId']}  ",
                (clean(one["agentName"]), "name"),
            )
        )
    for one in wrong:
        report_broken_agent(terminal, one["agentName"], one["reason"])
    _warn_of_missing_models(terminal, world)
    if not agents and not wrong:
        terminal.path(
            style_text("  There are no agents yet: give FOLDER, or create one with boto3.")
        )
    terminal.print()
    for line in _make_snippet(url, world.settings, agents):
        terminal.path(style_text(f"  {line}", "quiet"))
    terminal.print()
    terminal.out.file.flush()


def _warn_of_missing_models(terminal: Terminal, world: ServerState) -> None:
    # The server runs without them, and the first turn would fail.
    from orchestrator.server.health import Missing, build_checks

    try:
        build_checks(world)["models"]()
    except Missing as error:
        hint = "`orchestrator models list` lists embedded ones, and `pull` downloads one"
        terminal.path(style_text(f"{clean(str(error))}; {hint}", "warning"))


def _list_agents(world: ServerState) -> list[dict[str, Any]]:
    from orchestrator.server.operations import Caller

    # With keys these are the agents in folders: what tenants have made is theirs alone.
    return [
        {"agentId": agent_id, "agentAliasId": alias_id, "agentName": name}
        for agent_id, alias_id, name, _ in world.agents.list_invocable(Caller())
    ]


def _list_broken_agents(world: ServerState) -> list[dict[str, str]]:
    # One broken agent does not keep the others from running; it runs once it is mended.
    return [
        {"agentId": one.agent_id, "agentName": one.name, "reason": reason}
        for one in world.agents.folders.all()
        if (reason := one.reason())
    ]


def _make_snippet(url: str, settings: Settings, agents: list[dict[str, Any]]) -> list[str]:
    first = agents[0] if agents else {"agentId": "AGENT_ID", "agentAliasId": "TSTALIASID"}
    region = settings.region
    # boto3 signs with something; without keys nobody looks at it.
    some = "" if settings.keys else ', aws_access_key_id="local", aws_secret_access_key="local"'
    return [
        "import boto3",
        f'client = boto3.client("bedrock-agent-runtime", region_name="{region}", '
        f'endpoint_url="{url}"{some})',
        f'client.invoke_agent(agentId="{first["agentId"]}", '
        f'agentAliasId="{first["agentAliasId"]}", sessionId="s-1", inputText="Hello")',
    ]
