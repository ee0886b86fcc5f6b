"""Traces with values that are nested as deep as JSON may be, and deeper."""

from orchestrator import Agent
from orchestrator.cli.render import show_sent_prompts
from orchestrator.cli.terminal import Terminal
from orchestrator.support.safe_json import MOST_JSON_LEVELS
from orchestrator.testing import ScriptedModel


def nest(levels):
    return "[" * levels + "]" * levels


def test_a_trace_has_as_many_levels_as_can_be_walked(run, place):
    file = place / "trace.json"
    file.write_text(nest(MOST_JSON_LEVELS))
    assert "there are no trace parts" in run("trace", file).stderr
    file.write_text(nest(MOST_JSON_LEVELS + 300))
    assert "nested deeper than 200 levels" in run("trace", file).stderr


def test_a_prompt_that_is_nested_deeper_is_shown_as_it_is(capsys):
    text = f'{{"messages": {nest(MOST_JSON_LEVELS)}}}'
    sent = {"modelInvocationInput": {"type": "ORCHESTRATION", "text": text}}
    plan = Agent("a", "You help.", ScriptedModel([])).plan
    assert show_sent_prompts(Terminal(), [{"trace": {"orchestrationTrace": sent}}], plan) == 1
    assert '{"messages": [[[[' in capsys.readouterr().out
