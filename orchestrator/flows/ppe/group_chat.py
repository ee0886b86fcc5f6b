"""Group chats: who the roles of a script are, what each of them has heard, and who answers.

A role is a script of its own (`roles:` of the front matter). What it says is the model's reply to
what the role has heard: its script's messages, and then the chat, in which each message begins with
the name of who says it. A line that goes on is indented: no value can speak for somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable
from typing import TYPE_CHECKING, Any

from orchestrator.flows.ppe.data import map_of
from orchestrator.flows.ppe.dialogue import DialogueMessage
from orchestrator.flows.ppe.nodes import Say
from orchestrator.flows.ppe.roles import ALL
from orchestrator.flows.ppe.text_scanner import Substitution
from orchestrator.flows.ppe.texts import Part, Text
from orchestrator.flows.steps import Place, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


RESPONSE = "RESPONSE"
"""The variable with the last reply that no other variable takes."""

_MAIN = "assistant"

_LINE_END = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What ends a line for anybody: all that `str.splitlines` knows."""

RolesAndTexts = list[tuple[str, str]]


class GroupChat:
    """The roles of one run's group chat; without roles there is none, and all is as written."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run
        self._scripts = run.script.settings.roles
        name = run.script.settings.name
        self._main = frozenset((_MAIN, name) if name not in self._scripts else (_MAIN,)) - {""}
        self._openings: dict[str, RolesAndTexts] = {}
        self.roles: Collection[str] = self._scripts.keys()

    def check(self) -> None:
        """Checks that the roles' scripts are there."""
        run = self._run
        for role, id in self._scripts.items():
            if not run.library.has(id):
                there = ", ".join(run.library.ids) or "none"
                run.fail(
                    Place(1),
                    f"the role {role!r} is the script {id!r}, which is not beside this one; "
                    f"there is {there}",
                    f"角色 {role!r} 的脚本 {id!r} 不在同一文件夹；现有: {there}",
                )

    def audience(self, statement: Say) -> frozenset[str] | None:
        """Who may read a message; `None` for everybody."""
        if not statement.private:
            return None
        return frozenset((statement.role, *self._expand_addressees(statement)))

    def _expand_addressees(self, statement: Say) -> list[str]:
        found: dict[str, None] = {}
        for name in statement.to:
            found.update(dict.fromkeys(self.roles if name == ALL else (name,)))
        return list(found)

    def create_answers(self, statement: Say, message: DialogueMessage) -> list[DialogueMessage]:
        """The messages of those who must answer one: what they say is not yet known."""
        answers = []
        for name in self._expand_addressees(statement):
            if name == statement.role or (name not in self.roles and name not in self._main):
                continue
            place = statement.place
            hole = Part("", None, {}, Substitution(place, RESPONSE, None, ()))
            text = Text(place, "late", (hole,))
            audience = message.audience
            role = _MAIN if name in self._main else name
            answers.append(
                DialogueMessage(
                    role, text, place, scope=message.scope, audience=audience, implicit=True
                )
            )
        return answers

    def messages(self, upto: DialogueMessage | None = None) -> Generator[Step, Any, RolesAndTexts]:
        """What a model is sent: the messages before one, or all, as who speaks has heard them."""
        run = self._run
        if not self.roles:
            return (yield from run.rendering.messages(upto))
        speaker = upto.role if upto is not None and upto.role in self.roles else _MAIN
        main = speaker == _MAIN
        sent: RolesAndTexts = [] if main else list((yield from self._load_opening(speaker)))
        for message in run.dialogue.all if main else run.dialogue.messages:
            if message is upto:
                break
            if main or message.role != "system":
                yield from run.rendering.settle(message)
                sent += self._convert_message(message, speaker)
        if main:
            name = run.script.settings.name or _MAIN
            first = next((at for at, it in enumerate(sent) if it[0] != "system"), len(sent))
            sent.insert(first, ("system", _build_rules(name, self.roles)))
        return sent

    def _convert_message(self, message: DialogueMessage, speaker: str) -> RolesAndTexts:
        who = self._main if speaker == _MAIN else frozenset((speaker,))
        if message.audience is not None and not message.audience & who:
            return []
        if message.role == "system":
            return [("system", message.done)]
        if message.role in who:
            return [("assistant", message.done)]
        return [("user", _attribute_message(message))]

    def convert_unfinished(self, message: DialogueMessage) -> RolesAndTexts:
        """As much of a message as is rendered, for the model that goes on with it."""
        if not message.done.strip():
            return []
        if message.role in (*self.roles, self._run.script.settings.name):
            return [("assistant", message.done)]
        foreign = self.roles and message.role not in (_MAIN, "system")
        return (
            [("user", _attribute_message(message))] if foreign else [(message.role, message.done)]
        )

    def _load_opening(self, role: str) -> Generator[Step, Any, RolesAndTexts]:
        """What a role knows before the chat: the messages of its script, and who it is."""
        if role not in self._openings:
            run = self._run
            script = run.library.script(self._scripts[role])
            front = script.front
            known = {**map_of(front.get("character")), **front}
            named = {} if "name" in front else {"name": known.get("name", role)}
            inner = run.inner(script, (), named)
            opening = yield from inner.run_opening()
            if not any(one == "system" for one, _ in opening):
                about = inner.data.render(known.get("description", ""))
                name = inner.data.render(known.get("name", role))
                opening = [("system", f"You are {name}.\n{about}".strip()), *opening]
            names = dict.fromkeys((*self.roles, run.script.settings.name or role))
            opening.append(("system", _build_rules(role, names)))
            self._openings[role] = opening
        return self._openings[role]

    def strip_speaker(self, role: str, reply: str) -> str:
        """A role's reply without the name that it may begin with."""
        if role not in self.roles:
            return reply
        head, colon, rest = reply.partition(":")
        return rest.lstrip() if colon and head.strip().casefold() == role.casefold() else reply


def _attribute_message(message: DialogueMessage) -> str:
    """A message of another role: speaker and addressees stand before the text."""
    to = "".join(f"@{name}, " for name in message.to)
    text = _LINE_END.sub(r"\g<0>  ", f"{to}{message.done}")
    return f"{message.role}: {text}"


def _build_rules(role: str, names: Iterable[str]) -> str:
    others = ", ".join(one for one in names if one != role)
    with_whom = f" with {others} and the user" if others else ""
    return (
        f"You are in a chat{with_whom}, as {role}. Each message begins with the name of who says "
        f"it. Reply with what {role} says next, without the name, and say nothing for others."
    )
