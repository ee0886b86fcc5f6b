"""`orchestrator sessions decide`: what became of actions whose process stopped in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from orchestrator.cli.agents import load_agent
from orchestrator.cli.options import Model
from orchestrator.cli.return_control import list_waiting_calls, read_named_values
from orchestrator.cli.session_state import NextCommands, find_session, local_time
from orchestrator.cli.sessions import HERE, Folder, Id, State, Tenant
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import option, verb
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.engine.undecided_calls import Undecided


@verb
def decide(
    terminal: Terminal,
    session: Id,
    folder: Folder = HERE,
    state: State = None,
    happened: Annotated[
        list[str] | None,
        option("--happened", "KEY=JSON", "It took effect, and this is its result. Repeatable."),
    ] = None,
    repeat: Annotated[
        list[str] | None,
        option("--repeat", "KEY", "It did not: carry it out, with the same key. Repeatable."),
    ] = None,
    give_up: Annotated[
        list[str] | None,
        option("--give-up", "KEY", "Leave it; the turn ends as failed. Repeatable."),
    ] = None,
    tenant: Tenant = None,
    model: Model = None,
) -> None:
    """Decide about an action whose outcome is unknown, and continue its turn.

    The process stopped during the action, so nobody knows whether it took effect: check the system
    behind it, by the key of the call. The turn continues when every call is decided. KEY may also
    be the call's name, such as bank::pay, if no other call has it. Without a decision the calls are
    only listed.

    [bold]Examples[/bold]
      $ orchestrator sessions decide s-1 my-agent
      $ orchestrator sessions decide s-1 my-agent --happened 'bank::pay="paid"'
      $ orchestrator sessions decide s-1 my-agent --repeat bank::pay
      $ orchestrator sessions decide s-1 my-agent --give-up bank::pay
      $ orchestrator sessions decide s-1 my-agent --tenant acme --state $DATABASE
    """
    id = session.rpartition("/")[2]
    agent = load_agent(folder, model, id, state).for_tenant(tenant or "")
    label = f"{agent.plan.owner}/{id}"
    if all(info.label != label for info in agent.sessions.store.list()):
        other = find_session(agent.sessions, session).label
        raise ValidationError(
            f"session {other!r} is of another agent, alias or tenant than {str(folder)!r}"
            f"{f' and {tenant!r}' if tenant else '; --tenant names one of a server'}"
        )
    commands = NextCommands(id, str(folder), state, of_tenant=bool(tenant))
    undecided = next(iter(agent.find_undecided(id)), None)
    if undecided is None:
        first = "the server" if commands.of_tenant else f"`{commands.invoke}`"
        raise ValidationError(
            f"session {id!r} waits for no decision; where a process has stopped in its turn, "
            f"{first} goes on with that first"
        )
    given = read_named_values("--happened", happened)
    if not (given or repeat or give_up):
        _list_calls(terminal, undecided)
        return
    reply = agent.decide(id, happened=given, repeat=repeat or (), give_up=give_up or ())
    if terminal.json:
        terminal.document(reply.as_dict())
        return
    terminal.block(clean(reply.text))
    if reply.return_control is not None:
        terminal.note(f"The turn waits for results. {commands.give_results()}.")


def _list_calls(terminal: Terminal, undecided: Undecided) -> None:
    if terminal.json:
        terminal.document(undecided.as_dict())
        return
    terminal.print(f"since {local_time(undecided.at)}: {json.dumps(clean(undecided.question))}")
    texts = [one.text for one in list_waiting_calls(_list_inputs(undecided))]
    for call, text in zip(undecided.calls, texts, strict=True):
        terminal.block(f"{clean(text)}: whether it took effect is not known; key {call.key}", 2)
    terminal.print("Decide with --happened KEY=JSON, --repeat KEY or --give-up KEY.")


def _list_inputs(undecided: Undecided) -> list[dict[str, Any]]:
    return [dict(call.input) for call in undecided.calls]
