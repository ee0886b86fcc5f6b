"""What a command does before its first turn when an agent's embedded models are not there."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from orchestrator import Agent, Collaborator
from orchestrator.cli import agents
from orchestrator.cli.agents import load_models
from orchestrator.errors import DependencyFailed, ModelNotReady
from orchestrator.models import LocalModel


@pytest.fixture
def asked(monkeypatch):
    """The models that were to be loaded; each lacks the weights of its name."""
    asked = []

    def load(self, progress=None):
        asked.append(self.model_id)
        raise ModelNotReady("the weights are missing", resource=self.lacks)

    monkeypatch.setattr(LocalModel, "load", load)
    return asked


def local(lacks):
    model = LocalModel()
    model.lacks = lacks
    return Agent("a", "You help.", model)


def terminal(*, interactive=True):
    def declines(prompt, markup):
        raise EOFError

    err = SimpleNamespace(input=declines, print=lambda *words, **options: None)
    notes = []
    shown = SimpleNamespace(interactive=interactive, err=err, notes=notes, note=notes.append)
    shown.json = shown.quiet = False
    shown.note_reading = lambda done, total: None
    return shown


@pytest.fixture(autouse=True)
def no_bar(monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(agents, "progress_bar", lambda terminal: nullcontext())


@pytest.mark.parametrize(
    ("weights", "runtime", "extra"),
    [
        ("qwen2.5-coder-0.5b-instruct", "xllamacpp", "local"),
        ("all-minilm-l6-v2", "onnxruntime", "knowledge"),
    ],
)
def test_weights_are_only_offered_where_something_can_run_them(
    monkeypatch, asked, weights, runtime, extra
):
    missing = {runtime}
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in missing else SimpleNamespace(),
    )
    with pytest.raises(DependencyFailed, match=rf"bedrock-orchestrator\[{extra}\]"):
        load_models(local(weights), terminal())
    missing.clear()
    shown = terminal()
    with pytest.raises(ModelNotReady):  # the user declined
        load_models(local(weights), shown)
    assert weights in shown.notes[0]


def test_nobody_is_asked_where_nobody_sits(asked):
    shown = terminal(interactive=False)
    with pytest.raises(ModelNotReady):
        load_models(local("all-minilm-l6-v2"), shown)
    assert shown.notes == []


def test_a_teams_models_are_made_ready_before_its_first_turn(monkeypatch):
    loaded = []
    monkeypatch.setattr(LocalModel, "load", lambda self, progress=None: loaded.append(self))
    low = LocalModel()
    team = Agent("low", "You help.", low)
    for name in ("middle", "boss"):
        team = Agent(name, "You lead.", "anthropic.claude-v2", collaborators=[
            Collaborator(team, "Helps.")
        ])  # fmt: skip
    load_models(team, terminal())
    assert low in loaded
