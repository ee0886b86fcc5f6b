"""Jinja2 for templates that users write: sandboxed, and bounded in time and size.

A user's template may loop, assign and define macros, which the shipped partials may not
(`orchestrator.prompts.partials`). So here the work is counted: every item of every loop, and every
character that is put together. Values are plain data; nothing of a Python object can be reached.

A rendering knows who wrote what (`Compiled.pieces`). While it is rendered, a value is only a token,
which the template's author cannot write; the value's text is put there when all else is done. What
a value says can so never be taken for something that the author wrote, such as a role's mark.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.nodes import Impossible
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from orchestrator.errors import innermost
from orchestrator.message import AUTHOR
from orchestrator.prompts.markers import Piece

__all__ = ["VALUE", "Compiled", "Jinja", "Mistake", "Value", "named"]

VALUE = "value"
"""The origin of a text that was calculated, of more than one input or of none."""

MOST_ITEMS = 1_000_000
"""Items of all loops of one rendering together."""

MOST_CHARS = 4_000_000
"""Characters of a rendering, and of any text that it puts together on the way."""

_METHODS = {
    str: frozenset(
        (
            *("strip", "lstrip", "rstrip", "upper", "lower", "title", "capitalize", "split"),
            *("splitlines", "startswith", "endswith", "replace", "join", "count", "find"),
        )
    ),
    dict: frozenset(("items", "keys", "values", "get")),
    list: frozenset(("index", "count")),
}
_REMOVED_FILTERS = ("attr", "center", "format", "pprint", "random", "xmlattr", "wordwrap", "indent")
_LOOP = ("first", "last", "index", "index0", "revindex", "revindex0", "length", "depth", "cycle")

_OPEN, _SHUT = "\ue000", "\ue001"
"""What tokens are made of: private-use characters, which authors may not write."""


class Value(str):
    """A text of an input.

    Attributes:
        origin: The input's name.
    """

    __slots__ = ("origin",)
    origin: str


def named(value: Any, origin: str) -> Any:
    """An input's data, with its texts knowing the input's name."""
    if isinstance(value, str):
        made = Value(value)
        made.origin = origin
        return made
    if isinstance(value, Mapping):
        return {key: named(one, origin) for key, one in value.items()}
    return [named(one, origin) for one in value] if isinstance(value, list | tuple) else value


class _Put(str):
    """A text that a template put together itself: the author's, with tokens for values."""

    __slots__ = ()


@dataclass(slots=True)
class _Work:
    """What one rendering has done.

    Attributes:
        left: Items that its loops may still have.
        nonce: Tells its tokens from those of others, and from anything that a value says.
        values: The values that tokens stand for: origins and texts.
    """

    left: int
    nonce: str = field(default_factory=lambda: str(secrets.randbits(64)))
    values: list[Piece] = field(default_factory=list)

    def token(self, origin: str, text: str) -> str:
        """A token for a value."""
        self.values.append((origin, text))
        return f"{_OPEN}{self.nonce}.{len(self.values) - 1}{_SHUT}"

    def pieces(self, text: str) -> list[Piece]:
        """What a rendered text is made of."""
        found: list[Piece] = []
        for at, part in enumerate(re.split(rf"{_OPEN}{self.nonce}\.(\d+){_SHUT}", text)):
            if at % 2:
                origin, value = self.values[int(part)]
                found.append((origin, self._plain(value)))
            elif part:
                found.append((AUTHOR, part))
        return found

    def _plain(self, text: str) -> str:
        # A text that was put together and then changed by a filter is a value with tokens in it.
        if self.nonce not in text:
            return text
        return "".join([piece for _, piece in self.pieces(text)])


_work: ContextVar[_Work] = ContextVar("work")


class Mistake(Exception):
    """A template is wrong, or cannot be rendered.

    Attributes:
        message: What is wrong.
        line: The line in the template, from 1.
    """

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Jinja(ImmutableSandboxedEnvironment):
    """An environment for users' templates."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, finalize: Callable[[Any], Any] | None = None, **options: Any) -> None:
        """Makes the environment.

        Args:
            finalize: What `{{ value }}` prints.
            **options: As for Jinja2's `Environment`.
        """
        self._text = finalize or _as_text
        super().__init__(finalize=self._printed, autoescape=False, **options)
        self.globals = {name: self.globals[name] for name in ("range", "namespace", "dict")}
        for name in _REMOVED_FILTERS:
            self.filters.pop(name, None)
        self.filters["counted_"] = _counted
        self.filters["joined_"] = _joined
        self.concat = _together  # type: ignore[method-assign]

    def _printed(self, value: Any) -> str:
        """What takes the place of `{{ value }}` while the template is rendered."""
        if isinstance(value, _Put):
            return value
        work = _work.get(None)
        text = self._text(value)  # an undefined one may raise here
        if work is None:  # Jinja2 asks at compile time, to fold constants
            raise Impossible
        return work.token(value.origin if isinstance(value, Value) else VALUE, text)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Bounds().visit(super()._parse(source, name, filename))
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A member of data, or one of the few methods that data has here."""
        if isinstance(obj, LoopContext):
            return getattr(obj, attribute) if attribute in _LOOP else self.undefined(name=attribute)
        if isinstance(obj, Namespace):
            return getattr(obj, attribute, self.undefined(name=attribute))
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        for kind, methods in _METHODS.items():
            if isinstance(obj, kind) and attribute in methods:
                return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """An item of data."""
        if isinstance(obj, Undefined):
            return obj[argument]  # raises, with the name that is missing
        try:
            if isinstance(obj, Mapping | list | tuple | str):
                return obj[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(obj=obj, name=argument)

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether something may be called: macros, the globals, and data's few methods."""
        if isinstance(obj, Macro) or obj in self.globals.values():
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, LoopContext):
            return name == "cycle"
        return any(isinstance(owner, kind) and name in it for kind, it in _METHODS.items())

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic, with numbers and texts that stay small."""
        sizes = [len(it) for it in (left, right) if isinstance(it, str | list | tuple)]
        if operator == "%" and isinstance(left, str):
            raise SecurityError("texts are not formatted with '%' here; use {{ }}")
        if operator == "*" and sizes:
            raise SecurityError("texts and lists cannot be multiplied here")
        if operator == "**" and not (abs(left) < 1_000_000 and abs(right) < 64):
            raise SecurityError("the power is too large")
        if sum(sizes) > MOST_CHARS:
            raise SecurityError(f"a text has more than {MOST_CHARS} characters")
        return super().call_binop(context, operator, left, right)

    def compiled(self, source: str) -> Compiled:
        """Compiles a template.

        Raises:
            Mistake: It is wrong.
        """
        for at, letter in enumerate(source):
            if letter in (_OPEN, _SHUT):
                line = source.count("\n", 0, at) + 1
                raise Mistake(f"the character {letter!a} may not be in a template", line)
        try:
            names = find_undeclared_variables(self.parse(source))
            return Compiled(self.from_string(source), frozenset(names - self.globals.keys()))
        except TemplateSyntaxError as error:
            raise Mistake(f"the template is wrong: {error.message}", error.lineno) from None
        except RecursionError:
            raise Mistake("the template is nested too deeply") from None


class Compiled:
    """A template, compiled.

    Attributes:
        names: The names of values that it reads.
    """

    __slots__ = ("_template", "names")

    def __init__(self, template: Any, names: frozenset[str]) -> None:
        self._template = template
        self.names = names

    def render(self, values: Mapping[str, Any]) -> str:
        """Renders it.

        Raises:
            Mistake: It cannot be rendered, or does too much.
        """
        return "".join([text for _, text in self.pieces(values)])

    def pieces(self, values: Mapping[str, Any]) -> list[Piece]:
        """Renders it, as pieces: who wrote each, and its text.

        Args:
            values: Plain data by name; texts made by `named` are told by their input's name.

        Raises:
            Mistake: It cannot be rendered, or does too much.
        """
        work = _Work(MOST_ITEMS)
        token = _work.set(work)
        try:
            return work.pieces(self._template.render(values))
        except Exception as error:  # a template may raise whatever its filters do
            raise Mistake(f"the template cannot be rendered: {error}", _line_of(error)) from error
        finally:
            _work.reset(token)


def _line_of(error: BaseException) -> int:
    place = innermost(error, lambda file: file == "<template>")
    return place[1] if place is not None else 1


class _Bounds(NodeTransformer):
    """Has every loop counted, and every joining of texts bounded."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "counted_", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "joined_", [], [], None, None, lineno=node.lineno)


def _counted(items: Any) -> Any:
    if isinstance(items, Undefined):
        return items
    if not isinstance(items, Iterable):
        raise SecurityError(f"a {type(items).__name__} cannot be looped over")
    return list(_counting(items))


def _counting(items: Iterable[Any]) -> Iterator[Any]:
    work = _work.get()
    for item in items:
        work.left -= 1
        if work.left < 0:
            raise SecurityError(f"the template's loops have more than {MOST_ITEMS} items")
        yield item


def _joined(parts: list[Any]) -> str:
    return str(_together(map(str, parts)))


def _as_text(value: Any) -> str:
    return str(value)


def _together(parts: Iterable[str]) -> _Put:
    made, size = [], 0
    for part in parts:
        size += len(part)
        if size > MOST_CHARS:
            raise SecurityError(f"the text has more than {MOST_CHARS} characters")
        made.append(part)
    return _Put("".join(made))
