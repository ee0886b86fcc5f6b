"""`orchestrator render`: the exact prompt of a stage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import find_team_plan, load_agent
from orchestrator.cli.findings import format_path, show_finding
from orchestrator.cli.options import (
    Libraries,
    Model,
    PromptAttributes,
    Session,
    Source,
    State,
    Strict,
    Tools,
    parse_pairs,
)
from orchestrator.cli.scripts import capture_first_prompt, template_prompt
from orchestrator.cli.terminal import (
    Terminal,
    TextTerminal,
    assemble,
    clean,
    style_text,
)
from orchestrator.cli.verb import option, verb
from orchestrator.errors import ValidationError
from orchestrator.message import AUTHOR, Span
from orchestrator.support.safe_json import read_json
from orchestrator.support.spelling import find_close

if TYPE_CHECKING:
    from rich.text import Text

    from orchestrator.diagnostics import Diagnostic
    from orchestrator.engine.plan import Plan
    from orchestrator.engine.rendered_prompt import Prompt


@verb
def render(
    terminal: Terminal,
    folder: Source,
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
        option(
            "--value",
            "NAME=VALUE",
            "The value of a placeholder that only a running turn knows: latest_response, "
            "responses, query, search_results. Repeatable.",
        ),
    ] = None,
    tool: Tools = None,
    strict: Strict = False,
    lib: Libraries = None,
) -> None:
    """Show the exact prompt of a stage, a script or a template.

    Of a script it is the first prompt. No model is called, and none needs to be installed. Every
    piece has the colour of the placeholder that it was filled from.

    [bold]Examples[/bold]
      $ orchestrator render examples/insurance "Which claims are open?"
      $ orchestrator render my-agent PRE_PROCESSING "Which claims are open?"
      $ orchestrator render my-agent POST_PROCESSING "Hi" --value latest_response=Ho
      $ orchestrator render my-agent "And then?" --session s-1 --json
      $ orchestrator render examples/flows/fan_in.pl plan="A bus every ten minutes"
      $ orchestrator render greeting.prompty question="Who are you?"
    """
    from orchestrator.agent.files import is_script, is_template

    if is_script(folder):
        prompt, place = capture_first_prompt(folder, words or (), model, tool, lib or ())
        _show(terminal, prompt, place)
        return
    if is_template(folder):
        prompt, found = template_prompt(folder, words or (), tool, strict=strict)
        _show(terminal, prompt, format_path(folder), found)
        return
    if not words:
        raise ValidationError("there is no question; give the user's input")
    if len(words) > 2:
        raise ValidationError(
            "there is more than a stage and a question; put the question in quotes"
        )
    from orchestrator.prompts.appended_tools import APPENDED_TOOLS

    stage, question = words if len(words) == 2 else ("ORCHESTRATION", words[0])
    agent = load_agent(folder, model, session, state, writes=False)
    prompt = agent.render(
        to_stage_name(stage),
        question,
        session,
        prompt_session_attributes=parse_pairs(prompt_attribute, "--prompt-attribute"),
        values=parse_pairs(value, "--value"),
    )
    template = agent.plan.stages[prompt.stage].template
    place = format_path(template.source) if template.source else "of the definition"
    found = [one for one in template.diagnostics if one.code == APPENDED_TOOLS]
    _show(terminal, prompt, place, [*found, *_note_replaced_stage(folder, prompt.stage)])


def _show(terminal: Terminal, prompt: Prompt, place: str, found: Sequence[Diagnostic] = ()) -> None:
    if terminal.json:
        diagnostics = [finding.as_dict() for finding in found]
        terminal.document({**prompt.as_dict(), "diagnostics": diagnostics})
        return
    _show_prompt(terminal, prompt, place)
    for finding in found:
        show_finding(terminal, finding, stderr=True)


def _note_replaced_stage(folder: Path, stage: str) -> list[Diagnostic]:
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


def to_stage_name(spelling: str) -> str:
    """A prompt type in Bedrock's spelling, from any: `post-processing` is `POST_PROCESSING`.

    Raises:
        ValidationError: There is none of that name.
    """
    from orchestrator.prompts import STAGES

    name = spelling.strip().upper().replace("-", "_")
    if name not in STAGES:
        close = find_close(name, STAGES, 0.4)
        meant = f": did you mean {close}?" if close else "."
        raise ValidationError(
            f"there is no stage {spelling!r}{meant} There are {', '.join(STAGES)}"
        )
    return name


_COLOURS = {
    "question": "green",
    "query": "green",
    "instruction": "cyan",
    "tools": "magenta",
    "functions": "magenta",
    "conversation_history": "yellow",
    "agent_scratchpad": "bright_blue",
    "search_results": "bright_yellow",
    "latest_response": "bright_green",
    "responses": "bright_green",
    "prompt_session_attributes": "bright_red",
    "ask_user_missing_information": "bright_magenta",
}


def _show_prompt(terminal: Terminal, prompt: Prompt, template: str) -> None:
    view = _View(terminal)
    view.show_heading(f"{prompt.stage}", f"for {prompt.model_id}")
    view.show_heading("template", template)
    if prompt.system:
        view.show_message("system", [{"text": str(prompt.system)}], prompt.system.spans)
    for message in prompt.messages:
        view.show_message(message["role"], message["content"], message.spans)
    view.show_tools(prompt.tools)
    view.show_inference(prompt.inference)
    view.show_legend()


def render_lines(prompt: Prompt, template: str) -> list[str]:
    """A prompt as `render` shows it, as lines of text."""
    kept = TextTerminal()
    _show_prompt(kept, prompt, template)
    return kept.lines()


def show_sent_prompts(terminal: Terminal, trace: Iterable[Mapping[str, Any]], plan: Plan) -> int:
    """Writes the prompts that models were sent in a turn, step by step.

    Args:
        terminal: Where to.
        trace: The turn's trace parts.
        plan: The agent, which knows the tools of its stages.

    Returns:
        How many there were.
    """
    count = 0
    for part in trace:
        for member in part["trace"].values():
            if isinstance(member, Mapping) and "modelInvocationInput" in member:
                if count:
                    terminal.print()
                count += 1
                name = part.get("collaboratorName", "")
                _show_sent_prompt(terminal, count, name, member["modelInvocationInput"], plan)
    return count


def _show_sent_prompt(
    terminal: Terminal, number: int, agent: str, sent: Mapping[str, Any], plan: Plan
) -> None:
    view = _View(terminal)
    of = f"of {agent} " if agent else ""
    stage = sent.get("type", "")
    view.show_heading(f"{number}. {stage}", clean(f"{of}for {sent.get('foundationModel', '')}"))
    _show_prompt_text(terminal, view, sent.get("text", ""))
    owner = find_team_plan(plan, agent)
    if owner is not None and stage in owner.stages:
        view.show_tools(owner.stages[stage].tools)
    view.show_inference(sent.get("inferenceConfiguration", {}))


def _show_prompt_text(terminal: Terminal, view: _View, text: str) -> None:
    # In traces it is a JSON text of `system` and `messages`, or of a text model its plain text.
    try:
        body = read_json(text)
        messages = body["messages"]
    except (ValueError, KeyError, TypeError, RecursionError):
        terminal.block(clean(text), 2)
        return
    if body.get("system"):
        view.show_message("system", [{"text": body["system"]}], ())
    for message in messages:
        view.show_message(message["role"], message["content"], ())


class _View:
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen: dict[str, None] = {}

    def show_heading(self, name: str, rest: str = "") -> None:
        self._terminal.path(assemble((name, "heading"), (f" {rest}" if rest else "", "quiet")))

    def show_message(self, role: str, content: Any, spans: Sequence[Span]) -> None:
        self._terminal.print()
        filled = any(span.origin != AUTHOR for span in spans)
        self.show_heading(
            role, "" if filled or not spans or role == "system" else "from the template"
        )
        blocks = [{"text": content}] if isinstance(content, str) else content
        for index, block in enumerate(blocks):
            own = [span for span in spans if span.block == index]
            if "text" in block:
                self._terminal.block(self._colour_spans(block["text"], own), 2)
            else:
                shown = json.dumps(block, ensure_ascii=False)
                origin = own[0].origin if own else AUTHOR
                self._terminal.block(self._style_piece(shown, origin), 2)

    def show_tools(self, tools: Iterable[Mapping[str, Any]]) -> None:
        specs = [tool["toolSpec"] for tool in tools]
        if not specs:
            return
        self._terminal.print()
        self.show_heading("tools")
        for spec in specs:
            schema = spec["inputSchema"]["json"]
            needed = schema.get("required", ())
            names = ", ".join(
                name if name in needed else f"{name}?" for name in schema.get("properties", ())
            )
            self._terminal.block(assemble((spec["name"], "call"), f"({names})"), 2)
            if spec.get("description"):
                self._terminal.block(style_text(clean(spec["description"]), "quiet"), 4)

    def show_inference(self, settings: Mapping[str, Any]) -> None:
        self._terminal.print()
        self.show_heading("inference")
        shown = [
            f"{name} {value if isinstance(value, (int, float)) else json.dumps(value)}"
            for name, value in settings.items()
        ]
        self._terminal.block(" · ".join(shown) or "the model's defaults", 2)

    def show_legend(self) -> None:
        origins = [origin for origin in self._seen if origin != AUTHOR]
        if not origins:
            return
        names = [style_text(f"${origin}$", _pick_colour(origin)) for origin in origins]
        self._terminal.print()
        self._terminal.block(assemble("filled from: ", style_text(", ").join(names)))

    def _colour_spans(self, text: str, spans: Sequence[Span]) -> Text:
        if not spans:
            return style_text(clean(text))
        pieces = ((text[span.start : span.end], span.origin) for span in spans)
        return assemble(*(self._style_piece(*piece) for piece in pieces))

    def _style_piece(self, text: str, origin: str) -> Text:
        self._seen[origin] = None
        return style_text(clean(text), "" if origin == AUTHOR else _pick_colour(origin))


def _pick_colour(origin: str) -> str:
    return _COLOURS.get(origin, "bright_cyan")
