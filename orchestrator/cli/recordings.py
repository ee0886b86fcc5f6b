"""`--record` and `--replay`: the agent of a command whose models are recorded, or replayed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.agents import load_models
from orchestrator.cli.options import Turn
from orchestrator.cli.terminal import Terminal, clean, format_count
from orchestrator.errors import ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.models import Model


def choose_model(turn: Turn) -> str | Model | None:
    """The model of a command: that of `--model`, or with `--replay` the recorded one.

    `None` is the agent's own, also where a recording is of several models: `--model` stands for
    all of them, so nothing but the agent's definition can have named them.

    Raises:
        ResourceNotFound: There is no such recording.
        ValidationError: It is none, or the options exclude each other.
    """
    if turn.replay is None:
        _check_recording(turn.record)
        return turn.model
    if turn.record is not None:
        raise ValidationError("--replay asks no model whose replies --record could write: give one")
    if turn.model is not None:
        raise ValidationError("--replay has the recorded model; leave --model out")
    return _find_recorded_model(turn.replay)


def _find_recorded_model(file: Path) -> str | Model | None:
    from orchestrator.models import ReplayModel, weights
    from orchestrator.models.recording import list_recorded_models

    embedded = {f"local:{it.weights.name}": it.weights.kind for it in weights.available()}
    # Beside an embedded model, the embedding model is recorded that sorts its inputs.
    named = [it for it in list_recorded_models(file) if embedded.get(it) != "embedding"]
    if len(named) != 1:
        return None
    # An agent is built otherwise for an embedded model than for another one of its dialect.
    return named[0] if named[0] in embedded else ReplayModel(file)


def _check_recording(file: Path | None) -> None:
    # Before any model is paid for.
    if file is None:
        return
    folder = next((it for it in file.absolute().parents if it.exists()), Path("/"))
    if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise ValidationError(f"--record cannot write to {str(file)!r}; give another file")
    if file.exists() and file.stat().st_size:
        from orchestrator.models.recording import list_recorded_models

        list_recorded_models(file)


def get_models_ready(agent: Agent, turn: Turn, terminal: Terminal) -> Agent:
    """The agent with its models loaded, recorded or replayed, as the options say.

    Raises:
        ModelNotReady: The weights or the runtime of an embedded model are not there.
    """
    if turn.replay is not None:
        agent = _replay(agent, turn.replay)
    load_models(agent, terminal)
    return agent if turn.record is None else _record(agent, turn.record, terminal)


def _replay(agent: Agent, file: Path) -> Agent:
    from orchestrator.models import ReplayModel

    made: dict[str, Model] = {}

    def replay(model: Model) -> Model:
        # One for each id: a request that was recorded several times is answered in that order.
        if model.model_id not in made:
            made[model.model_id] = ReplayModel(file, model.model_id)
        return made[model.model_id]

    return agent.with_models(replay)


def _record(agent: Agent, file: Path, terminal: Terminal) -> Agent:
    from orchestrator.models import RecordingModel

    if file.exists() and file.stat().st_size:
        shown = format_count(file.read_bytes().count(b"\n"), "model call")
        terminal.note(f"--record adds to {clean(str(file))!r}, which has {shown} already")
    return agent.with_models(lambda model: RecordingModel(model, file))
