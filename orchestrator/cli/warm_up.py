"""Reads an agent's instructions with its embedded model, so that its first answer is quick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.agents import load_agent
from orchestrator.cli.terminal import Terminal, progress_bar
from orchestrator.errors import ModelNotReady, OrchestratorError

if TYPE_CHECKING:
    from orchestrator.engine.plan import Plan, StagePlan
    from orchestrator.models import LocalModel, ModelRequest

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
        agent = load_agent(folder, model)
        with progress_bar(terminal, counts=True, lines=not terminal.json) as progress:
            for local, request in _list_requests(agent.plan):
                local.load()
                if progress is not None:
                    local.reading = lambda done, total: progress(
                        done, total, "reading the agent's instructions"
                    )
                local.prepare(request)
                local.reading = None
    except ModelNotReady:
        return
    except OrchestratorError as error:
        terminal.note(f"the agent's instructions could not be read beforehand: {error}")
    except KeyboardInterrupt:
        terminal.note("stopped; the first question reads the instructions itself")


def _list_requests(plan: Plan) -> Iterator[tuple[LocalModel, ModelRequest]]:
    if not plan.orchestration.model.model_id.startswith("local:"):
        return
    from orchestrator.models import LocalModel

    if isinstance(model := plan.orchestration.model, LocalModel):
        yield model, _build_request(plan.orchestration)


def _build_request(stage: StagePlan) -> ModelRequest:
    from orchestrator.models import ModelRequest

    bound = stage.template.bind({"question": "Hello!"})
    return ModelRequest(stage.stage, bound.system, bound.messages())
