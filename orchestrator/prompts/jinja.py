"""Jinja2 for templates that users write: sandboxed, and bounded in time and size.

A user's template may loop, assign and define macros, which the shipped partials may not
(`orchestrator.prompts.partials`). So here its work is counted (`orchestrator.prompts.jinja_work`).
Values are plain data; nothing of a Python object can be reached.

A rendering knows who wrote what (`Compiled.pieces`). The author's are only the texts between the
tags, which are marked when the template is compiled; whatever else comes to the output is a
value's. So what a value says can never be taken for something that the author wrote, such as a
role's mark: nothing is looked for in a text to tell who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from jinja2 import Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from orchestrator.errors import innermost
from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_work import (
    MOST_CHARS,
    MOST_ITEMS,
    Work,
    begun,
    bounded_filters,
    bounded_tests,
    method_called,
    working,
)
from orchestrator.prompts.markers import Piece

__all__ = ["MOST_CHARS", "MOST_ITEMS", "VALUE", "Compiled", "Jinja", "Mistake", "Value", "named"]

VALUE = "value"
"""The origin of a text that was calculated, of more than one input or of none."""

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
_LOOP = frozenset(
    (
        *("first", "last", "index", "index0", "revindex", "revindex0", "length", "depth", "depth0"),
        *("cycle", "changed", "previtem", "nextitem"),
    )
)
_MOST_BITS = 4096
_MACRO = 100  # what a call of one counts

# Filters that only a compiled tree can name: no identifier has such a sign.
_AUTHORS, _COUNTED, _JOINED, _MEASURED = "authors!", "counted!", "joined!", "measured!"


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
    """A text on its way to the output. Whatever is made of it otherwise is a plain text.

    Attributes:
        pieces: Who wrote what of it.
    """

    __slots__ = ("pieces",)
    pieces: list[Piece]

    def __str__(self) -> str:
        # Jinja2's compiled code has str() around all that is printed.
        return self


def _put(text: str, pieces: list[Piece]) -> _Put:
    made = _Put(text)
    made.pieces = pieces
    return made


def _together(parts: Iterable[Any]) -> _Put:
    """What a template, a macro or a block puts out."""
    texts: list[str] = []
    pieces: list[Piece] = []
    size = 0
    for part in parts:
        size += len(part)
        if size > MOST_CHARS:
            raise SecurityError(f"the text has more than {MOST_CHARS} characters")
        texts.append(part)
        pieces += part.pieces if isinstance(part, _Put) else [(VALUE, str(part))]
    return _put("".join(texts), pieces)


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
        self._text = finalize or str
        super().__init__(finalize=self._printed, autoescape=False, **options)
        self.globals = {name: self.globals[name] for name in ("range", "namespace", "dict")}
        self.filters = cast(Any, bounded_filters(self.filters))
        self.filters[_AUTHORS] = _authors
        self.filters[_COUNTED] = _counted
        self.filters[_JOINED] = _joined
        self.filters[_MEASURED] = _measured
        self.tests = cast(Any, bounded_tests(cast(Any, self.tests)))
        self.concat = _together  # type: ignore[method-assign]

    def _printed(self, value: Any) -> _Put:
        """What takes the place of `{{ value }}`."""
        if isinstance(value, _Put):
            return value
        if isinstance(value, Iterator):
            raise SecurityError("a filter's items are printed one by one, or with |list or |join")
        working().measure(value)
        text = str(self._text(value))  # an undefined one may raise here
        return _put(text, [(value.origin if isinstance(value, Value) else VALUE, text)])

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Bounds().visit(super()._parse(source, name, filename))
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A member of data, or one of the few methods that data has here."""
        if isinstance(obj, LoopContext):
            return getattr(obj, attribute) if attribute in _LOOP else self.undefined(name=attribute)
        if isinstance(obj, Namespace):
            made = self.undefined(name=attribute)
            return made if attribute.startswith("_") else getattr(obj, attribute, made)
        if isinstance(obj, tuple) and attribute in getattr(obj, "_fields", ()):  # of groupby
            return getattr(obj, attribute)
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
                if isinstance(argument, tuple):
                    working().measure(argument)
                return obj[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(obj=obj, name=argument)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls macros, the globals, and data's few methods."""
        work = working()
        if isinstance(__obj, Macro):
            work.spend(_MACRO)
            return __context.call(__obj, *args, **kwargs)
        for one in ("_loop_vars", "_block_vars"):  # Jinja2's own
            kwargs.pop(one, None)
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        for one in (*args, *kwargs.values()):
            work.measure(one)
        if isinstance(owner, LoopContext) and name in ("cycle", "changed"):
            return __obj(*args, **kwargs)
        if any(__obj is one for one in __self.globals.values()):
            return __obj(*args, **kwargs)
        if any(isinstance(owner, kind) and name in it for kind, it in _METHODS.items()):
            return method_called(work, owner, __obj, args, kwargs)
        if isinstance(__obj, Undefined):
            __obj()  # raises, with the name that is missing
        raise SecurityError(f"a {type(__obj).__name__} cannot be called here")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic, with numbers and texts that stay small."""
        sizes = [len(it) for it in (left, right) if isinstance(it, str | list | tuple)]
        if operator == "%" and isinstance(left, str):
            raise SecurityError("texts are not formatted with '%' here; use {{ }}")
        if operator == "*" and sizes:
            raise SecurityError("texts and lists cannot be multiplied here")
        if operator == "*" and _bits(left) + _bits(right) > _MOST_BITS:
            raise SecurityError("the number is too large")
        if operator == "**" and not (abs(left) < 1_000_000 and abs(right) < 64):
            raise SecurityError("the power is too large")
        if sum(sizes) > MOST_CHARS:
            raise SecurityError(f"a text has more than {MOST_CHARS} characters")
        working().spend(sum(sizes))
        return super().call_binop(context, operator, left, right)

    def compiled(self, source: str) -> Compiled:
        """Compiles a template.

        Raises:
            Mistake: It is wrong.
        """
        try:
            tree = self.parse(source)
            names = frozenset(find_undeclared_variables(tree) - self.globals.keys())
            code = self.compile(tree)
            template = self.template_class.from_code(self, code, self.make_globals(None), None)
        except TemplateSyntaxError as error:
            raise Mistake(f"the template is wrong: {error.message}", error.lineno) from None
        except RecursionError:
            raise Mistake("the template is nested too deeply") from None
        except (SyntaxError, ValueError, ArithmeticError, AssertionError, MemoryError) as error:
            # Python's own parser, of too many blocks; a number; a filter of a set block.
            raise Mistake(f"the template is wrong: {error}") from None
        return Compiled(template, names)


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


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
        try:
            with begun(Work()):
                return _merged(self._template.render(values).pieces)
        except (TemplateError, TypeError, ArithmeticError) as error:
            raise Mistake(f"the template cannot be rendered: {error}", _line_of(error)) from error
        except Exception as error:  # whatever filters raise, with words that may be a value's
            what = type(error).__name__
            raise Mistake(f"the template cannot be rendered: {what}", _line_of(error)) from error


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Pieces without empty ones, and with the author's neighbouring ones joined."""
    found: list[tuple[str, list[str]]] = []
    for origin, text in pieces:
        if not text:
            continue
        if found and origin == AUTHOR == found[-1][0]:
            found[-1][1].append(text)
        else:
            found.append((origin, [text]))
    return [(origin, "".join(texts)) for origin, texts in found]


def _line_of(error: BaseException) -> int:
    place = innermost(error, lambda file: file == "<template>")
    return place[1] if place is not None else 1


class _Bounds(NodeTransformer):
    """Marks the author's texts, and has everything measured that takes time by a value's size."""

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        node.nodes = [
            _filtered(nodes.Const(one.data, lineno=one.lineno), _AUTHORS)
            if isinstance(one, nodes.TemplateData)
            else one
            for one in node.nodes
        ]
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _COUNTED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), _JOINED)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = _filtered(node.expr, _MEASURED)
        for operand in node.ops:
            operand.expr = _filtered(operand.expr, _MEASURED)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = _filtered(node.key, _MEASURED)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, _MEASURED) if isinstance(node.arg, nodes.Slice) else node


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None, lineno=node.lineno)


def _authors(text: str) -> _Put:
    working()  # not while Jinja2 compiles: it would fold the mark away
    return _put(text, [(AUTHOR, text)])


def _counted(items: Any) -> Any:
    if isinstance(items, Undefined):
        return items
    if not isinstance(items, Iterable):
        raise SecurityError(f"a {type(items).__name__} cannot be looped over")
    return list(working().counted(items))


def _joined(parts: list[Any]) -> str:
    work = working()
    for part in parts:
        work.measure(part)
    return str.__str__("".join(map(str, parts)))


def _measured(value: Any) -> Any:
    working().measure(value)
    return value
