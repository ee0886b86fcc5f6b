"""`orchestrator trace`: a recorded trace, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from orchestrator.cli.options import read_input
from orchestrator.cli.steps import Step, Steps, format_duration, list_steps
from orchestrator.cli.terminal import (
    Terminal,
    assemble,
    clean,
    format_count,
    join_facts,
    shorten,
    style_text,
)
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError
from orchestrator.support.safe_json import read_json


@verb
def trace(
    terminal: Terminal,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON or JSON lines: what `invoke --json` printed, a list of trace parts, or the "
            "events of Bedrock's InvokeAgent. '-' is stdin.",
        ),
    ] = "-",
) -> None:
    """Describe a recorded trace step by step, also one of Amazon Bedrock.

    [bold]Examples[/bold]
      $ orchestrator trace reply.json
      $ orchestrator invoke my-agent "Hi" --json | orchestrator trace
    """
    parts = list(_find_parts(_read(read_input(file), file)))
    if not parts:
        raise ValidationError(f"there are no trace parts in {file!r}")
    if terminal.json:
        terminal.document([asdict(step) for step in list_steps(parts)])
        return
    view = TraceView(terminal)
    for part in parts:
        view.show(view.feed(part))
    view.finish()


def _read(text: str, file: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        try:
            return [read_json(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise ValidationError(f"{file!r} is neither JSON nor JSON lines: {error}") from error


def _find_parts(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list):
        return [part for item in value for part in _find_parts(item)]
    if not isinstance(value, dict):
        return []
    inner = value.get("trace")
    if isinstance(inner, dict) and "trace" not in inner:
        return [value]
    return [part for item in value.values() for part in _find_parts(item)]


_LINE = 600
_LOOK = {
    "thinks": "thinking",
    "calls": "call",
    "hands over": "call",
    "may call": "call",
    "may not call": "warning",
    "searches": "call",
    "runs code": "call",
    "asks the agent": "call",
    "answers": "answer",
    "asks the user": "answer",
    "fails": "error",
    "refuses the input": "warning",
    "is told to try again": "warning",
    "is stopped by the guardrail": "warning",
    "is masked by the guardrail": "warning",
}
_QUOTED = frozenset({"calls", "searches", "runs code", "is given", "hands over", "hears from"})
_ROUTES = frozenset({"chooses an agent", "keeps the previous agent"})


class TraceView:
    """Writes the steps of one turn as its trace parts come."""

    def __init__(self, terminal: Terminal, *, live: bool = False) -> None:
        # Then `LiveTurn` streams the answer to stdout, and the verb shows a failure.
        self._live = live
        self._terminal = terminal
        self._steps = Steps()
        self._number = 0
        self._last = ""
        self._speaks = ""

    def feed(self, part: Mapping[str, Any]) -> list[Step]:
        """Takes a part, and returns the steps that are complete."""
        return list(self._steps.feed(part))

    def flush(self) -> None:
        """Writes the steps that waited for a later part."""
        self.show(self._steps.flush())

    def finish(self) -> None:
        """Writes the steps that are left, and the sum."""
        self.flush()
        steps = self._steps
        facts = []
        if steps.model_calls:
            facts.append(format_count(steps.model_calls, "model call"))
            facts.append(f"{steps.tokens[0]:,} → {steps.tokens[1]:,} tokens")
        facts += format_duration(steps.milliseconds)
        if facts:
            self._terminal.block(style_text(join_facts(facts), "quiet"), stderr=self._live)

    def show(self, steps: Iterable[Step]) -> None:
        """Writes steps."""
        for step in steps:
            if self._last in _ROUTES and step.verb == "asks the agent":
                self._speaks = step.subject  # to the user itself
            self._last = step.verb
            shown = self._live and step.agent in ("", self._speaks)
            if shown and step.verb in ("answers", "fails"):
                continue
            if shown and step.verb == "asks the user":
                step.text = ""
            self._number += 1
            self._show(step)

    def _show(self, step: Step) -> None:
        number = f"{self._number:>2}. "
        head = assemble((number, "quiet"))
        if step.agent:
            head.append(clean(step.agent), "agent").append(" ")
        head.append(step.verb, _LOOK.get(step.verb, "name"))
        if step.subject:
            head.append(" ").append(clean(step.subject), "name")
        if step.facts:
            head.append(f"  {join_facts(step.facts)}", "quiet")
        self._terminal.block(head, hanging=len(number), stderr=self._live)
        if step.text:
            arrow = ("→ ", "quiet") if step.verb in _QUOTED else ""
            look = "answer" if step.verb in ("answers", "asks the user") else ""
            body = assemble(arrow, (shorten(step.text, _LINE), look))
            self._terminal.block(body, len(number), stderr=self._live)
