"""Runs a script: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn, assert_never

from orchestrator.flows.ppe import control_flow, dialogue, model_replies
from orchestrator.flows.ppe.built_in import ReturnReached
from orchestrator.flows.ppe.calls import Calls, Instructions
from orchestrator.flows.ppe.checking import check
from orchestrator.flows.ppe.dialogue import Dialogue
from orchestrator.flows.ppe.group_chat import GroupChat
from orchestrator.flows.ppe.library import Library
from orchestrator.flows.ppe.listeners import Listeners
from orchestrator.flows.ppe.nodes import (
    Block,
    Chain,
    Edit,
    For,
    If,
    Instruction,
    Match,
    Say,
    Script,
    Separate,
    Statement,
    While,
)
from orchestrator.flows.ppe.output import bind_arguments, describe_schema, inputs_of
from orchestrator.flows.ppe.regexes import Searches
from orchestrator.flows.ppe.rendering import Renderer, shift_place
from orchestrator.flows.ppe.roles import find_unknown_roles
from orchestrator.flows.ppe.scope import Data, Values
from orchestrator.flows.ppe.uses import statements_in
from orchestrator.flows.steps import CallCatalog, Event, Place, Step
from orchestrator.flows.tree import ScriptError
from orchestrator.prompts.jinja import Mistake

Steps = Generator[Step, Any, Any]


class Shared:
    """What a script has in common with those that it calls.

    Attributes:
        calls: How many scripts were called.
        replies: Replies by what was asked, of calls that are memoised.
        searches: The time for regular expressions.
    """

    def __init__(self, known: CallCatalog) -> None:
        self.calls = 0
        self.replies: dict[str, str] = {}
        self.searches = Searches(known.seconds, known.worked)


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
        known: CallCatalog,
        args: Sequence[Any],
        named: Mapping[str, Any],
        level: int = 0,
        shared: Shared | None = None,
    ) -> None:
        self.script = script
        self.library = library
        self.known = known
        self.level = level
        self.shared = shared or Shared(known)
        self.dialogue = Dialogue()
        self.called = False
        self.result: Any = None
        self.finishing = False
        self._said_last = False
        front = script.front
        parameters = front.get("parameters")
        self.parameters = dict(parameters) if isinstance(parameters, dict) else {}
        self.lenient = front.get("lenient") is True
        self.data = self._data(args, named)
        self.values = Values(self)
        self.calls = Calls(self)
        self.cast = GroupChat(self)
        self.listeners = Listeners(self)
        self.instructions = Instructions(self)
        self.rendering = Renderer(self)

    def _data(self, args: Sequence[Any], named: Mapping[str, Any]) -> Data:
        front = self.script.front
        try:
            bound = bind_arguments(inputs_of(front.get("input")), args, named, front)
        except ScriptError as wrong:
            self.fail(Place(1), wrong.message, wrong.message_zh)
        prompt = front.get("prompt")
        data = Data({**front, **bound}, dict(prompt) if isinstance(prompt, dict) else {})
        schema = front.get("output")
        if isinstance(schema, dict) and "output" not in bound:
            natural = self.parameters.get("naturalOutput", front.get("naturalOutput"))
            data.runtime["output"] = (
                describe_schema(schema) if natural is not False else dict(schema)
            )
        return data

    def inner(self, script: Script, args: Sequence[Any], named: Mapping[str, Any]) -> Interpreter:
        """A run of a script that this one calls."""
        level = self.level + 1
        return Interpreter(script, self.library, self.known, args, named, level, self.shared)

    def fail(self, place: Place, message: str, message_zh: str) -> NoReturn:
        """Ends the run at a statement, with a reason in English and in Chinese.

        Raises:
            FlowError: Always.
        """
        raise place.error(message, message_zh, self.script.file)

    # What there is

    def script_of(self, name: str) -> str:
        """The id of the script that a name means; empty when it means none."""
        id = self.script.settings.imports.get(name, name)
        return self.library.id_of(id)

    # Running

    def run(self) -> Steps:
        """Runs it; its result.

        Raises:
            FlowError: A statement failed, with its place.
        """
        start = Place(1)
        yield from self._all(self._body(start))
        messages = [{"role": it.role, "content": it.done} for it in self.dialogue.messages]
        yield from self.listeners.emit(start, "save-chats", [messages, self.script.id])
        return self.result

    def run_opening(self) -> Generator[Step, Any, list[tuple[str, str]]]:
        """Runs its statements, and no model but for its substitutions; its messages.

        Raises:
            FlowError: As `run`.
        """
        yield from self._all(self.block(self.script.body))
        yield from self.rendering.complete(None)
        return (yield from self.rendering.messages())

    def _all(self, steps: Steps) -> Steps:
        check(self)
        for place, text in self.script.warnings:
            yield Event("warning", place, {"text": text})
        for one in find_unknown_roles(self.script, statements_in(self.script.body)):
            text = f"no model knows the role {one.role!r}, and most refuse it"
            yield Event("warning", one.place, {"text": text})
        start = Place(1)
        try:
            yield from steps
        except ReturnReached:
            return
        except (control_flow.Break, control_flow.Continue):
            self.fail(
                start, "$break and $continue belong into loops", "$break 和 $continue 须在循环中"
            )
        except RecursionError:
            self.fail(start, "scripts and blocks are nested too deeply", "脚本或块嵌套过深")
        except ScriptError as wrong:
            self.fail(start, wrong.message, wrong.message_zh)

    def _body(self, start: Place) -> Steps:
        yield from self.block(self.script.body)
        yield from self.listeners.emit(start, "ready", [True])
        yield from self._finish()
        if self.cast.roles:  # what no role has heard is rendered for the result alone
            yield from self.rendering.messages()

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
            self.result = yield from model_replies.ask_all(self, last.place, {})
        elif self._said_last:
            self.result = last.done

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
            except ScriptError as wrong:
                self.fail(place, wrong.message, wrong.message_zh)
            except Mistake as mistake:
                where = shift_place(place, mistake.line - 1)
                self.fail(where, mistake.message, f"模板错误: {mistake.message}")

    def _statement(self, statement: Statement) -> Steps:
        match statement:
            case Say():
                self._said_last, self.result = True, None
                yield from dialogue.add_message(self, statement)
            case Separate():
                yield from dialogue.start_dialogue(self, statement)
            case Instruction():
                yield from self.instructions.run(statement)
            case If():
                yield from control_flow.run_if(self, statement)
            case While():
                yield from control_flow.run_while(self, statement)
            case For():
                yield from control_flow.run_for(self, statement)
            case Match():
                yield from control_flow.run_match(self, statement)
            case Chain():
                yield from control_flow.run_chain(self, statement)
            case Edit():
                dialogue.edit_message(self, statement)
            case _:
                assert_never(statement)

    # Results

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

    def keep(self, value: Any) -> None:
        """Takes the result of a statement."""
        self.result = self.data.last = value
        self._said_last = False
