"""Sessions of inline agents: kept across calls, also when the definition changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_support import INSTRUCTION, called, group, handler, last, scripted, texts

from orchestrator import Agent, ReturnControl, SessionConflict, Sessions
from orchestrator.testing import FakeKnowledgeBase

SEARCH = "GET__x_amz_knowledgebase_KB12345678__Search"


def inline(model: Any, sessions: Any, **changes: Any) -> Agent:
    given = {"foundationModel": model, "instruction": INSTRUCTION, **changes}
    return Agent.inline(sessions=sessions, **given)


def test_a_session_goes_on_with_another_definition() -> None:
    sessions = Sessions()
    first = scripted(called(), "<answer>12 days.</answer>")
    inline(first, sessions, actionGroups=[group(handler)]).invoke("How many?", "s-1")
    second = scripted("<answer>Yes.</answer>")
    again = inline(second, sessions, instruction="You answer in one word, always and everywhere.")
    assert again.invoke("Is that enough?", "s-1").text == "Yes."
    assert "e-1 has 12 days" in texts(second)
    assert "<answer>12 days.</answer>" in texts(second)


CHANGES: dict[str, dict[str, Any]] = {
    "the same": {"actionGroups": [group(handler)]},
    "no actions": {},
    "other actions": {"actionGroups": [group(ReturnControl(), actionGroupName="other")]},
    "handed over": {"actionGroups": [group(ReturnControl())]},
    "knowledge": {"knowledgeBases": [FakeKnowledgeBase("KB12345678", ["Rain is wet."])]},
}


@pytest.mark.parametrize("before", CHANGES)
@pytest.mark.parametrize("after", CHANGES)
@pytest.mark.parametrize(
    "model_id", ["anthropic.claude-3-sonnet-20240229-v1:0", "amazon.nova-pro-v1:0"]
)
def test_another_process_goes_on_whatever_was_changed(
    tmp_path: Path, before: str, after: str, model_id: str
) -> None:
    file = tmp_path / "sessions.sqlite"
    script = [called(SEARCH, searchQuery="rain"), called(), "<answer>12 days.</answer>"]
    reply = inline(scripted(*script), file, **CHANGES[before]).invoke("How many?", "s-1")
    model = scripted("<answer>Yes.</answer>", model_id=model_id)
    agent = inline(model, file, **CHANGES[after])
    assert agent.invoke("Is that enough?", "s-1").text == "Yes."
    if reply.text:  # a turn that waited for its caller was given up
        assert "How many?" in str(last(model))
        assert "12 days." in str(last(model))


def test_what_waits_is_answered_by_a_new_agent_of_the_same_definition(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    groups = [group(ReturnControl())]
    control = inline(scripted(called()), file, actionGroups=groups).invoke("Left?", "s-1")
    assert control.return_control is not None
    again = inline(scripted("<answer>ok</answer>"), file, actionGroups=groups)
    state = {"inlineSessionState": control.return_control.answer("12")}
    assert again.invoke("ignored", "s-1", **state).text == "ok"


def test_what_waits_is_not_answered_by_another_definition(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    asked = inline(scripted(called()), file, actionGroups=[group(ReturnControl())])
    control = asked.invoke("Left?", "s-1").return_control
    assert control is not None
    with pytest.raises(SessionConflict, match="another version of this agent"):
        inline(scripted(), file).invoke(session_id="s-1", results=control.answer("12"))


def test_agents_of_a_store_do_not_share_inline_sessions() -> None:
    sessions = Sessions()
    inline(scripted("<answer>a</answer>"), sessions).invoke("One?", "s-1")
    model = scripted("<answer>b</answer>")
    Agent("named", INSTRUCTION, model, sessions=sessions).invoke("Two?", "s-1")
    assert "One?" not in texts(model)
