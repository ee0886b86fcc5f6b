"""Runs a script: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, assert_never

from orchestrator.errors import FlowError
from orchestrator.flows.evaluation import UNDEFINED, evaluate
from orchestrator.flows.expressions import Argument, Node, Wrong, parse_expression
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
from orchestrator.flows.ppe.rendering import Rendering, further
from orchestrator.flows.ppe.scope import Data, names_read
from orchestrator.flows.ppe.texts import Text, compile_text, value_text
from orchestrator.flows.steps import Call, Event, Known, Place, Step
from orchestrator.prompts.jinja import Mistake

__all__ = ["Break", "Continue", "Interpreter", "Returned"]

MOST_ROUNDS = 10_000
MOST_LEVELS = 20
MOST_CALLS = 10_000

Steps = Generator[Step, Any, Any]


class Returned(Exception):
    """`$ret` was reached."""


class Break(Exception):
    """`$break` was reached."""


class Continue(Exception):
    """`$continue` was reached."""


@dataclass(slots=True)
class Shared:
    """What a script has in common with those that it calls.

    Attributes:
        calls: How many scripts were called.
        replies: Replies by what was asked, of calls that are memoised.
    """

    calls: int = 0
    replies: dict[str, str] = field(default_factory=dict)


class Interpreter:
    """One run of one script.

    Attributes:
        script: The script.
        data: Its data.
        dialogue: Its messages.
        parameters: Model parameters: the front matter's, and what `$parameters` sets.
        lenient: Whether what is wrong in a text leaves the text as it is written.
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
        shared: Shared | None = None,
    ) -> None:
        self.script = script
        self.library = library
        self.known = known
        self.level = level
        self.shared = shared or Shared()
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
            natural = front.get("naturalOutput") is not False
            self.data.runtime["output"] = words(schema) if natural else dict(schema)
        parameters = front.get("parameters")
        self.parameters = dict(parameters) if isinstance(parameters, dict) else {}
        self.lenient = front.get("lenient") is True
        self.instructions = Instructions(self)
        self.rendering = Rendering(self)

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
        if not self.lenient:
            self.check()
        for place, text in self.script.warnings:
            yield Event("warning", place, {"text": text})
        try:
            yield from self.block(self.script.body)
        except Returned:
            return self.result
        except (Break, Continue):
            self.fail(Place(1), "$break and $continue belong into loops")
        except RecursionError:
            self.fail(Place(1), "scripts and blocks are nested too deeply")
        try:
            yield from self._finish()
        except Wrong as wrong:
            self.fail(Place(1), wrong.message)
        return self.result

    def _finish(self) -> Steps:
        self.finishing = self.level == 0
        yield from self.rendering.complete(None)
        last = self.dialogue.last
        if last is None or self.script.front.get("autoRunLLMIfPromptAvailable") is False:
            if last is not None and self._said_last:
                yield from self.rendering.settle(last)
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
                self.fail(further(place, mistake.line - 1), mistake.message)

    def _statement(self, statement: Statement) -> Steps:
        match statement:
            case Say():
                yield from self._say(statement)
            case Separate():
                yield from self.rendering.complete(None)
                self.dialogue.separate()
            case Instruction():
                yield from self.instructions.run(statement)
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
            yield from self.rendering.begin(message)
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
        yield from self.rendering.complete(None)
        yield from self.rendering.settle(last)
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
            return (yield from self.instructions.call(link, value, args, named))
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
        yield from self.rendering.force(names_read(node))
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
        if text.startswith("?="):
            return (yield from self.evaluated(parse_expression(text[2:])))
        if text.startswith("!"):
            made = compile_text(str(text), text.place, self.script.file)
            return (yield from self.rendering.text(made))
        return str(text)

    # Calls

    def called_script(self, link: Link, args: Sequence[Any], named: Mapping[str, Any]) -> Steps:
        """Runs another script, with a dialogue of its own; its result."""
        if self.level >= MOST_LEVELS:
            self.fail(link.place, f"scripts call each other more than {MOST_LEVELS} levels deep")
        yield Event(
            "tool_call", link.place, {"name": link.name, "args": list(args), "kwargs": dict(named)}
        )
        script = self.library.script(link.name)
        self.shared.calls += 1
        if self.shared.calls > MOST_CALLS:
            self.fail(link.place, f"scripts call each other more than {MOST_CALLS} times")
        inner = Interpreter(
            script, self.library, self.known, args, named, self.level + 1, self.shared
        )
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
