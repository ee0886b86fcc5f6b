"""Renders the messages of a running script: late, once, and with what models say put into them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import UNDEFINED
from orchestrator.flows.ppe import model_replies
from orchestrator.flows.ppe.dialogue import DialogueMessage
from orchestrator.flows.ppe.jinja_texts import value_text
from orchestrator.flows.ppe.nodes import Link
from orchestrator.flows.ppe.regexes import search_text
from orchestrator.flows.ppe.scope import ALL
from orchestrator.flows.ppe.text_scanner import Inline
from orchestrator.flows.ppe.texts import Part, Text
from orchestrator.flows.steps import Event, Place, Step
from orchestrator.flows.tree import ScriptError
from orchestrator.prompts.mistakes import Mistake

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


Steps = Generator[Step, Any, Any]


class Renderer:
    """Renders the messages of one run's script."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run

    def text(self, text: Text) -> Generator[Step, Any, str]:
        """An author's text, rendered at once, without substitutions."""
        made = ""
        for part in text.parts:
            made += yield from self._part(part, text.place)
        return made

    def value(self, text: Text) -> Steps:
        """A text of an instruction, rendered at once: of one that is a call, its result itself."""
        call = text.sole_call
        if call is None:
            return (yield from self.text(text))
        try:
            return (yield from self._run_call(call))
        except (FlowError, ScriptError) as error:
            if not self._run.lenient:
                raise
            yield Event("warning", call.place, {"text": _reason_of(error)})
            return call.written

    def force(self, names: frozenset[str]) -> Steps:
        """Runs the substitutions that somebody reads."""
        names = self._run.data.reads(names)
        if not self._run.dialogue.substitutes:
            return
        if names & ALL:
            yield from self.complete(None)
            return
        self._run.work.copy(self._run.dialogue.messages)
        waiting = [one for one in self._run.dialogue.all if one.pending_names & names]
        if waiting:
            yield from self.complete(waiting[-1])

    def complete(self, upto: DialogueMessage | None) -> Steps:
        """Runs the substitutions that wait, in order, up to those of a message."""
        if not self._run.dialogue.substitutes:
            return
        self._run.work.copy(self._run.dialogue.messages)
        for message in self._run.dialogue.all:
            if message.pending_names:
                yield from self.settle(message)
            if message is upto:
                return

    def settle(self, message: DialogueMessage) -> Steps:
        """Renders a message; it stays as it is then."""
        if message.ready or message.busy:
            return
        message.busy = True
        scope, self._run.data.scope = self._run.data.scope, message.scope
        try:
            while not message.ready:
                yield from self._next(message)
        except ScriptError as wrong:
            self._run.fail(message.place, wrong.message, wrong.message_zh)
        finally:
            message.busy = False
            self._run.data.scope = scope

    def begin(self, message: DialogueMessage) -> Steps:
        """Renders all of a message but its substitutions, at once."""
        text = message.text
        if text is None:
            return
        created = []
        for part in text.parts:
            rendered = yield from self._part(part, text.place)
            created.append(Part(rendered, None, {}, part.substitution))
        message.text = Text(text.place, text.when, tuple(created), biases=text.biases)

    def _next(self, message: DialogueMessage) -> Steps:
        text = message.text
        if text is None:
            return
        part = text.parts[message.next]
        message.done += yield from self._part(part, text.place)
        substitution = part.substitution
        message.next += 1
        if substitution is None:
            return
        filled = yield from model_replies.substitute(self._run, message, substitution)
        message.done += filled.text
        message.drawn = True
        for name, value in zip(substitution.names, filled.values, strict=True):
            message.values[name] = value
            self._run.data.prompt[name] = value
            yield Event("variable_set", substitution.place, {"name": name, "value": value})

    def _part(self, part: Part, place: Place) -> Generator[Step, Any, str]:
        """One part of a text, rendered."""
        if part.template is None:
            return part.source
        values = {}
        for name, inline in part.inlines.items():
            values[name] = yield from self._inline(inline)
        names = part.template.names - part.inlines.keys()
        yield from self.force(names)
        try:
            context = {**self._run.data.context(names), **values}
            with self._run.work.rendering() as work:
                return part.template.render(context, work)
        except Mistake as mistake:
            if not self._run.lenient:
                where = shift_place(place, mistake.line - 1)
                self._run.fail(where, mistake.message, f"模板错误: {mistake.message}")
            yield Event("warning", place, {"text": mistake.message})
            return part.source

    def _inline(self, inline: Inline) -> Generator[Step, Any, str]:
        try:
            if inline.kind == "regex":
                return (yield from self._run_regex(inline))
            value = yield from self._run_call(inline)
            self._run.work.measure(value)
            return value_text(value)
        except (FlowError, ScriptError) as error:
            if not self._run.lenient:
                raise
            yield Event("warning", inline.place, {"text": _reason_of(error)})
            return inline.written

    def _run_call(self, inline: Inline) -> Steps:
        run = self._run
        link = Link(inline.place, inline.name, inline.kind == "instruction", inline.arguments)
        args, named = yield from run.values.arguments(inline.arguments, link)
        return (yield from run.calls.call(link, args, named))

    def _run_regex(self, inline: Inline) -> Generator[Step, Any, str]:
        yield from self.force(frozenset((inline.name,)))
        value = self._run.data.value(inline.name)
        if value is UNDEFINED:
            yield Event("warning", inline.place, {"text": f"{inline.name} is not defined"})
            return inline.written if inline.bare else ""
        self._run.work.measure(value)
        return search_text(inline, value_text(value), self._run.shared.searches)

    def biases(self, upto: DialogueMessage | None) -> list[tuple[str, float | None]]:
        """The biases of tokens in what a model is sent, up to and with one message, or all."""
        found: list[tuple[str, float | None]] = []
        if not self._run.known.biases:  # a lenient script goes without
            return found
        for message in self._run.dialogue.all:
            if message.text is not None:
                found += [(one.text, one.value) for one in message.text.biases]
            if message is upto:
                break
        return found

    def messages(
        self, upto: DialogueMessage | None = None
    ) -> Generator[Step, Any, list[tuple[str, str]]]:
        """The messages that a model is sent, rendered: those before one, or all.

        What the script says in its own name is the assistant's.
        """
        own = self._run.script.settings.name
        found = []
        for message in self._run.dialogue.all:
            if message is upto:
                break
            yield from self.settle(message)
            found.append((message.role if message.role != own else "assistant", message.done))
        return found


def _reason_of(error: FlowError | ScriptError) -> str:
    return error.reason if isinstance(error, FlowError) else error.message


def shift_place(place: Place, lines: int) -> Place:
    """A place some lines further down."""
    return Place(place.line + lines, 1 if lines else place.column, place.statement)
