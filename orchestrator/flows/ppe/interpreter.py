"""Runs a script: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn, assert_never

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import UNDEFINED, evaluate
from orchestrator.flows.expressions import Argument, Node, Wrong
from orchestrator.flows.ppe import asking
from orchestrator.flows.ppe.data import Author
from orchestrator.flows.ppe.dialogue import Dialogue, Said
from orchestrator.flows.ppe.instructions import BUILT_IN, Instructions
from orchestrator.flows.ppe.library import Library
from orchestrator.flows.ppe.matching import matches
from orchestrator.flows.ppe.nodes import (
    Block,
    Chain,
    Edit,
    For,
    If,
    Instruction,
    Link,
    Match,
    Say,
    Script,
    Separate,
    Statement,
    While,
)
from orchestrator.flows.ppe.output import bound, inputs_of, words
from orchestrator.flows.ppe.regexes import searched
from orchestrator.flows.ppe.scope import ALL, Data, names_read
from orchestrator.flows.ppe.texts import Inline, Part, Text, value_text
from orchestrator.flows.steps import Call, Event, Known, Place, Step
from orchestrator.prompts.jinja import Mistake

__all__ = ["Break", "Continue", "Interpreter", "Returned"]

MOST_ROUNDS = 10_000
MOST_LEVELS = 20

Steps = Generator[Step, Any, Any]


class Returned(Exception):
    """`$ret` was reached."""


class Break(Exception):
    """`$break` was reached."""


class Continue(Exception):
    """`$continue` was reached."""


class Interpreter:
    """One run of one script.

    Attributes:
        script: The script.
        data: Its data.
        dialogue: Its messages.
        called: Whether a model was asked.
        result: The result of the last statement.
        finishing: Whether all statements of the whole script have run.
    """

    def __init__(
        self,
        script: Script,
        library: Library,
        known: Known,
        args: Sequence[Any],
        named: Mapping[str, Any],
        level: int = 0,
    ) -> None:
        self.script = script
        self.library = library
        self.known = known
        self.level = level
        self.dialogue = Dialogue()
        self.called = False
        self.result: Any = None
        self.finishing = False
        self._said_last = False
        front = script.front
        prompt = front.get("prompt")
        try:
            given = bound(inputs_of(front.get("input")), args, named)
        except Wrong as wrong:
            self.fail(Place(1), wrong.message)
        self.data = Data({**front, **given}, dict(prompt) if isinstance(prompt, dict) else {})
        schema = front.get("output")
        if isinstance(schema, dict) and "output" not in given:
            self.data.runtime["output"] = words(schema)
        self._instructions = Instructions(self)

    def fail(self, place: Place, message: str) -> NoReturn:
        """Ends the run at a statement.

        Raises:
            FlowError: Always.
        """
        raise FlowError(
            message,
            file=self.script.file,
            line=place.line,
            column=place.column,
            statement=place.statement,
        )

    def check(self) -> None:
        """Checks that all that the script names is there, before anything of it runs.

        Raises:
            FlowError: Something is not.
        """
        for link in self.script.calls:
            if link.instruction:
                if link.name not in BUILT_IN and not self.known.name_of(link.name):
                    self._unknown(link)
            elif not self.library.has(link.name) and not self.known.name_of(link.name):
                self._unknown(link)

    def _unknown(self, link: Link) -> NoReturn:
        if link.instruction:
            self.fail(
                link.place,
                f"there is no instruction ${link.name}; register a Python function of that name "
                f"with tools={{{link.name!r}: function}}",
            )
        there = ", ".join(self.library.ids) or "none"
        self.fail(link.place, f"there is no script {link.name!r} beside this one; there is {there}")

    def run(self) -> Steps:
        """Runs it; its result.

        Raises:
            FlowError: A statement failed, with its place.
        """
        self.check()
        try:
            yield from self.block(self.script.body)
        except Returned:
            return self.result
        except (Break, Continue):
            self.fail(Place(1), "$break and $continue belong into loops")
        yield from self._finish()
        return self.result

    def _finish(self) -> Steps:
        self.finishing = self.level == 0
        yield from self.complete(None)
        last = self.dialogue.last
        if last is None or self.script.front.get("autoRunLLMIfPromptAvailable") is False:
            if last is not None and self._said_last:
                yield from self.settle(last)
                self.result = last.done
            return
        if last.role == "user" or not (self.called or last.drawn):
            self.result = yield from asking.ask_all(self, last.place, {})
        elif self._said_last:
            self.result = last.done

    # Statements

    def block(self, block: Block) -> Steps:
        """Runs statements.

        Raises:
            FlowError: One failed.
        """
        for statement in block:
            place = statement.place
            yield Event("statement_start", place)
            try:
                yield from self._statement(statement)
            except Wrong as wrong:
                self.fail(place, wrong.message)
            except Mistake as mistake:
                self.fail(_further(place, mistake.line - 1), mistake.message)

    def _statement(self, statement: Statement) -> Steps:
        match statement:
            case Say():
                yield from self._say(statement)
            case Separate():
                yield from self.complete(None)
                self.dialogue.separate()
            case Instruction():
                yield from self._instructions.run(statement)
            case If():
                holds = yield from self.evaluated(statement.condition)
                yield from self.block(statement.then if holds else statement.otherwise)
            case While():
                yield from self._while(statement)
            case For():
                yield from self._for(statement)
            case Match():
                yield from self._match(statement)
            case Chain():
                yield from self._chain(statement)
            case Edit():
                yield from self._edit(statement)
            case _:
                assert_never(statement)

    def _say(self, statement: Say) -> Steps:
        message = self._message(statement.role, statement.text, statement.place)
        self.dialogue.messages.append(message)
        if statement.text.when == "now":
            yield from self._begin(message)
        self.result, self._said_last = None, True

    def _message(self, role: str, text: Text, place: Place) -> Said:
        return Said(role, text, place, scope=self.data.scope)

    def _edit(self, statement: Edit) -> Steps:
        messages = self.dialogue.messages
        if statement.at is None:
            if not messages:
                self.fail(statement.place, "there is no message to replace")
            role = statement.role or messages[-1].role
            messages[-1] = self._message(role, statement.text, statement.place)
        else:
            message = self._message(statement.role, statement.text, statement.place)
            messages.insert(statement.at, message)
        yield from ()

    def _while(self, statement: While) -> Steps:
        for _ in range(MOST_ROUNDS):
            if not (yield from self.evaluated(statement.condition)):
                return
            if (yield from self._round(statement.body)):
                return
        self.fail(statement.place, f"the loop went round {MOST_ROUNDS} times")

    def _round(self, body: Block) -> Generator[Step, Any, bool]:
        """Runs a loop's body once; whether the loop is left."""
        try:
            yield from self.block(body)
        except Break:
            return True
        except Continue:
            pass
        return False

    def _for(self, statement: For) -> Steps:
        items = statement.items
        value: Any
        if isinstance(items, list):
            value = yield from self.given(items)
        else:
            value = yield from self.evaluated(items)
        if isinstance(value, dict):
            value = list(value.values())
        if not isinstance(value, list):
            self.fail(statement.place, f"$for needs a list, and this is {value_text(value)!r}")
        if len(value) > MOST_ROUNDS:
            self.fail(statement.place, f"$for loops over more than {MOST_ROUNDS} items")
        outer = self.data.scope
        try:
            for index, item in enumerate(tuple(value)):
                self.data.scope = {**outer, statement.value: item, statement.index: index}
                if (yield from self._round(statement.body)):
                    return
        finally:
            self.data.scope = outer

    def _match(self, statement: Match) -> Steps:
        value = yield from self.evaluated(statement.value)
        for pattern, body in statement.branches:
            if matches(pattern, value, self.known.seconds):
                yield from self.block(body)
                if not statement.all:
                    return

    def _chain(self, statement: Chain) -> Steps:
        value = yield from self.previous()
        for link in statement.links:
            args = yield from self.arguments(link.arguments)
            value = yield from self.linked(link, value, *args)
        self.keep(value)

    def previous(self) -> Steps:
        """What the statement before came to: a message's text and what was substituted in it."""
        last = self.dialogue.last
        if self.result is not None or last is None:
            return self.result
        yield from self.complete(None)
        yield from self.settle(last)
        if not last.values:
            return last.done
        first = next(iter(last.values.values()))
        return {"0": first, **last.values, "content": last.done}

    def linked(
        self, link: Link, value: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        """Calls a target of a chain with a value."""
        spread = value if isinstance(value, dict) else {} if value is None else {"content": value}
        if link.instruction or (not self.library.has(link.name) and link.name in BUILT_IN):
            return (yield from self._instructions.call(link, value, args, named))
        if self.library.has(link.name):
            return (yield from self.called_script(link, args, {**spread, **named}))
        return (yield from self.function(link.place, link.name, args, {**spread, **named}))

    def keep(self, value: Any) -> None:
        """Takes the result of a statement."""
        self.result = self.data.last = value
        self._said_last = False

    # Values

    def evaluated(self, node: Node) -> Steps:
        """The value of an expression; what it reads is substituted before."""
        yield from self.force(names_read(node))
        value = evaluate(node, self.data)
        return None if value is UNDEFINED else value

    def arguments(
        self, arguments: Sequence[Argument]
    ) -> Generator[Step, Any, tuple[list[Any], dict[str, Any]]]:
        """Arguments by place, and by name. A bare word that is no variable is a text."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        for one in arguments:
            value = yield from self.evaluated(one.node)
            if value is None and one.node.kind == "name":
                value = one.node.value if self.data.raw(one.node.value) is UNDEFINED else None
            if one.name:
                named[one.name] = value
            else:
                args.append(value)
        return args, named

    def given(self, value: Any) -> Steps:
        """What an instruction is given: `?=` is an expression, `!` a template."""
        if isinstance(value, Author):
            return (yield from self._given_text(value))
        if isinstance(value, dict):
            made = {}
            for name, one in value.items():
                made[name] = yield from self.given(one)
            return made
        if isinstance(value, list):
            items = []
            for one in value:
                items.append((yield from self.given(one)))
            return items
        return value

    def _given_text(self, text: Author) -> Steps:
        from orchestrator.flows.expressions import parse_expression
        from orchestrator.flows.ppe.texts import compile_text

        if text.startswith("?="):
            return (yield from self.evaluated(parse_expression(text[2:])))
        if text.startswith("!"):
            made = compile_text(str(text), text.place, self.script.file)
            return (yield from self.text(made))
        return str(text)

    def text(self, text: Text) -> Generator[Step, Any, str]:
        """An author's text, rendered at once, without substitutions."""
        made = ""
        for part in text.parts:
            made += yield from self.part(part, text.place)
        return made

    # Rendering

    def force(self, names: frozenset[str]) -> Steps:
        """Runs the substitutions that somebody reads."""
        names = self.data.reads(names)
        if names & ALL:
            yield from self.complete(None)
            return
        waiting = [one for one in self.dialogue.all if one.waiting & names]
        if waiting:
            yield from self.complete(waiting[-1])

    def complete(self, upto: Said | None) -> Steps:
        """Runs the substitutions that wait, in order, up to those of a message."""
        for message in self.dialogue.all:
            if message.waiting:
                yield from self.settle(message)
            if message is upto:
                return

    def settle(self, message: Said) -> Steps:
        """Renders a message; it stays as it is then."""
        if message.ready or message.busy:
            return
        message.busy = True
        scope, self.data.scope = self.data.scope, message.scope
        try:
            while not message.ready:
                yield from self._next(message)
        finally:
            message.busy = False
            self.data.scope = scope

    def _begin(self, message: Said) -> Steps:
        """Renders a message up to its first substitution."""
        text = message.text
        if text is None:
            return
        made = []
        for part in text.parts:
            rendered = yield from self.part(part, text.place)
            made.append(Part(rendered, None, {}, part.substitution))
        message.text = Text(text.place, text.when, tuple(made))

    def _next(self, message: Said) -> Steps:
        text = message.text
        if text is None:
            return
        part = text.parts[message.next]
        message.done += yield from self.part(part, text.place)
        substitution = part.substitution
        message.next += 1
        if substitution is None:
            return
        value, shown = yield from asking.substituted(self, message, substitution)
        message.done += shown
        message.values[substitution.name] = value
        message.drawn = True
        self.data.prompt[substitution.name] = value
        told = {"name": substitution.name, "value": value}
        yield Event("variable_set", substitution.place, told)

    def part(self, part: Part, place: Place) -> Generator[Step, Any, str]:
        """One part of a text, rendered."""
        if part.template is None:
            return part.source
        values = {}
        for name, inline in part.inlines.items():
            values[name] = yield from self._inline(inline)
        names = part.template.names - part.inlines.keys()
        yield from self.force(names)
        try:
            return part.template.render({**self.data.context(names), **values})
        except Mistake as mistake:
            self.fail(_further(place, mistake.line - 1), mistake.message)

    def _inline(self, inline: Inline) -> Generator[Step, Any, str]:
        if inline.kind == "regex":
            return (yield from self._searched(inline))
        link = Link(inline.place, inline.name, inline.kind == "instruction", inline.arguments)
        args, named = yield from self.arguments(inline.arguments)
        if link.instruction:
            value = yield from self._instructions.call(link, None, args, named)
        elif self.library.has(inline.name):
            value = yield from self.called_script(link, args, named)
        else:
            value = yield from self.function(inline.place, inline.name, args, named)
        return value_text(value)

    def _searched(self, inline: Inline) -> Generator[Step, Any, str]:
        yield from self.force(frozenset((inline.name,)))
        value = self.data.value(inline.name)
        if value is UNDEFINED:
            yield Event("warning", inline.place, {"text": f"{inline.name} is not defined"})
            return inline.written
        return searched(inline, value_text(value), self.known.seconds)

    # Calls

    def called_script(self, link: Link, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Runs another script, with a dialogue of its own; its result."""
        if self.level >= MOST_LEVELS:
            self.fail(link.place, f"scripts call each other more than {MOST_LEVELS} levels deep")
        yield Event(
            "tool_call", link.place, {"name": link.name, "args": list(args), "kwargs": dict(named)}
        )
        script = self.library.script(link.name)
        inner = Interpreter(script, self.library, self.known, args, named, self.level + 1)
        value = yield from inner.run()
        yield Event("tool_result", link.place, {"name": link.name, "value": value})
        return value

    def function(
        self, place: Place, name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Steps:
        """Calls a registered function; its result."""
        yield Event("tool_call", place, {"name": name, "args": list(args), "kwargs": dict(named)})
        value = yield Call(place, name, list(args), dict(named))
        yield Event("tool_result", place, {"name": name, "value": value})
        return value

    def messages(self, upto: Said | None = None) -> Generator[Step, Any, list[tuple[str, str]]]:
        """The messages that a model is sent, rendered: those before one, or all."""
        found = []
        for message in self.dialogue.all:
            if message is upto:
                break
            yield from self.settle(message)
            found.append((message.role, message.done))
        return found


def _further(place: Place, lines: int) -> Place:
    return Place(place.line + lines, 1 if lines else place.column, place.statement)
