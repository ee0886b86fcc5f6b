"""What a supervisor and its collaborators say to each other.

A small model that puts a question in other words loses its ids and dates. One that does so with the
answer makes up facts, refuses, or asks the same agent again until no step is left. So both are
handed on as they are, and the model only chooses who is asked, where nothing else tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.message import Message
from orchestrator.models.grounds import render_result
from orchestrator.models.scope import is_refusal
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


def read_answers(messages: Sequence[Message]) -> str:
    """The answers of collaborators to the last step; empty if that did anything else, or failed.

    Each is in it once, and refusals only where there is nothing else.
    """
    results = [one["toolResult"] for one in messages[-1]["content"] if "toolResult" in one]
    if not results or any(one.get("status") == "error" for one in results):
        return ""
    step = messages[-2]["content"] if len(messages) > 1 else []
    if any(one["toolUse"]["name"] != MESSAGE for one in step if "toolUse" in one):
        return ""
    texts = [*dict.fromkeys(render_result({"toolResult": one}).strip() for one in results)]
    useful = [text for text in texts if not is_refusal(text)]
    return "\n\n".join(useful or texts)
