"""Carries out what is said: messages, the edits of messages, and where a dialogue begins."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from orchestrator.flows.ppe.dialogue import DialogueMessage
from orchestrator.flows.ppe.nodes import Edit, Say, Separate
from orchestrator.flows.ppe.texts import Text
from orchestrator.flows.steps import Place, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


Steps = Generator[Step, Any, Any]


def add_message(run: Interpreter, statement: Say) -> Steps:
    """A message, and those of whom it makes answer."""
    message = _build_message(run, statement.role, statement.text, statement.place)
    message.to, message.audience = statement.to, run.cast.audience(statement)
    _drop_implicit_answer(run, statement.role)
    run.dialogue.messages.append(message)
    if statement.text.when == "now":
        yield from run.rendering.begin(message)
    run.dialogue.messages += run.cast.create_answers(statement, message)


def _drop_implicit_answer(run: Interpreter, role: str) -> None:
    """Takes an answer that nobody has read yet back: its role says itself what it says."""
    messages = run.dialogue.messages
    last = messages[-1] if messages else None
    if last is not None and last.implicit and last.role == role and not last.drawn:
        messages.pop()


def _build_message(run: Interpreter, role: str, text: Text, place: Place) -> DialogueMessage:
    return DialogueMessage(role, text, place, scope=run.data.scope)


def start_dialogue(run: Interpreter, statement: Separate) -> Steps:
    """A new dialogue; the first one begins with what listeners to `load-chats` remember."""
    yield from run.rendering.complete(None)
    first = not run.dialogue.separated
    run.dialogue.separate()
    if not first:
        return
    loaded = yield from run.listeners.emit(statement.place, "load-chats", [run.script.id])
    for one in loaded if isinstance(loaded, list) else ():
        if isinstance(one, dict) and isinstance(one.get("content"), str):
            role, text = str(one.get("role", "user")), one["content"]
            said = DialogueMessage(role, None, statement.place, done=text, drawn=True)
            run.dialogue.messages.append(said)


def edit_message(run: Interpreter, statement: Edit) -> None:
    """Replaces a message, or inserts one.

    Raises:
        FlowError: There is no message to replace.
    """
    messages = run.dialogue.messages
    if not statement.replaces:
        message = _build_message(run, statement.role, statement.text, statement.place)
        messages.insert(statement.at, message)
        return
    if not -len(messages) <= statement.at < len(messages):
        run.fail(
            statement.place,
            f"there is no message to replace at {statement.at}",
            f"没有可替换的消息: {statement.at}",
        )
    role = statement.role or messages[statement.at].role
    messages[statement.at] = _build_message(run, role, statement.text, statement.place)
