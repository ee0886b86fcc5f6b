"""The messages of a running script: added, edited, rendered once, merged when they are sent."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.flows.ppe.nodes import Edit, Say, Separate
from orchestrator.flows.ppe.texts import Text
from orchestrator.flows.steps import Event, Place, Step
from orchestrator.message import Message
from orchestrator.prompts.languages.message_dicts import ALLOW, find_instruction

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


@dataclass(slots=True, eq=False)
class DialogueMessage:
    """A message."""

    role: str  # the speaker's role
    text: Text | None  # the author's text; `None` for a model's reply
    place: Place
    done: str = ""  # as much of it as is rendered and substituted
    next: int = 0  # the part of the text that comes next
    # The variables of the loops that it is in
    scope: Mapping[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # what was substituted in it, by variable
    drawn: bool = False  # whether something was substituted
    is_data: bool = False  # whether that is data, and all of it
    busy: bool = False  # whether it is being rendered
    to: tuple[str, ...] = ()  # the roles that it addresses, in a group chat
    audience: frozenset[str] | None = None  # who may read it there; `None` for everybody
    implicit: bool = False  # whether it is the answer of a role that a message addressed

    @property
    def result(self) -> Any:
        """What a script comes to that ends in it: its text, or the data that it is."""
        return next(iter(self.values.values())) if self.is_data else self.done

    @property
    def ready(self) -> bool:
        """Whether nothing is left to render."""
        return self.text is None or self.next >= len(self.text.parts)

    @property
    def pending_names(self) -> frozenset[str]:
        """The variables that are still to be substituted in it."""
        if self.text is None or self.busy:
            return frozenset()
        left = self.text.parts[self.next :]
        return frozenset(
            name for part in left if part.substitution for name in part.substitution.names
        )


class Dialogue:
    """The messages of a script."""

    def __init__(self) -> None:
        # Those above the first separator, which every dialogue has
        self.prologue: list[DialogueMessage] = []
        self.messages: list[DialogueMessage] = []  # those of the dialogue that goes on
        self.separated = False  # whether a separator was passed
        self.substitutes = False  # whether any of them has had a substitution

    @property
    def all(self) -> list[DialogueMessage]:
        """All messages that a model is sent."""
        return [*self.prologue, *self.messages]

    @property
    def last(self) -> DialogueMessage | None:
        """The last message."""
        found = self.messages or self.prologue
        return found[-1] if found else None

    def add(self, message: DialogueMessage, at: int | None = None) -> None:
        """Adds a message, or inserts it at a place."""
        self.messages.insert(len(self.messages) if at is None else at, message)
        self.note(message)

    def note(self, message: DialogueMessage) -> None:
        """Takes what a message means for all of them."""
        self.substitutes = self.substitutes or bool(message.pending_names)

    def separate(self) -> None:
        """Begins a new dialogue."""
        if not self.separated:
            self.prologue, self.separated = self.messages, True
        self.messages = []


def merge_messages(messages: Sequence[tuple[str, str]]) -> tuple[str, list[Message]]:
    """Messages as they are sent: the system text, and the others, neighbours of one role merged."""
    system = "\n".join(text for role, text in messages if role == "system")
    merged: list[tuple[str, str]] = []
    for role, text in messages:
        if role == "system":
            continue
        if merged and merged[-1][0] == role and role in ("user", "assistant"):
            merged[-1] = role, f"{merged[-1][1]}\n\n{text}"
        else:
            merged.append((role, text))
    return system, [Message(role, [{"text": text}]) for role, text in merged]


Steps = Generator[Step, Any, Any]


def add_message(run: Interpreter, statement: Say) -> Steps:
    """A message, and those of whom it makes answer."""
    message = DialogueMessage(
        statement.role,
        statement.text,
        statement.place,
        scope=run.data.scope,
        to=statement.to,
        audience=run.cast.audience(statement),
    )
    messages = run.dialogue.messages
    last = messages[-1] if messages else None
    # The role's next message replaces an answer that nobody has read yet.
    if last is not None and last.implicit and last.role == statement.role and not last.drawn:
        messages.pop()
    run.dialogue.add(message)
    if statement.text.when == "now":
        yield from run.rendering.begin(message)
    for answer in run.cast.create_answers(statement, message):
        run.dialogue.add(answer)


def start_dialogue(run: Interpreter, statement: Separate) -> Steps:
    """A new dialogue; the first one begins with what listeners to `load-chats` remember."""
    yield from run.rendering.complete(None)
    first = not run.dialogue.separated
    run.dialogue.separate()
    if not first:
        return
    loaded = yield from run.listeners.emit(statement.place, "load-chats", [run.script.id])
    allowed = run.script.front.get(ALLOW) is True
    for one in loaded if isinstance(loaded, list) else ():
        if isinstance(one, dict) and isinstance(one.get("content"), str):
            role, text = str(one.get("role", "user")), one["content"]
            if not allowed and find_instruction([{"role": role}]):
                warning = (
                    f"a message of the role {role[:40]!r} is left out: only the script instructs "
                    f"the model, unless its front matter says {ALLOW}: true"
                )
                yield Event("warning", statement.place, {"text": warning})
                continue
            message = DialogueMessage(role, None, statement.place, done=text, drawn=True)
            run.dialogue.messages.append(message)


def edit_message(run: Interpreter, statement: Edit) -> None:
    """Replaces a message, or inserts one."""
    messages = run.dialogue.messages
    place, text, scope = statement.place, statement.text, run.data.scope
    if not statement.replaces:
        run.dialogue.add(DialogueMessage(statement.role, text, place, scope=scope), statement.at)
        return
    if not -len(messages) <= statement.at < len(messages):
        run.fail(
            place,
            f"there is no message to replace at {statement.at}",
            f"没有可替换的消息: {statement.at}",
        )
    role = statement.role or messages[statement.at].role
    messages[statement.at] = DialogueMessage(role, text, place, scope=scope)
    run.dialogue.note(messages[statement.at])
