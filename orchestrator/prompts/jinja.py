"""Jinja2 for templates that users write: sandboxed, and bounded in time and size.

A user's template may loop, assign and define macros, which the shipped partials may not
(`orchestrator.prompts.partials`). So here the work is counted: every item of every loop, and every
character that is put together. Values are plain data; nothing of a Python object can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jinja2 import Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from orchestrator.errors import innermost

__all__ = ["Compiled", "Jinja", "Mistake"]

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

_left: ContextVar[list[int]] = ContextVar("left")


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
        super().__init__(finalize=finalize, autoescape=False, **options)
        self.globals = {name: self.globals[name] for name in ("range", "namespace", "dict")}
        for name in _REMOVED_FILTERS:
            self.filters.pop(name, None)
        self.filters["counted_"] = _counted
        self.filters["joined_"] = _joined
        self.concat = _together  # type: ignore[method-assign]

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
        token = _left.set([MOST_ITEMS])
        try:
            rendered: str = self._template.render(values)
            return rendered
        except Exception as error:  # a template may raise whatever its filters do
            raise Mistake(f"the template cannot be rendered: {error}", _line_of(error)) from error
        finally:
            _left.reset(token)


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
    left = _left.get([MOST_ITEMS])
    for item in items:
        left[0] -= 1
        if left[0] < 0:
            raise SecurityError(f"the template's loops have more than {MOST_ITEMS} items")
        yield item


def _joined(parts: list[Any]) -> str:
    return _together(map(str, parts))


def _together(parts: Iterable[str]) -> str:
    made, size = [], 0
    for part in parts:
        size += len(part)
        if size > MOST_CHARS:
            raise SecurityError(f"the text has more than {MOST_CHARS} characters")
        made.append(part)
    return "".join(made)
