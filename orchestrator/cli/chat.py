"""`orchestrator chat`: a conversation with an agent in the terminal."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import ensure_data_folder, load_agent, note_templates
from orchestrator.cli.chat_commands import ChatCommands
from orchestrator.cli.findings import error_document, show_error
from orchestrator.cli.keyboard import Keyboard
from orchestrator.cli.options import Tools, Turn
from orchestrator.cli.recordings import choose_model, get_models_ready
from orchestrator.cli.return_control import read_given_results
from orchestrator.cli.talk import Talk
from orchestrator.cli.terminal import Terminal, assemble, format_count, style_text
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.errors import OrchestratorError, ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent


@verb
def chat(
    terminal: Terminal,
    turn: Turn,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="With a template: its inputs, without the question and the earlier turns.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step.")] = False,
    tool: Tools = None,
) -> None:
    """Talk to an agent or a template.

    Ctrl-C stops the current answer, Ctrl-D ends the chat, and /help lists the commands. If the
    agent returns control, you are asked for the result of the call. Files are sent with the first
    question. Without a terminal, every line of stdin is a question; --json writes one reply a line.

    [bold]Examples[/bold]
      $ orchestrator chat examples/insurance
      $ orchestrator chat examples/hr --attribute employeeId=e-1042 --trace
      $ orchestrator chat my-agent --session s-1 --model local:0.5b
      $ orchestrator chat my-agent --record talk.jsonl
      $ orchestrator chat my-agent --replay talk.jsonl
      $ orchestrator chat greeting.prompty tone=kind --model local
    """
    options = turn.options()
    agent = _load(terminal, turn, words or (), tool)
    given = read_given_results(turn.yes, turn.result, agent.plan)
    agent = get_models_ready(agent, turn, terminal)
    session = turn.session or str(uuid.uuid4())
    talk = Talk(terminal, agent, session, options, trace=trace, given=given)
    talk.files = turn.input_files()
    if terminal.interactive and terminal.out.is_terminal:
        _run_interactive(talk, turn.folder)
    elif not answer_lines(talk):
        raise typer.Exit(AGENT_FAILED)


def _load(
    terminal: Terminal, turn: Turn, words: Sequence[str], tool: Sequence[str] | None
) -> Agent:
    from orchestrator.agent.files import is_template

    model = choose_model(turn)
    if is_template(turn.folder):
        from orchestrator.cli.templates import load_template_agent

        return load_template_agent(
            terminal, turn.folder, words, model, tool, turn.session, turn.state
        )
    if words or tool:
        named = (words or tool or ("",))[0]
        raise ValidationError(f"{named!r}: only a template has inputs and --tool; leave it out")
    agent = load_agent(turn.folder, model, turn.session, turn.state)
    note_templates(agent, turn.folder, terminal)
    return agent


def _run_interactive(talk: Talk, folder: Path) -> None:
    try:
        history = ensure_data_folder(folder) / "history"
    except OSError:  # somebody else's agent: a conversation needs no history
        history = None
    with Keyboard(history, colour=talk.terminal.out.color_system) as keyboard:
        talk_by_hand(talk, keyboard)


def answer_lines(talk: Talk) -> bool:
    """Answers every line of stdin, and returns whether no turn failed."""
    well = True
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            answer = talk.answer_json if talk.terminal.json else talk.answer_line
            answer(line.strip())
        except OrchestratorError as error:
            well = False
            if talk.terminal.json:
                talk.terminal.line(error_document(error))
            show_error(talk.terminal, error)
    return well


def talk_by_hand(talk: Talk, keyboard: Keyboard) -> None:
    """Talks until the user leaves."""
    _greet(talk)
    commands = ChatCommands(talk, keyboard)
    while (line := keyboard.question()) is not None:
        if line.startswith("/") and not line.startswith("//"):
            if not commands.run(line):
                return
        elif line:
            # A question that begins with a slash is typed with two.
            talk.ask(line.removeprefix("/"), keyboard.answer)
        talk.terminal.print()


def _greet(talk: Talk) -> None:
    plan, terminal = talk.agent.plan, talk.terminal
    model = plan.orchestration.model.model_id
    terminal.block(assemble((plan.name, "agent"), f"  {model}"))
    groups = {operation.group for operation in plan.catalog.operations}
    count = format_count(len(plan.catalog.operations), "action")
    actions = f"{count} in {', '.join(sorted(groups))}" if groups else "no actions"
    terminal.block(style_text(f"{actions} · /help lists commands", "quiet"))
    terminal.print()
