"""A conversation with a model of each dialect, from its first prompt to its last."""

import pytest

from orchestrator.prompts.placeholders import FAMILIES

from .conversations import SPEAKERS, hold, prompts
from .whole_prompts import FOLDER


def test_every_dialect_speaks():
    assert set(SPEAKERS) == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_kind_of_step_works_and_reads_as_it_was_reviewed(name):
    held = hold(name)
    assert held.made == [("get_days", "E-1"), ("book", "E-1", 2)]
    assert [reply.stop_reason for reply in held.replies] == ["ask_user", "end_turn"]
    assert [reply.text for reply in held.replies] == ["For which year?", "Booked for 2026."]
    parts = [part["trace"].get("orchestrationTrace", {}) for part in held.replies[0].trace]
    thought = [part["rationale"]["text"] for part in parts if "rationale" in part]
    assert {text.partition("\n")[0] for text in thought} == {"I call."}
    assert len(thought) == 6
    asked = [part["observation"] for part in parts if "observation" in part]
    mended = [one["repromptResponse"]["text"] for one in asked if one["type"] == "REPROMPT"]
    # The call of nothing, and the malformed one.
    assert [" is not a valid function" in text for text in mended] == [True, False]
    assert "format" in mended[1] or "JSON object" in mended[1]
    # `python -m tests.prompts.conversations` writes them again; read the difference.
    reviewed = (FOLDER / name / "conversation.txt").read_text(encoding="utf-8")
    assert prompts(held) == reviewed
