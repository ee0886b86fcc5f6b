"""Reads an agent's instructions with its embedded model, so that its first answer is quick."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import load_agent
from orchestrator.cli.terminal import Terminal, progress_bar
from orchestrator.errors import ModelNotReady, OrchestratorError
from orchestrator.models.weights import Progress

if TYPE_CHECKING:
    from orchestrator.engine.plan import StagePlan

Warm = Annotated[
    bool | None,
    typer.Option(
        "--warm/--no-warm",
        help="Have the embedded model read the agent's instructions now, so that its first answer "
        "is quick. Default: on a terminal.",
        show_default=False,
    ),
]


def warm_up(terminal: Terminal, folder: Path, warm: bool | None, model: str | None = None) -> None:
    """Has the embedded model of the agent in `folder` read its instructions, which are kept.

    Without `warm`, only where somebody sees how far it is. Nothing happens where the agent has
    another model, or its weights or their runtime are not here; a failure is only noted, as the
    first question will meet it, too.
    """
    if not (terminal.err.is_terminal and not terminal.json if warm is None else warm):
        return
    try:
        with load_agent(folder, model) as agent:
            _read_instructions(agent.plan.orchestration, terminal)
    except ModelNotReady:
        return
    except OrchestratorError as error:
        terminal.note(f"the agent's instructions could not be read beforehand: {error}")
    except KeyboardInterrupt:
        terminal.note("stopped; the first question reads the instructions itself")


def _read_instructions(stage: StagePlan, terminal: Terminal) -> None:
    from orchestrator.models import LocalModel, ModelRequest

    model = stage.model
    if not isinstance(model, LocalModel):
        return
    bound = stage.template.bind({"question": "Hello!"})
    with progress_bar(terminal, counts=True, lines=not terminal.json) as progress:
        model.load()
        if progress is not None:
            model.reading = partial(_report_reading, progress)
        model.prepare(ModelRequest(stage.stage, bound.system, bound.messages()))


def _report_reading(progress: Progress, done: int, total: int) -> None:
    progress(done, total, "reading the agent's instructions")
