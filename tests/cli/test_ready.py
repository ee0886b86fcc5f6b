"""What a command does before its first turn when an agent's embedded models are not there."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from orchestrator import Agent, Collaborator
from orchestrator.cli import agents
from orchestrator.cli.agents import load_models
from orchestrator.errors import DependencyFailed, ModelNotReady
from orchestrator.guardrails import LocalGuardrail, Topic
from orchestrator.models import LocalModel
from orchestrator.testing import FakeEmbedder


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


KNOWLEDGE = """
agentName: helper
instruction: You answer questions from a folder of documents, and from nothing else.
foundationModel: anthropic.claude-v2
knowledgeBases:
  - {{knowledgeBaseId: rules, description: Rules., folder: docs{embedder}}}
"""


def helper(folder, embedder=""):
    (folder / "docs").mkdir()
    (folder / "docs" / "dogs.md").write_text("Dogs are welcome.")
    (folder / "agent.yaml").write_text(KNOWLEDGE.format(embedder=embedder))
    return folder


@pytest.mark.parametrize("verb", ["chat", "invoke"])
def test_without_a_terminal_missing_embeddings_are_an_error_that_names_the_command(
    run, script, place, verb
):
    words = ("invoke", helper(place), "Dogs?") if verb == "invoke" else ("chat", helper(place))
    done = run(*words, script("<answer>Yes."), input="Dogs?\n")
    assert done.exit_code == 1 and done.stdout == ""
    assert "orchestrator models pull all-minilm-l6-v2" in done.stderr


def test_a_knowledge_base_of_keywords_needs_none(run, script, place):
    folder = helper(place, ", embedder: null")
    assert run("invoke", folder, "Dogs?", script("<answer>Yes.")).exit_code == 0


def test_on_a_terminal_missing_embeddings_are_offered_with_their_size(monkeypatch, place):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: SimpleNamespace())
    shown = terminal()
    with Agent.load(helper(place)) as agent, pytest.raises(ModelNotReady):  # the user declined
        load_models(agent, shown)
    assert shown.notes[0].startswith("The model all-minilm-l6-v2 is not on this machine yet: ")
    assert " MB, licence Apache-2.0, kept in " in shown.notes[0]


def test_a_guardrail_that_finds_topics_by_meaning_needs_them_too():
    embedder = FakeEmbedder()
    embedder.id = "all-minilm-l6-v2"
    guardrail = LocalGuardrail(topics=[Topic("wages", "What people earn.")], embedder=embedder)
    agent = Agent("a", "You help.", "anthropic.claude-v2", guardrail=guardrail)
    with pytest.raises(ModelNotReady):
        load_models(agent, terminal(interactive=False))
