"""A template in a conversation: which input is the question, and where earlier turns stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.flows.custom.converse_request import plain_content
from orchestrator.flows.template_loop import TemplateRequest
from orchestrator.message import Message, text_of
from orchestrator.prompts.bound_prompt import append_message
from orchestrator.prompts.languages.base import Document, Input

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn

# What templates call the question and the earlier turns, the likeliest first.
_QUESTIONS = (
    *("question", "input", "query", "user_input", "userInput", "chat_input", "user_query"),
    *("message", "user_message", "request", "ask", "prompt", "text"),
)
_HISTORIES = (
    *("chat_history", "chatHistory", "history", "conversation_history", "conversation", "thread"),
    *("messages", "past"),
)


class ChatInputs:
    """How one template is asked in a conversation.

    Attributes:
        question: The input that is the question; `None` where it is a message of its own.
        history: The input of the earlier turns; `None` where they stand before the question.
    """

    def __init__(self, document: Document, given: Mapping[str, Any]) -> None:
        self._given = given
        free = [one for one in document.inputs if one.name not in given]
        self.history = _find_history(free)
        texts = [one for one in free if one.name != self.history]
        self.question = _find_question(texts)

    def for_turn(self, turn: Turn) -> tuple[dict[str, Any], list[Message]]:
        """The inputs of a turn, and the messages that the template has no place for."""
        earlier = [
            Message(it["role"], plain_content(it["content"]), "conversation_history")
            for it in turn.start.earlier()
        ]
        values = dict(self._given)
        rest: list[Message] = []
        if self.history is not None:
            values[self.history] = [
                {"role": it["role"], "content": text_of(it["content"])} for it in earlier
            ]
        else:
            rest = earlier
        if self.question is not None:
            values[self.question] = turn.question
        else:
            rest = [*rest, Message("user", [{"text": turn.question}], "question")]
        return values, rest

    def place(self, asked: TemplateRequest, rest: list[Message]) -> TemplateRequest:
        """The request with the messages that the template has no place for."""
        if not rest:
            return asked
        written = list(asked.request.messages)
        # What the template says last is the question, unless that is a message of its own.
        last = [written.pop()] if self.question is not None and len(written) > 0 else []
        if self.question is None and len(written) == 1 and not asked.request.system:
            # A prompt without roles is what the model is to be, and not the user's first message.
            system = text_of(written.pop()["content"])
            asked = replace(asked, request=replace(asked.request, system=system))
        messages: list[Message] = []
        for one in (*written, *rest, *last):
            append_message(messages, one)
        return replace(asked, request=replace(asked.request, messages=messages))


def _find_history(free: list[Input]) -> str | None:
    threads = [one.name for one in free if one.kind == "thread"]
    named = [name for name in _HISTORIES if any(one.name == name for one in free)]
    return next(iter((*threads, *named)), None)


def _find_question(texts: list[Input]) -> str | None:
    names = [one.name for one in texts if one.kind not in ("array", "object", "thread", "image")]
    named = next((name for name in _QUESTIONS if name in names), None)
    if named is not None:
        return named
    open = [one.name for one in texts if one.default is None and one.name in names]
    return open[0] if len(open) == 1 else None
