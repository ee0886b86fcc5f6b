"""Runs a script: a generator of steps, see `orchestrator.flows.steps`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn, assert_never

from orchestrator.flows.ppe import control_flow, dialogue, model_replies
from orchestrator.flows.ppe.built_in import BUILT_IN, ReturnReached
from orchestrator.flows.ppe.calls import Calls
from orchestrator.flows.ppe.data import describe_javascript, map_of
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
    Link,
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
from orchestrator.flows.ppe.roles import find_unknown_roles, suggest_instruction
from orchestrator.flows.ppe.scope import Data, Values
from orchestrator.flows.ppe.texts import Style, Text
from orchestrator.flows.ppe.uses import statements_in
from orchestrator.flows.steps import CallCatalog, Event, Place, Step
from orchestrator.flows.tree import Node, ScriptError
from orchestrator.flows.work import CALL
from orchestrator.prompts.mistakes import Mistake
from orchestrator.support.spelling import did_you_mean

Steps = Generator[Step, Any, Any]


class Shared:
    """What a script has in common with those that it calls."""

    def __init__(self, known: CallCatalog) -> None:
        self.calls = 0  # how many scripts were called
        self.replies: dict[str, str] = {}  # by what was asked, of calls that are memoised
        self.searches = Searches(known.seconds, known.worked)
        self.compiled: dict[
            tuple[str, Style, bool], Text
        ] = {}  # templates in instructions, by text
        self.expressions: dict[str, Node] = {}  # those in instructions, by text


class Interpreter:
    """One run of one script. A statement that fails is a `FlowError` with its place."""

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
        self.work = known.work
        self.dialogue = Dialogue()
        self.called = False  # whether a model was asked
        self.result: Any = None  # of the last statement
        self.finishing = False  # whether all statements of the whole script have run
        self._said_last = False
        # Model parameters: the front matter's, and what `$parameters` sets
        self.parameters = map_of(script.front.get("parameters"))
        # Whether what is wrong in a text leaves the text as it is written
        self.lenient = script.front.get("lenient") is True
        # What the output must be, if the script says so: its `output`, or the argument of that name
        self.schema: Mapping[str, Any] | None = None
        self.data = self._data(args, named)
        self.values = Values(self)
        self.calls = Calls(self)
        self.cast = GroupChat(self)
        self.listeners = Listeners(self)
        self.rendering = Renderer(self)

    def _data(self, args: Sequence[Any], named: Mapping[str, Any]) -> Data:
        front = self.script.front
        try:
            bound = bind_arguments(inputs_of(front.get("input")), args, named, front)
        except ScriptError as wrong:
            self.fail(Place(1), wrong.message, wrong.message_zh)
        prompt = map_of(front.get("prompt"))
        data = Data({**front, **bound}, prompt, self.work, self.script.file)
        schema = bound.get("output", front.get("output"))
        self.schema = schema if isinstance(schema, dict) else None
        if self.schema is not None and self.natural:
            data.output = describe_schema(self.schema)
        return data

    @property
    def natural(self) -> bool:
        """Whether models are told what to reply in words, and not as a JSON Schema."""
        name = "naturalOutput"
        return self.parameters.get(name, self.script.front.get(name)) is not False

    def inner(self, script: Script, args: Sequence[Any], named: Mapping[str, Any]) -> Interpreter:
        """A run of a script that this one calls."""
        level = self.level + 1
        return Interpreter(script, self.library, self.known, args, named, level, self.shared)

    def fail(self, place: Place, message: str, message_zh: str) -> NoReturn:
        """Ends the run at a statement, with a reason in English and in Chinese."""
        raise place.error(message, message_zh, self.script.file)

    # What there is

    def script_of(self, name: str) -> str:
        """The id of the script that a name means; empty when it means none."""
        id = self.library.id_of(self.script.settings.imports.get(name, name))
        is_shadowed = self.library.is_standard(id) and bool(self.known.name_of(name))
        return "" if is_shadowed else id

    def find_script(self, name: str) -> tuple[Script, bool]:
        """The script that a name means, and whether it is a standard one in place of another.

        A script that calls functions which nobody registered, such as those that it has in
        JavaScript, cannot be run; the standard one of its name can.
        """
        script = self.library.script(self.script_of(name))
        spare = self.library.find_spare(script.id)
        if spare is None or all(self._has_function(script, link) for link in script.calls):
            return script, False
        return spare, True

    def _has_function(self, script: Script, link: Link) -> bool:
        if not link.instruction or self.known.name_of(link.name):
            return True
        if link.declares:
            return False
        is_misspelt = bool(suggest_instruction(link.name, BUILT_IN))  # which is an error
        return link.name in BUILT_IN or link.name in script.settings.imports or is_misspelt

    # Running

    def run(self) -> Steps:
        """Runs it; its result."""
        start = Place(1)
        yield from self._all(self._body(start))
        messages = [{"role": it.role, "content": it.done} for it in self.dialogue.messages]
        yield from self.listeners.emit(start, "save-chats", [messages, self.script.id])
        return self.result

    def run_opening(self) -> Generator[Step, Any, list[tuple[str, str]]]:
        """Runs its statements, and no model but for its substitutions; its messages."""
        yield from self._all(self.block(self.script.body))
        yield from self.rendering.complete(None)
        return (yield from self.rendering.messages())

    def _all(self, steps: Steps) -> Steps:
        _check(self)
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
        if last is None:
            return
        asks = self.script.front.get("autoRunLLMIfPromptAvailable") is not False
        if asks and (last.role == "user" or not (self.called or last.drawn)):
            self.result = yield from model_replies.ask_all(self, last.place, {})
        elif self._said_last:
            yield from self.rendering.settle(last)
            self.result = last.result

    def block(self, block: Block) -> Steps:
        """Runs statements."""
        for statement in block:
            place = statement.place
            yield Event("statement_start", place)
            self.work.begin_statement(place.line)
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
                self.keep((yield from self.calls.statement(statement)))
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


def _check(run: Interpreter) -> None:
    """Refuses a script that names what is not there, or what its model cannot have.

    In lenient scripts, roles and tools alone are checked.
    """
    run.work.spend(CALL + len(run.script.calls))
    for link in run.script.calls:
        needed = not run.lenient or link.name in run.script.settings.tools
        if needed and not _is_there(run, link):
            _unknown(run, link)
    run.cast.check()
    for place, role, meant in find_unknown_roles(run.script, statements_in(run.script.body)):
        if meant:
            run.fail(place, f"there is no role {role!r}; {meant}", f"没有角色 {role!r}；{meant}")
    if run.lenient or run.known.biases:
        return
    for place, written in run.script.biases:
        run.fail(
            place,
            f"(({written}:...)) biases tokens, which only embedded models take: hosted ones have "
            "no such setting; leave it out, give choices ([[VAR:|a|b]]), or write "
            f"\\(\\({written}:...\\)\\) for the text",
            f"(({written}:...)) 调整词元概率，仅内嵌模型支持；请删去，或改用选项 [[VAR:|a|b]]",
        )


def _is_there(run: Interpreter, link: Link) -> bool:
    name = link.name
    if run.known.name_of(name):
        return True
    if link.declares:
        return False
    if link.instruction:
        imported = name in run.script.settings.imports and bool(run.script_of(name))
        return name in BUILT_IN or imported
    return bool(run.script_of(name)) or (name in BUILT_IN and not link.text)


def _unknown(run: Interpreter, link: Link) -> NoReturn:
    name = link.name
    if link.declares:
        run.fail(link.place, *describe_javascript(name))
    if link.instruction:
        close = suggest_instruction(name, BUILT_IN)
        run.fail(
            link.place,
            f"there is no instruction ${name}{f'; {close}' if close else ''}; register a Python "
            f"function of that name with tools={{{name!r}: function}}",
            f"没有指令 ${name}；请用 tools={{{name!r}: 函数}} 注册同名的 Python 函数",
        )
    ids = run.library.ids
    there = ", ".join(ids) or "none"
    run.fail(
        link.place,
        f"there is no script {name!r} beside this one, and no function; there is {there}"
        f"{did_you_mean(name, ids)}",
        f"同一文件夹中没有脚本 {name!r}，也没有同名函数；现有: {there}",
    )
