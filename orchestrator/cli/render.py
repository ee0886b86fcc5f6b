"""`orchestrator render`: the exact prompt of a stage."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from orchestrator.cli.options import (
    Folder,
    Model,
    PromptAttributes,
    Session,
    State,
    Tools,
    pairs,
)
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError

__all__ = ["render", "stage_name"]


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
    from orchestrator.cli.findings import shown_path
    from orchestrator.cli.prompt_view import prompt_document, show_prompt
    from orchestrator.cli.scripts import first_prompt, is_script
    from orchestrator.cli.templates import is_template, template_prompt

    if is_script(folder) or is_template(folder):
        if is_script(folder):
            told, place = first_prompt(folder, words or (), model, tool)
        else:
            told, place = template_prompt(folder, words or ()), shown_path(str(folder))
        if terminal.json:
            terminal.document(prompt_document(told))
        else:
            show_prompt(terminal, told, place)
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
        stage_name(stage),
        question,
        session,
        prompt_session_attributes=pairs(prompt_attribute, "--prompt-attribute"),
        values=pairs(value, "--value"),
    )
    if terminal.json:
        terminal.document(prompt_document(prompt))
    else:
        source = agent.plan.stages[prompt.stage].template.source
        show_prompt(terminal, prompt, shown_path(source) if source else "of the definition")


def stage_name(given: str) -> str:
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
