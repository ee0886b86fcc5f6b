"""The data of a running script, and the values of its expressions.

Names are looked up in the arguments of `$AI`, then in loops, then in `prompt`, then in the rest.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED, evaluate, evaluate_or_none, path_value
from orchestrator.flows.expressions import parse_expression, unwrap_templates
from orchestrator.flows.ppe.data import Author, author_texts
from orchestrator.flows.ppe.nodes import Link
from orchestrator.flows.ppe.texts import Style, Text, compile_text, has_tags, is_rendered
from orchestrator.flows.steps import Place, Step
from orchestrator.flows.tree import (
    MEMBERS,
    Argument,
    Node,
    ScriptError,
    find_called_name,
    parts_of,
)
from orchestrator.flows.work import CALL, COMPILING, ScriptWork
from orchestrator.prompts.mistakes import Mistake

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

ALL = frozenset(("this", "prompt"))
"""Names of everything; who reads them reads every variable."""

FOLDER = "__dirname"
"""The name of the script's folder."""

_DEEPEST = 10


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is known of a stored value, for as long as its name has the same one."""

    raw: Any
    names: frozenset[str]  # that the author's templates in it read
    value: Any  # what it is for whoever reads it; `UNDEFINED` where it has templates


_NOTHING = _Stored(None, frozenset(), None)


class Data:
    """Values by name.

    They are shared, and never changed: a list that is read in each round of a loop is not copied.
    """

    def __init__(
        self,
        runtime: dict[str, Any],
        prompt: dict[str, Any],
        work: ScriptWork | None = None,
        file: str | None = None,
    ) -> None:
        self.work = work or ScriptWork()
        self._stored: dict[str, _Stored] = {}
        self.runtime = runtime  # arguments over front matter, and what `$set` sets
        self.prompt = prompt  # the prompt object, with what models said
        self.scope: Mapping[str, Any] = {}  # variables of the loops that are running
        self.arguments: Mapping[str, Any] = {}  # of the `$AI` that is being called
        self.last: Any = None  # the result before (`LatestResult`)
        self.file = file  # the script's file, if it has one
        self.output = ""  # what templates print for `output`; empty for the value itself

    def whole(self) -> dict[str, Any]:
        """Every name and its value, rendered."""
        names = {**self.runtime, **self.prompt, **self.scope, **self.arguments}
        self.work.copy(names)
        return {name: self.value(name) for name in names if name not in _NOT_DATA}

    def raw(self, name: str) -> Any:
        """The stored value of a name, or `UNDEFINED`."""
        for values in (self.arguments, self.scope, self.prompt, self.runtime):
            if name in values:
                return values[name]
        if name == FOLDER and self.file is not None:
            return f"{Path(self.file).parent}/"
        return UNDEFINED

    def value(self, name: str) -> Any:
        """The value of a name: the author's templates in it are rendered."""
        if name == "LatestResult":
            return self.last
        if name == "this":
            return {one: it for one, it in self.whole().items() if one != "this"}
        if name == "prompt":
            self.work.copy(self.prompt)
            return {one: self._read(f"prompt.{one}", it, 0) for one, it in self.prompt.items()}
        return self._read(name, self.raw(name), 0)

    def _read(self, key: str, raw: Any, depth: int) -> Any:
        """A stored value with the author's templates in it rendered."""
        if not isinstance(raw, dict | list | Author):
            return raw
        value = self._look_into(key, raw).value
        return self.render(raw, depth) if value is UNDEFINED else value

    def _look_into(self, key: str, raw: Any) -> _Stored:
        if not isinstance(raw, dict | list | Author):
            return _NOTHING
        known = self._stored.get(key)
        if known is None or known.raw is not raw:
            self.work.measure(raw)
            texts = list(author_texts(raw))
            if any("{{" in one or "{%" in one for one in texts):
                known = _Stored(raw, frozenset(_names_in(texts, self.file)), UNDEFINED)
            else:
                known = _Stored(raw, frozenset(), self.render(raw, 0) if texts else raw)
            self._stored[key] = known
        return known

    def render(self, value: Any, depth: int = 0) -> Any:
        """A value with the author's templates in it rendered; other texts are final."""
        if isinstance(value, Author):
            return self._text(value, depth)
        self.work.copy(value)
        if isinstance(value, dict):
            return {str(key): self.render(one, depth) for key, one in value.items()}
        return [self.render(one, depth) for one in value] if isinstance(value, list) else value

    def _text(self, text: Author, depth: int) -> str:
        if not any(mark in text for mark in ("{{", "{%")):
            return str(text)
        self.work.spend(CALL)
        if depth > _DEEPEST:
            raise ScriptError(
                "the values of the front matter name each other without end",
                "front matter 的值循环引用",
            )
        made = ""
        compiled = _compile(str(text), text.place, self.file)
        if compiled.biases:
            return str(text)
        for part in compiled.parts:
            if part.template is None or part.inlines or part.substitution:
                return str(text)
            values = {
                name: self._read(name, self.raw(name), depth + 1)
                for name in part.template.names
                if self.raw(name) is not UNDEFINED
            }
            try:
                with self.work.rendering() as work:
                    made += part.template.render(values, work)
            except Mistake as mistake:
                raise ScriptError(mistake.message, f"模板错误: {mistake.message}") from None
        return made

    def context(self, names: frozenset[str]) -> dict[str, Any]:
        """The values that a template reads; what is undefined is absent."""
        found = {name: self.value(name) for name in names}
        if "output" in found and self.output:
            found["output"] = self.output
        return {name: value for name, value in found.items() if value is not UNDEFINED}

    def reads(self, names: frozenset[str]) -> frozenset[str]:
        """The names that reading these names reads, through the author's templates."""
        known, left = set(names), list(names)
        while left:
            key = left.pop()
            for name in self._look_into(key, self.raw(key)).names:
                if name not in known:
                    known.add(name)
                    left.append(name)
        return frozenset(known)

    # The scope of expressions (`orchestrator.flows.evaluation.Scope`).

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path."""
        return path_value(self.value(str(steps[0])), steps[1:])

    def text(self, text: str) -> str:
        """A quoted text."""
        return text

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Refuses it: expressions have no calls."""
        raise ScriptError(f"{name!r} cannot be called in an expression", f"表达式中不能调用 {name}")


_NOT_DATA = ("messages",)


@lru_cache(maxsize=1000)
def _compile(text: str, place: Place, file: str | None) -> Text:
    return compile_text(text, place, file)


def _names_in(texts: Iterable[Author], file: str | None) -> Iterator[str]:
    """The names that the author's templates read."""
    for text in texts:
        for part in _compile(str(text), text.place, file).parts if "{" in text else ():
            if part.template is not None:
                yield from part.template.names


def find_read_names(node: Node) -> frozenset[str]:
    """The names that an expression reads; members of `this` and `prompt` are names, too."""
    if node.kind in MEMBERS and node.parts[0].kind == "name" and node.parts[0].value in ALL:
        return frozenset((node.value,))
    found = {node.value} if node.kind == "name" else set()
    parts = parts_of(node)
    if find_called_name(node):  # what is called is no variable
        parts = (one.node for one in node.value)
    for part in parts:
        found |= find_read_names(part)
    return frozenset(found - set(node.value) if node.kind == "function" else found)


Steps = Generator[Step, Any, Any]


_BARE_TEXT = re.compile(r"[\w./:@~+-]+")
_LAZY = ("either", "both", "otherwise", "chosen")


def has_steps(node: Node, *, templates: bool) -> bool:
    """Whether an expression calls something, or has templates to render, before its value."""
    if find_called_name(node) or (templates and node.kind == "text" and has_tags(node.value)):
        return True
    return any(has_steps(part, templates=templates) for part in parts_of(node))


class Values:
    """Values in one run of one script."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run
        self.place = Place(1)  # of the statement, or the text, that is evaluated

    def evaluate_node(self, node: Node, *, templates: bool = False) -> Steps:
        """The value of an expression; what it reads is substituted, and what it calls called.

        Args:
            node: The expression.
            templates: Whether quoted texts in it may have templates.
        """
        yield from self._run.rendering.force(find_read_names(node))
        if has_steps(node, templates=templates):
            node = yield from self._resolve(node, templates)
        return evaluate_or_none(node, self._run.data)

    def _resolve(self, node: Node, templates: bool) -> Generator[Step, Any, Node]:
        """An expression with the values of its calls and templates in their places."""
        if find_called_name(node):
            return Node("value", (yield from self._call(node)), offset=node.offset)
        if node.kind == "text":
            if not templates or not has_tags(node.value):
                return node
            return Node("value", (yield from self._render_quoted(node.value)), offset=node.offset)
        if node.kind in _LAZY:
            return (yield from self._resolve_lazily(node, templates))
        if node.kind == "function":  # its body is evaluated once for each item, without calls
            return node
        parts: list[Any] = []
        for part in node.parts:
            if isinstance(part, tuple):
                key = yield from self._resolve(part[0], templates)
                parts.append((key, (yield from self._resolve(part[1], templates))))
            else:
                parts.append((yield from self._resolve(part, templates)))
        value = node.value
        if node.kind == "called":
            value = []
            for one in node.value:
                value.append(Argument(one.name, (yield from self._resolve(one.node, templates))))
        return Node(node.kind, value, tuple(parts), node.offset)

    def _resolve_lazily(self, node: Node, templates: bool) -> Generator[Step, Any, Node]:
        """The part of `a and b`, `a or b`, `a ?? b` or `a ? b : c` that counts; only that runs."""
        first = yield from self._resolve(node.parts[0], templates)
        value = evaluate(first, self._run.data)
        if node.kind == "chosen":
            return (yield from self._resolve(node.parts[1 if value else 2], templates))
        is_last = {
            "both": bool(value),
            "either": not value,
            "otherwise": value is None or value is UNDEFINED,
        }[node.kind]
        if is_last:
            return (yield from self._resolve(node.parts[1], templates))
        return Node("value", value, offset=node.offset)

    def _call(self, node: Node) -> Steps:
        """`[[@script()]]`, `$function()` or `this.$function()` of an expression."""
        run, name = self._run, find_called_name(node)
        link = Link(self.place, name.removeprefix("$"), name.startswith("$"), node.value)
        alone = [one.node for one in node.value]
        if len(alone) == 1 and alone[0].kind == "mapping" and not node.value[0].name:
            # As JavaScript passes arguments by name; only where the author wrote the map.
            return (yield from run.calls.call(link, (), (yield from self.evaluate_node(alone[0]))))
        args, named = yield from self.arguments(node.value, link)
        return (yield from run.calls.call(link, args, named))

    def _render_quoted(self, text: str) -> Steps:
        """A quoted text of an argument; the author's templates and calls in it are carried out."""
        compiled = self.compile(text, self.place, signs=False)
        return (yield from self._run.rendering.value(compiled))

    def arguments(
        self, arguments: Sequence[Argument], link: Link | None = None
    ) -> Generator[Step, Any, tuple[list[Any], dict[str, Any]]]:
        """Arguments by place, and by name. A word, or a path, that is no variable is a text.

        A bare variable that has the name of an input of the script that is called is that input:
        `trans(lang)` is `trans(lang=lang)`.
        """
        args: list[Any] = []
        named: dict[str, Any] = {}
        inputs = self._run.calls.find_inputs(link) if link is not None else frozenset[str]()
        for one in arguments:
            name = one.name
            if (yield from self._is_bare(one)):
                value: Any = one.written
            else:
                value = yield from self.evaluate_node(one.node, templates=True)
                if not name and one.node.kind == "name" and one.node.value in inputs:
                    name = one.node.value
            if name:
                named[name] = value
            else:
                args.append(value)
        return args, named

    def _is_bare(self, argument: Argument) -> Generator[Step, Any, bool]:
        """Whether an argument is a text without quotes, such as a file's name: it names nothing."""
        names = find_read_names(argument.node) - ALL
        if not names or not _BARE_TEXT.fullmatch(argument.written):
            return False
        yield from self._run.rendering.force(names)  # a hole that is not filled yet is a variable
        return all(self._run.data.raw(name) is UNDEFINED for name in names)

    def evaluate_data(self, value: Any) -> Steps:
        """The value of an instruction: what the author's texts in it come to."""
        if isinstance(value, Author):
            return (yield from self._text(value))
        self._run.work.copy(value)
        if isinstance(value, dict):
            made = {}
            for name, one in value.items():
                made[name] = yield from self.evaluate_data(one)
            return made
        if isinstance(value, list):
            items = []
            for one in value:
                items.append((yield from self.evaluate_data(one)))
            return items
        return value

    def _text(self, text: Author) -> Steps:
        """A text of an instruction: `?=` is an expression, `~` stays, the rest is rendered now."""
        if text.startswith("?="):
            known = self._run.shared.expressions
            if text not in known:
                known[text] = parse_expression(unwrap_templates(text[2:]))
            self.place = text.place
            try:
                return (yield from self.evaluate_node(known[text]))
            except ScriptError as wrong:
                self._run.fail(text.place, wrong.message, wrong.message_zh)
        if not is_rendered(text):
            self._run.work.copy(text)
            return str(text)
        self.place = text.place
        return (yield from self._run.rendering.value(self.compile(text, text.place)))

    def compile(
        self, text: str, place: Place, style: Style | None = None, *, signs: bool = True
    ) -> Text:
        """A template of an instruction, which may be in a loop: it is compiled once."""
        run, known = self._run, self._run.shared.compiled
        style = style or run.script.style
        key = (str(text), style, signs)
        if key not in known:
            run.work.spend(COMPILING + len(text))
            known[key] = compile_text(
                str(text), place, run.script.file, style, holes=False, signs=signs
            )
        return known[key]
