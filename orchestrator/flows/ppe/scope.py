"""The data of a running script, and the values of its expressions.

Names are looked up in the arguments of `$AI`, then in loops, then in `prompt`, then in the rest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED, evaluate_or_none, path_value
from orchestrator.flows.expressions import parse_expression
from orchestrator.flows.ppe.data import Author, author_texts
from orchestrator.flows.ppe.texts import Style, Text, compile_text
from orchestrator.flows.steps import Place, Step
from orchestrator.flows.tree import Argument, Node, ScriptError, parts_of
from orchestrator.flows.work import CALL, COMPILING, ScriptWork
from orchestrator.prompts.jinja import Mistake

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

ALL = frozenset(("this", "prompt"))
"""Names of everything; who reads them reads every variable."""

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
        self, runtime: dict[str, Any], prompt: dict[str, Any], work: ScriptWork | None = None
    ) -> None:
        self.work = work or ScriptWork()
        self._stored: dict[str, _Stored] = {}
        self.runtime = runtime  # arguments over front matter, and what `$set` sets
        self.prompt = prompt  # the prompt object, with what models said
        self.scope: Mapping[str, Any] = {}  # variables of the loops that are running
        self.arguments: Mapping[str, Any] = {}  # of the `$AI` that is being called
        self.last: Any = None  # the result before (`LatestResult`)

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
                known = _Stored(raw, frozenset(_names_in(texts)), UNDEFINED)
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
        compiled = _compile(str(text), text.place)
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
def _compile(text: str, place: Place) -> Text:
    return compile_text(text, place, None)


def _names_in(texts: Iterable[Author]) -> Iterator[str]:
    """The names that the author's templates read."""
    for text in texts:
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
        if text.startswith("?="):
            known = self._run.shared.expressions
            if text not in known:
                known[text] = parse_expression(text[2:])
            return (yield from self.evaluate_node(known[text]))
        if text.startswith("!"):
            return (yield from self._run.rendering.text(self.compile(text, text.place)))
        self._run.work.copy(text)
        return str(text)

    def compile(self, text: str, place: Place, style: Style | None = None) -> Text:
        """A template of an instruction, which may be in a loop: it is compiled once."""
        known = self._run.shared.compiled
        key = (str(text), style or Style())
        if key not in known:
            self._run.work.spend(COMPILING + len(text))
            known[key] = compile_text(str(text), place, self._run.script.file, style)
        return known[key]
