"""Which collaborator an embedded model's supervisor asks.

A small model that puts a question in other words loses its ids and dates. So the user's input is
sent as it is, and the model only chooses who gets it, where nothing else tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.message import Message
from orchestrator.models.grounds import render_result
from orchestrator.support.sentences import QUESTION_MARK

MESSAGE = "AgentCommunication__sendMessage"
"""What asks a collaborator, as models of the protocol `tool_use` call it."""

TO_USER = "User"
"""The recipient of a message that is the answer itself."""


def find_asker(messages: Sequence[Message]) -> str:
    """The collaborator that asked the user something at the end of the last turn, if one did."""
    # The user's answer, the supervisor's reply, the collaborator's answer, and what it was asked.
    if len(messages) < 4:
        return ""
    results = [one for one in messages[-3]["content"] if "toolResult" in one]
    uses = [one["toolUse"] for one in messages[-4]["content"] if "toolUse" in one]
    if len(results) != 1 or len(uses) != 1 or uses[0]["name"] != MESSAGE:
        return ""
    is_question = QUESTION_MARK.search(render_result(results[0]).rstrip()[-1:])
    return str(uses[0]["input"].get("recipient", "")) if is_question else ""
