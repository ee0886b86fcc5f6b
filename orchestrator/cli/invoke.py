"""`orchestrator invoke`: one question, one answer."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import load_agent, load_models, note_templates, read_session
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.options import (
    Attributes,
    Files,
    Folder,
    MemoryId,
    Model,
    PromptAttributes,
    Session,
    State,
    UseCase,
    input_files,
    read_input,
    turn_options,
)
from orchestrator.cli.return_control import list_waiting_calls
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import option, verb
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.run.options import Options
    from orchestrator.engine.trace.reply import Reply
    from orchestrator.sessions import Session as SessionState


@verb
def invoke(
    terminal: Terminal,
    folder: Folder,
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", help="The question; '-' reads it from stdin.", show_default=False
        ),
    ] = "",
    model: Model = None,
    session: Session = None,
    state: State = None,
    attribute: Attributes = None,
    prompt_attribute: PromptAttributes = None,
    file: Files = None,
    use_case: UseCase = "CHAT",
    memory_id: MemoryId = None,
    results: Annotated[
        str | None,
        option(
            "--results",
            "FILE",
            "JSON with the results of a return of control ('-': stdin): a mapping from each "
            "call's function or path to its result, or to true or false to confirm it.",
        ),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step, on stderr.")] = False,
) -> None:
    """Ask an agent one question.

    The answer streams to stdout. A session is kept when it has a name, so that the next invocation
    goes on with it.

    [bold]Examples[/bold]
      $ orchestrator invoke examples/insurance "Which claims are open?" --trace
      $ orchestrator invoke my-agent "Where is order 1042?" --session s-1
      $ orchestrator invoke my-agent "And what is in it?" --session s-1 --json
      $ orchestrator invoke my-agent --session s-1 --results results.json
      $ orchestrator invoke my-agent "What is in this?" --file plan.pdf
    """
    if not question and results is None and session is None:
        raise ValidationError("there is no question; give one, or --session and --results")
    agent = load_agent(folder, model, session, state)
    note_templates(agent, folder, terminal)
    options = turn_options(attribute, prompt_attribute, memory_id)
    if file:
        options["files"] = input_files(file, use_case)
    if results is not None:
        options["results"] = _parse_results(agent, session, _read_json(results))
    load_models(agent, terminal)
    text = read_input("-") if question == "-" else question
    if terminal.json:
        terminal.document(agent.invoke(text, session, **options).as_dict())
    else:
        _stream(agent, (text, session, options), terminal, trace)


def _stream(
    agent: Agent, asked: tuple[str, str | None, Options], terminal: Terminal, trace: bool
) -> None:
    text, session, options = asked
    live = LiveTurn(terminal, trace=trace, last=trace)
    try:
        reply = live.run(agent.stream(text, session, **options))
    except KeyboardInterrupt:
        terminal.note(clean(live.describe_interruption()))
        raise
    finally:
        live.finish()
    if reply.return_control is not None:
        _report_control(reply, session, terminal)
    for file in reply.files:
        size = f"{len(file['bytes']):,} bytes"
        terminal.note(f"made the file {clean(file['name'])!r} ({size}); --json gives its content")
    for note in reply.notes if trace else ():
        terminal.note(f"note: {note}")


def _report_control(reply: Reply, session: str | None, terminal: Terminal) -> None:
    control = reply.return_control
    for call in list_waiting_calls(control.invocation_inputs if control else ()):
        terminal.note(f"waits for you: {call.text} ({call.wants})")
    how = "--results FILE" if session else "--session ID, and then --results FILE"
    terminal.note(f"Go on with {how}.")


def _read_json(file: str) -> Any:
    text = read_input(file)
    try:
        return json_module.loads(text)
    except ValueError as error:
        raise ValidationError(f"--results {file!r} is not JSON: {error}") from error


def _parse_results(agent: Agent, session: str | None, results: Any) -> dict[str, Any]:
    if isinstance(results, dict) and "returnControlInvocationResults" in results:
        return results
    if session is None or not isinstance(results, dict):
        raise ValidationError("--results needs --session, and a JSON object")
    from orchestrator.engine.results import ControlReturn

    waits = _find_hand_over(read_session(agent, session))
    if waits is None:
        raise ValidationError(f"no call waits for results in session {session!r}")
    return ControlReturn(waits["invocation_id"], waits["inputs"]).answer(results)


def _find_hand_over(session: SessionState) -> Mapping[str, Any] | None:
    # Results may be sent twice, for the same reply: then the last hand-over is the one that they
    # answer. The agent refuses other results.
    if session.open is not None and session.open.suspend_record:
        return session.open.suspend_record
    # Nothing waits: the same results may have been sent before, and their answer was lost.
    if not session.answered:
        return None
    last, (_, log) = list(session.answered.items())[-1]
    return next(
        (it for it in log.records if it["kind"] == "suspend" and it["invocation_id"] == last), None
    )
