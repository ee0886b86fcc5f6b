"""How much of a prompt an embedded model has read: shown on a terminal, and nowhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from orchestrator import Agent
from orchestrator.cli.agents import load_models
from orchestrator.cli.flow_view import FlowView
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.terminal import Terminal
from orchestrator.engine.trace.reply import TextDelta, TurnEnd
from orchestrator.models import LocalModel, ModelReply


class Reader(LocalModel):
    """Reads a long prompt and answers."""

    steps = ((0, 1000), (400, 1000))

    def load(self, progress=None):
        pass

    def stream(self, request):
        for step in self.steps:
            self.reading(*step)
        yield "Hello!"
        yield ModelReply([{"text": "<answer>Hello!</answer>"}])


@pytest.fixture
def shown():
    """A command on a terminal, and what that shows."""
    terminal, file = Terminal(), io.StringIO()
    terminal.err = Console(file=file, force_terminal=True, width=60, color_system=None)
    return terminal, file


def ask(terminal, model):
    agent = Agent("a", "You help.", model)
    load_models(agent, terminal)
    return LiveTurn(terminal).run(agent.stream("Hi", "s-1"))


def test_a_terminal_shows_how_much_was_read(shown):
    terminal, file = shown
    assert ask(terminal, Reader()).text == "Hello!"
    assert "reading the prompt 40 %…" in file.getvalue()


def test_a_prompt_that_was_read_or_is_short_shows_nothing(shown):
    terminal, file = shown
    for steps in (((0, 1000), (1000, 1000)), ((0, 47),), ((0, 0),)):
        model = Reader()
        model.steps = steps
        ask(terminal, model)
    assert "thinking…" in file.getvalue() and "reading the prompt" not in file.getvalue()


def test_a_turn_that_was_stopped_leaves_nothing_for_the_next(shown):
    terminal, file = shown
    terminal.note_reading(400, 1000)

    def events():
        yield TextDelta("Hello!")
        yield TurnEnd(reply)

    model = Reader()
    model.steps = ()
    reply = ask(Terminal(), model)
    LiveTurn(terminal).run(events())
    assert "reading the prompt" not in file.getvalue()


def test_a_pipe_gets_none_of_it(run, shop, monkeypatch):
    monkeypatch.setattr("orchestrator.models.registry.resolve_model", lambda *_, **__: Reader())
    monkeypatch.setattr("orchestrator.agent.source.resolve_model", lambda *_, **__: Reader())
    done = run("invoke", shop, "Hi")
    assert (done.stdout, done.stderr) == ("Hello!\n", "")


def test_a_script_shows_it_between_its_lines(shown):
    terminal, file = shown
    view = FlowView(terminal)
    view.show_reading(400, 1000)
    view.show_reading(500, 1000)
    view.hide_reading()
    assert "reading the prompt 50 %…" in file.getvalue()
    view.show_reading(600, 1000)
    view.show_reading(1000, 1000)  # takes the line away by itself
    before = file.getvalue()
    view.hide_reading()
    FlowView(Terminal()).show_reading(400, 1000)
    view.show_reading(10, 20)
    assert file.getvalue() == before
