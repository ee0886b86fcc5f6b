"""Templates for `run` and `chat`: their inputs, their model, and the run as it happens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.agents import choose_sessions, load_models
from orchestrator.cli.findings import show_finding
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.run import load_tools
from orchestrator.cli.scripts import read_template_inputs
from orchestrator.cli.terminal import Terminal, assemble, clean

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.template import PromptTemplate
    from orchestrator.agent.template_run import TemplateOptions, TemplateResult
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.models import Model


def run_template(
    terminal: Terminal,
    file: Path,
    words: Sequence[str],
    model: str | None,
    tool: Sequence[str] | None,
    *,
    strict: bool,
) -> None:
    """Runs a template once; its answer goes to stdout as it streams, doubts go to stderr."""
    from orchestrator.agent.files import load_template_file
    from orchestrator.agent.template_run import TemplateRun

    functions = load_tools(tool, dotted=True)
    template = load_template_file(file, functions, strict=strict)
    inputs = read_template_inputs(words, template)
    run = TemplateRun(template, inputs, _read_options(template, model, functions))
    run.render()
    show_doubts(terminal, run.diagnostics)
    with run.open_agent() as agent:
        load_models(agent, terminal)
    if terminal.json:
        terminal.document(run.run().as_dict())
        return
    live = LiveTurn(terminal)
    try:
        live.run(run.stream())
    finally:
        live.finish()
    if run.result is not None:
        _show_tool_calls(terminal, run.result)


def load_template_agent(
    terminal: Terminal,
    file: Path,
    words: Sequence[str],
    model: str | Model | None,
    tool: Sequence[str] | None,
    session: str | None,
    state: str | None,
) -> Agent:
    """The agent that a template is in a conversation."""
    from orchestrator.agent.files import load_template_file

    functions = load_tools(tool, dotted=True)
    template = load_template_file(file, functions)
    inputs = read_template_inputs(words, template)
    sessions = choose_sessions(file, session, state)
    options = _read_options(template, model, functions)
    agent = template.as_agent(inputs, sessions=sessions, **options)
    show_doubts(terminal, template.diagnostics)
    return agent


def show_doubts(terminal: Terminal, found: Sequence[Diagnostic]) -> None:
    """Shows what is doubtful on stderr."""
    for finding in () if terminal.json else found:
        show_finding(terminal, finding, stderr=True)


def _read_options(
    template: PromptTemplate, model: str | Model | None, functions: Mapping[str, Callable[..., Any]]
) -> TemplateOptions:
    """The options of a run; functions that the template calls itself are no tools of its model."""
    from orchestrator.agent.template_model import names_model

    if model is None and not names_model(template.document):
        model = "local"
    calls = {one.rpartition(".")[2] for one in getattr(template.document, "calls", ())}
    tools = {name: it for name, it in functions.items() if name.rpartition(".")[2] not in calls}
    return {"model": model, "tools": tools}


def _show_tool_calls(terminal: Terminal, result: TemplateResult) -> None:
    for call in result.tool_calls:
        shown = clean(json.dumps(call["input"], ensure_ascii=False))
        terminal.block(assemble(("calls ", "quiet"), (call["name"], "call"), f" {shown}"))
    if result.tool_calls:
        names = ", ".join(dict.fromkeys(str(one["name"]) for one in result.tool_calls))
        terminal.note(f"nobody carries {clean(names)} out: give --tool NAME=FILE:FUNCTION")
