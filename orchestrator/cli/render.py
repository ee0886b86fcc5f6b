"""`orchestrator render`: the exact prompt of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import (
    Folder,
    Model,
    PromptAttributes,
    Session,
    State,
    Tools,
    parse_pairs,
)
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.render import Prompt
    from orchestrator.diagnostics import Diagnostic


@verb
def render(
    terminal: Terminal,
    folder: Folder,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION",
            help="The user's input; a stage may stand before it, else it is ORCHESTRATION. Of a "
            "script: its arguments, as for `run`. Of a template: its inputs, NAME=VALUE.",
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    session: Session = None,
    state: State = None,
    prompt_attribute: PromptAttributes = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            metavar="NAME=VALUE",
            help="The value of a placeholder that only a running turn knows: latest_response, "
            "responses, query, search_results. Repeatable.",
            show_default=False,
        ),
    ] = None,
    tool: Tools = None,
) -> None:
    """Show the exact prompt that a stage would send, or a script first, or a template makes.

    No model is called, and none needs to be installed. Every piece has the colour of the
    placeholder that it was filled from.

    [bold]Examples[/bold]
      $ orchestrator render examples/insurance "Which claims are open?"
      $ orchestrator render my-agent PRE_PROCESSING "Which claims are open?"
      $ orchestrator render my-agent POST_PROCESSING "Hi" --value latest_response=Ho
      $ orchestrator render my-agent "And then?" --session s-1 --json
      $ orchestrator render examples/flows/fan_in.pl plan="A bus every ten minutes"
      $ orchestrator render greeting.prompty question="Who are you?"
    """
    from orchestrator.cli.agents import load_agent
    from orchestrator.cli.findings import format_path
    from orchestrator.cli.scripts import capture_first_prompt, is_script
    from orchestrator.cli.templates import is_template, template_prompt

    if is_script(folder) or is_template(folder):
        if is_script(folder):
            told, place = capture_first_prompt(folder, words or (), model, tool)
            _show(terminal, told, place)
        else:
            told, found = template_prompt(folder, words or ())
            _show(terminal, told, format_path(str(folder)), found)
        return
    if not words:
        raise ValidationError("there is no question; give the user's input")
    if len(words) > 2:
        raise ValidationError(
            "there is more than a stage and a question; put the question in quotes"
        )
    stage, question = words if len(words) == 2 else ("ORCHESTRATION", words[0])
    agent = load_agent(folder, model, session, state, writes=False)
    prompt = agent.render(
        to_stage_name(stage),
        question,
        session,
        prompt_session_attributes=parse_pairs(prompt_attribute, "--prompt-attribute"),
        values=parse_pairs(value, "--value"),
    )
    source = agent.plan.stages[prompt.stage].template.source
    place = format_path(source) if source else "of the definition"
    _show(terminal, prompt, place, _note_replaced_stage(folder, prompt.stage))


def _show(terminal: Terminal, prompt: Prompt, place: str, found: Sequence[Diagnostic] = ()) -> None:
    from orchestrator.cli.findings import show_finding
    from orchestrator.cli.prompt_view import prompt_document, show_prompt

    if terminal.json:
        diagnostics = [finding.as_dict() for finding in found]
        terminal.document({**prompt_document(prompt), "diagnostics": diagnostics})
        return
    show_prompt(terminal, prompt, place)
    for finding in found:
        show_finding(terminal, finding, stderr=True)


def _note_replaced_stage(folder: Path, stage: str) -> list[Diagnostic]:
    """A note that an agent's script asks the model itself, in the place of a stage."""
    from orchestrator.definition import load_definition
    from orchestrator.prompts.placeholders import ORCHESTRATION

    definition = load_definition(folder)
    script = definition.orchestration
    if script is None or stage != ORCHESTRATION:
        return []
    return [
        definition.source.diagnostic(
            "warning",
            "replaced-stage",
            f"this prompt is never sent: {script!r} orchestrates the agent, and asks the model "
            "with its own texts",
            "orchestration",
        )
    ]


def to_stage_name(given: str) -> str:
    """A prompt type in Bedrock's spelling, from any: `post-processing` is `POST_PROCESSING`.

    Raises:
        ValidationError: There is none of that name.
    """
    from orchestrator.prompts import STAGES

    name = given.strip().upper().replace("-", "_")
    if name not in STAGES:
        close = get_close_matches(name, STAGES, n=1, cutoff=0.4)
        meant = f": did you mean {close[0]}?" if close else "."
        raise ValidationError(f"there is no stage {given!r}{meant} There are {', '.join(STAGES)}")
    return name
