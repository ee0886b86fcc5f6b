"""`orchestrator invoke`: one question, one answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import load_agent, note_templates
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.options import Turn, read_input, read_json
from orchestrator.cli.recordings import choose_model, get_models_ready
from orchestrator.cli.return_control import (
    GivenResults,
    name_results,
    read_given_results,
    show_waiting_calls,
    suggest_options,
)
from orchestrator.cli.session_state import NextCommands
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.turns import TurnRunner
from orchestrator.cli.verb import option, verb
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.results import ControlReturn
    from orchestrator.engine.run.options import Options
    from orchestrator.sessions import Session as SessionState


@verb
def invoke(
    terminal: Terminal,
    turn: Turn,
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", help="The question; '-' reads it from stdin.", show_default=False
        ),
    ] = "",
    results: Annotated[
        str | None,
        option(
            "--results",
            "FILE",
            "JSON with the results of a return of control ('-': stdin): a mapping from each "
            "call's function or path to its result, or to true or false to confirm it. "
            "--yes and --result do the same on the command line.",
        ),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step, on stderr.")] = False,
) -> None:
    """Ask an agent one question.

    The answer streams to stdout. With --session the session is kept, and the next invocation
    with the same id continues it.

    [bold]Examples[/bold]
      $ orchestrator invoke examples/insurance "Which claims are open?" --trace
      $ orchestrator invoke my-agent "Where is order 1042?" --session s-1
      $ orchestrator invoke my-agent "And what is in it?" --session s-1 --json
      $ orchestrator invoke my-agent --session s-1 --results results.json
      $ orchestrator invoke my-agent --session s-1 --yes
      $ orchestrator invoke my-agent "Pay for it" --yes --result 'pay="paid"'
      $ orchestrator invoke my-agent "Where is order 1042?" --record order.jsonl
      $ orchestrator invoke my-agent "What is in this?" --file plan.pdf
    """
    session = turn.session
    # Who forgets the folder has written the question in its place, and reads that below.
    if not question and results is None and session is None and Path(turn.folder).exists():
        raise ValidationError("there is no question; give one, or --session and --results")
    agent = load_agent(turn.folder, choose_model(turn), session, turn.state)
    note_templates(agent, turn.folder, terminal)
    given = read_given_results(turn.yes, turn.result, agent.plan)
    options = turn.options()
    if turn.file:
        options["files"] = turn.input_files()
    if results is not None:
        options["results"] = _parse_results(agent, session, read_json(results, "--results"))
    elif session is not None and not question:
        commands = NextCommands(session, str(turn.folder), turn.state)
        options |= _answer_open_turn(agent, commands, given, terminal)
    agent = get_models_ready(agent, turn, terminal)
    text = read_input("-") if question == "-" else question
    runner = TurnRunner(terminal, agent, given)
    if terminal.json:
        terminal.document(runner.collect(text, session, options))
    else:
        _show(runner, text, session, options, terminal, trace=trace)


def _show(
    runner: TurnRunner,
    question: str,
    session: str | None,
    options: Options,
    terminal: Terminal,
    *,
    trace: bool,
) -> None:
    live = LiveTurn(terminal, trace=trace, last=trace)
    try:
        reply = runner.show(live, question, session, options)
    except KeyboardInterrupt:
        terminal.note(clean(live.describe_interruption()))
        raise
    finally:
        live.finish()
    if reply.return_control is not None:
        show_waiting_calls(terminal, reply.return_control)
        flags = suggest_options(reply.return_control.invocation_inputs)
        if session:
            terminal.note(f"Go on without a question, and with {flags} or --results FILE.")
        else:
            terminal.note(f"Ask once more with {flags}; --session ID keeps a turn, to go on with.")
    for file in reply.files:
        size = f"{len(file['bytes']):,} bytes"
        terminal.note(f"made the file {clean(file['name'])!r} ({size}); --json gives its content")
    for note in reply.notes if trace else ():
        terminal.note(f"note: {note}")


def _parse_results(agent: Agent, session: str | None, results: Any) -> dict[str, Any]:
    if isinstance(results, dict) and "returnControlInvocationResults" in results:
        return results
    if session is None or not isinstance(results, dict):
        raise ValidationError("--results needs --session, and a JSON object")
    waits = _find_hand_over(_peek(agent, session))
    if waits is None:
        raise ValidationError(f"no call waits for results in session {session!r}")
    if waits.get("undecided"):  # a result by its name would leave open what is meant by it
        raise ValidationError(
            f"session {session!r} waits for a decision about calls whose outcome nobody knows: "
            f"give it with `orchestrator sessions decide {session}`"
        )
    return name_results(_build_control_return(waits), results)


def _answer_open_turn(
    agent: Agent, commands: NextCommands, given: GivenResults, terminal: Terminal
) -> Options:
    session = commands.session
    # What an invocation without a question goes on with. Of a turn that waits for no results, the
    # engine says what it needs.
    turn = _peek(agent, session).open
    if turn is None:
        raise ValidationError(
            f"session {session!r} has no open turn that could go on; give a question, or find the "
            f"session that you mean with `{commands.list_sessions}`"
        )
    if turn.decision_request or not turn.suspend_record:
        return {}
    control = _build_control_return(turn.suspend_record)
    results = given.answer(control, terminal)
    if results is None:
        show_waiting_calls(terminal, control)
        raise ValidationError(
            f"session {session!r} waits for results: give "
            f"{suggest_options(control.invocation_inputs)}, or --results FILE; a question gives "
            "its turn up"
        )
    return {"results": results}


def _peek(agent: Agent, session: str) -> SessionState:
    return agent.sessions.peek(f"{agent.plan.agent_id}/{agent.plan.alias_id}/{session}")


def _build_control_return(waits: Mapping[str, Any]) -> ControlReturn:
    from orchestrator.engine.results import ControlReturn

    return ControlReturn(waits["invocation_id"], waits["inputs"])


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
