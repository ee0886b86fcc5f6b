"""The data of a running script, and the values of its expressions.

Names are looked up in the arguments of `$AI`, then in loops, then in `prompt`, then in the rest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED, evaluate_or_none, path_value
from orchestrator.flows.expressions import parse_expression
from orchestrator.flows.ppe.data import Author, author_texts
from orchestrator.flows.ppe.texts import Text, compile_text
from orchestrator.flows.steps import Place, Step
from orchestrator.flows.tree import Argument, Node, ScriptError, parts_of
from orchestrator.prompts.jinja import Mistake

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

ALL = frozenset(("this", "prompt"))
"""Names of everything; who reads them reads every variable."""

_DEEPEST = 10


class Data:
    """Values by name."""

    def __init__(self, runtime: dict[str, Any], prompt: dict[str, Any]) -> None:
        self.runtime = runtime  # arguments over front matter, and what `$set` sets
        self.prompt = prompt  # the prompt object, with what models said
        self.scope: Mapping[str, Any] = {}  # variables of the loops that are running
        self.arguments: Mapping[str, Any] = {}  # of the `$AI` that is being called
        self.last: Any = None  # the result before (`LatestResult`)

    def whole(self) -> dict[str, Any]:
        """Every name and its value, rendered."""
        names = {**self.runtime, **self.prompt, **self.scope, **self.arguments}
        return {name: self.value(name) for name in names if name not in _NOT_DATA}

    def raw(self, name: str) -> Any:
        """The stored value of a name, or `UNDEFINED`."""
        for values in (self.arguments, self.scope, self.prompt, self.runtime):
            if name in values:
                return values[name]
        return UNDEFINED

    def value(self, name: str) -> Any:
        """The value of a name: the author's templates in it are rendered."""
        if name == "LatestResult":
            return self.last
        if name == "this":
            return {one: it for one, it in self.whole().items() if one != "this"}
        if name == "prompt":
            return self.render(self.prompt)
        return self.render(self.raw(name))

    def render(self, value: Any, depth: int = 0) -> Any:
        """A value with the author's templates in it rendered; other texts are final."""
        if isinstance(value, Author):
            return self._text(value, depth)
        if isinstance(value, dict):
            return {str(key): self.render(one, depth) for key, one in value.items()}
        return [self.render(one, depth) for one in value] if isinstance(value, list) else value

    def _text(self, text: Author, depth: int) -> str:
        if not any(mark in text for mark in ("{{", "{%")):
            return str(text)
        if depth > _DEEPEST:
            raise ScriptError(
                "the values of the front matter name each other without end",
                "front matter 的值循环引用",
            )
        made = ""
        compiled = _compile(str(text), text.place)
        if compiled.biases:
            return str(text)
        for part in compiled.parts:
            if part.template is None or part.inlines or part.substitution:
                return str(text)
            values = {
                name: self.render(self.raw(name), depth + 1)
                for name in part.template.names
                if self.raw(name) is not UNDEFINED
            }
            try:
                made += part.template.render(values)
            except Mistake as mistake:
                raise ScriptError(mistake.message, f"模板错误: {mistake.message}") from None
        return made

    def context(self, names: frozenset[str]) -> dict[str, Any]:
        """The values that a template reads; what is undefined is absent."""
        found = {name: self.value(name) for name in names}
        return {name: value for name, value in found.items() if value is not UNDEFINED}

    def reads(self, names: frozenset[str]) -> frozenset[str]:
        """The names that reading these names reads, through the author's templates."""
        known, left = set(names), list(names)
        while left:
            for name in _names_in(self.raw(left.pop())):
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
def _compile(text: str, place: Place) -> Text:
    return compile_text(text, place, None)


def _names_in(value: Any) -> Iterator[str]:
    """The names that the author's templates in a value read."""
    for text in author_texts(value):
        for part in _compile(str(text), text.place).parts if "{" in text else ():
            if part.template is not None:
                yield from part.template.names


def find_read_names(node: Node) -> frozenset[str]:
    """The names that an expression reads; members of `this` and `prompt` are names, too."""
    if node.kind == "member" and node.parts[0].kind == "name" and node.parts[0].value in ALL:
        return frozenset((node.value,))
    found = {node.value} if node.kind == "name" else set()
    for part in parts_of(node):
        found |= find_read_names(part)
    return frozenset(found)


Steps = Generator[Step, Any, Any]


class Values:
    """Values in one run of one script."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run

    def evaluate_node(self, node: Node) -> Steps:
        """The value of an expression; what it reads is substituted before."""
        yield from self._run.rendering.force(find_read_names(node))
        return evaluate_or_none(node, self._run.data)

    def arguments(
        self, arguments: Sequence[Argument]
    ) -> Generator[Step, Any, tuple[list[Any], dict[str, Any]]]:
        """Arguments by place, and by name. A bare word that is no variable is a text."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        for one in arguments:
            value = yield from self.evaluate_node(one.node)
            if value is None and one.node.kind == "name":
                undefined = self._run.data.raw(one.node.value) is UNDEFINED
                value = one.node.value if undefined else None
            if one.name:
                named[one.name] = value
            else:
                args.append(value)
        return args, named

    def evaluate_data(self, value: Any) -> Steps:
        """The value of an instruction: `?=` is an expression, `!` a template."""
        if isinstance(value, Author):
            return (yield from self._text(value))
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
        if text.startswith("?="):
            return (yield from self.evaluate_node(parse_expression(text[2:])))
        if text.startswith("!"):
            made = compile_text(str(text), text.place, self._run.script.file)
            return (yield from self._run.rendering.text(made))
        return str(text)
