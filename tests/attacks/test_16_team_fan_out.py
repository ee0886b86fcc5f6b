"""Row 16, in a team: a supervisor's model that sets whole crowds of agents to work."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import Agent, Collaborator, LimitExceeded, Limits
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


class Restless(ScriptedModel):
    """Sends messages to other agents for ever; all of a team count into one list."""

    def __init__(self, recipients: list[str], text: str, asked: list[str]) -> None:
        super().__init__([], CLAUDE)
        self.recipients, self.text, self.asked = recipients, text, asked

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request.stage)
        name, number = "AgentCommunication__sendMessage", len(self.asked)
        content: list[Any] = [
            {
                "toolUse": {
                    "toolUseId": f"t-{number}-{index}",
                    "name": name,
                    "input": {"recipient": recipient, "content": self.text},
                }
            }
            for index, recipient in enumerate(self.recipients)
        ]
        return ModelReply(content or [{"text": self.text}], "end_turn", Usage(1, 1, calls=1))


def crowd(width: int, levels: int, asked: list[str], text: str = "Go on.") -> Agent:
    if levels == 1:
        return Agent("low", "You work.", Restless([], text, asked))
    below = crowd(1, levels - 1, asked, text)
    model = Restless([below.name] * width, text, asked)
    return Agent(f"level{levels}", "You lead.", model, collaborators=[Collaborator(below, "It.")])


@pytest.mark.parametrize("width", [1, 2, 5, 24, 25, 1000])
@pytest.mark.parametrize("levels", [2, 3])
def test_no_number_of_messages_spends_more_than_the_turns_model_calls(
    width: int, levels: int
) -> None:
    asked: list[str] = []
    with pytest.raises(LimitExceeded):
        crowd(width, levels, asked).invoke("Go!", "s-1")
    assert len(asked) <= Limits().model_calls


def test_payloads_that_hold_one_another_do_not_grow() -> None:
    """A reference inside of a payload is text, so no few bytes become very many."""
    shares = '<br:share_payload id="a"/>' * 10
    worker = Agent(
        "low", "You work.", ScriptedModel([f'<br:payload id="a">{shares}</br:payload>'], CLAUDE)
    )
    use = {"recipient": "low", "content": "Go."}
    send = {"toolUse": {"toolUseId": "t", "name": "AgentCommunication__sendMessage", "input": use}}
    boss = ScriptedModel([[send], f"<answer>{shares}</answer>"], CLAUDE)
    agent = Agent("boss", "You lead.", boss, collaborators=[Collaborator(worker, "It.")])
    assert agent.invoke("Go!", "s-1").text == shares * 10
