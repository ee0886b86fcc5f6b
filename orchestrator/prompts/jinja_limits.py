"""Counts the work of a Jinja2 template, in its tree and in its filters, tests and methods.

The cost of a loop's item or of a macro's call is known from the template: it is the sum of the
steps inside. So a loop ends after the same amount of work, however much stands in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, cast

from jinja2 import Undefined, nodes
from jinja2.filters import do_batch, do_indent, do_round, make_attrgetter
from jinja2.nodes import Impossible
from jinja2.utils import htmlsafe_json_dumps, pass_environment
from jinja2.visitor import NodeTransformer

from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja_pieces import OutputText, make_output
from orchestrator.prompts.work import ITEM, MOST_CHARS, STEP, Refused, Work

_MOST_IN_A_BATCH = 100_000
_WIDEST_INDENT = 100
_MOST_DIGITS = 300

_REMOVED = frozenset("attr center format pprint random striptags urlize wordwrap xmlattr".split())

_work: ContextVar[Work] = ContextVar("work")


def get_work() -> Work:
    """The work of the rendering that goes on."""
    work = _work.get(None)
    if work is None:
        # Jinja2 calls filters while it compiles, to fold constants; this makes it leave them.
        raise Impossible
    return work


@contextmanager
def count_work(work: Work) -> Iterator[Work]:
    """Counts the work of a rendering in `work`."""
    token = _work.set(work)
    try:
        yield work
    finally:
        _work.reset(token)


Called = Callable[..., Any]


def limit_filters(filters: Mapping[str, Called]) -> dict[str, Called]:
    """Jinja2's filters, counted, without those that reach Python objects or multiply texts."""
    found = {name: one for name, one in filters.items() if name not in _REMOVED} | _OWN
    return {name: _count_calls(one, name) for name, one in found.items()}


def limit_tests(tests: Mapping[str, Called]) -> dict[str, Called]:
    """Jinja2's tests, counted."""
    found = {**tests, **{name: _refuse_text(tests[name]) for name in _OF_NUMBERS}}
    return {
        name: _count_calls(one, name) if name != "callable" else lambda value: False
        for name, one in found.items()
    }


# Tests that calculate with `%`, which of a text formats it: '%999999999d' is a gigabyte.
_OF_NUMBERS = ("divisibleby", "even", "odd")


def _refuse_text(test: Called) -> Called:
    @wraps(test)
    def wrapper(value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, str):
            raise Refused("a text is no number: write |int before the test")
        return test(value, *args, **kwargs)

    return wrapper


# They look at no more than the outside of a value, so `{{ items | length }}` in a loop is cheap.
_SHALLOW = frozenset(
    "count d default defined first iterable last length mapping none sequence undefined".split()
)


def _count_calls(function: Called, name: str) -> Called:
    """A filter or a test that measures its arguments and its result."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0
    shallow = name in _SHALLOW

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        work = get_work()
        work.spend(STEP)
        for one in (*args[first:], *kwargs.values()):
            work.measure(one, shallow=shallow)
        result = function(*args, **kwargs)
        if isinstance(result, str | list | tuple):
            work.spend(len(result))
        return work.count_items(result) if isinstance(result, Iterator) else result

    return wrapper


def call_method(
    work: Work, owner: Any, method: Called, args: Iterable[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The result of one of data's methods."""
    work.measure(owner)
    name = method.__name__
    if isinstance(owner, str) and name == "replace":
        return _replace(owner, *args, **kwargs)
    if isinstance(owner, str) and name == "join":
        return _join(owner, *args)
    result = method(*args, **kwargs)
    if isinstance(result, str | list):
        work.spend(len(result))
    return result


def _spend_size(size: int) -> None:
    if size > MOST_CHARS:
        raise Refused(f"a text would have more than {MOST_CHARS} characters")
    get_work().spend(size)


def _replace(text: str, old: str, new: str, count: int | None = -1) -> str:
    found = text.count(old)
    times = found if count is None or count < 0 else min(found, count)
    _spend_size(len(text) + times * max(len(new) - len(old), 0))
    return text.replace(old, new, -1 if count is None else count)


def _join(between: str, items: Iterable[Any]) -> str:
    texts = list(map(str, get_work().count_items(items)))
    _spend_size(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


@pass_environment
def _do_join(environment: Any, value: Any, d: str = "", attribute: str | None = None) -> str:
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    return _join(str(d), items)


def _do_replace(s: Any, old: str, new: str, count: int | None = None) -> str:
    return _replace(str(s), str(old), str(new), count)


def _do_indent(s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    wide = len(width) if isinstance(width, str) else width
    if wide > _WIDEST_INDENT:
        raise Refused(f"an indentation has {_WIDEST_INDENT} characters at most")
    _spend_size(len(s) + (s.count("\n") + 1) * wide)
    return do_indent(s, width, first, blank)


def _do_batch(value: Iterable[Any], linecount: int, fill_with: Any = None) -> Iterator[Any]:
    if linecount > _MOST_IN_A_BATCH:
        raise Refused(f"a batch has {_MOST_IN_A_BATCH} items at most")
    return do_batch(value, linecount, fill_with)


@pass_environment
def _do_sum(environment: Any, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    if not isinstance(start, list | tuple):
        return sum(items, start)
    made = list(start)
    for one in items:
        get_work().spend(len(one))
        made += one
    return type(start)(made)


def _do_round(value: float, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > _MOST_DIGITS:  # Jinja2 calculates 10**precision
        raise Refused(f"a number is rounded to {_MOST_DIGITS} digits at most")
    return do_round(value, precision, method)


def _do_tojson(value: Any, indent: int | None = None) -> Any:
    if indent is not None and indent > _WIDEST_INDENT:
        raise Refused(f"an indentation has {_WIDEST_INDENT} characters at most")
    return htmlsafe_json_dumps(value, indent=indent, sort_keys=True)


_OWN: dict[str, Called] = {
    "batch": _do_batch,
    "indent": _do_indent,
    "join": _do_join,
    "replace": _do_replace,
    "round": _do_round,
    "sum": _do_sum,
    "tojson": _do_tojson,
}


# Filters that only a tree can name: no identifier has such a sign.
_AUTHORS, _COUNTED, _JOINED, _MEASURED, _SPENT = (
    f"{name}!" for name in ("authors", "counted", "joined", "measured", "spent")
)
# A call of a macro that has nothing in it.
_CALL = 100
_OTHER = 2
_STEPS: tuple[tuple[type[nodes.Node], int], ...] = (
    (nodes.Filter, STEP),
    (nodes.Test, STEP),
    (nodes.Call, 2 * STEP),
    (nodes.BinExpr, STEP),
    (nodes.Getattr, STEP // 2),
    (nodes.Getitem, STEP // 2),
)


def instrument_tree(tree: nodes.Template) -> nodes.Template:
    """A tree that marks the author's texts, and counts what takes time."""
    instrumented: nodes.Template = _Instrumenter().visit(tree)
    return instrumented


class _Instrumenter(NodeTransformer):
    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        node.nodes = [
            _wrap_in_filter(nodes.Const(one.data, lineno=one.lineno), _AUTHORS)
            if isinstance(one, nodes.TemplateData)
            else one
            for one in node.nodes
        ]
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        each = ITEM + count_steps((*node.body, node.test))
        node.iter = _wrap_in_filter(node.iter, _COUNTED, each)
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body = _prepend_cost(node.body, node.defaults)
        return node

    visit_CallBlock = visit_Macro

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _wrap_in_filter(nodes.List(node.nodes, lineno=node.lineno), _JOINED)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = _wrap_in_filter(node.expr, _MEASURED)
        for operand in node.ops:
            operand.expr = _wrap_in_filter(operand.expr, _MEASURED)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = _wrap_in_filter(node.key, _MEASURED)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _wrap_in_filter(node, _MEASURED) if isinstance(node.arg, nodes.Slice) else node


def _wrap_in_filter(node: nodes.Node, name: str, *arguments: int) -> nodes.Filter:
    given: list[nodes.Expr] = [nodes.Const(one, lineno=node.lineno) for one in arguments]
    line = node.lineno
    return nodes.Filter(cast(nodes.Expr, node), name, given, [], None, None, lineno=line)


def _prepend_cost(body: Sequence[nodes.Node], defaults: Sequence[nodes.Node]) -> list[nodes.Node]:
    """A macro's body behind a statement that counts its cost."""
    line = body[0].lineno if body else 1
    count = nodes.Const(_CALL + count_steps((*body, *defaults)), lineno=line)
    return [nodes.ExprStmt(_wrap_in_filter(count, _SPENT), lineno=line), *body]


def count_steps(found: Iterable[nodes.Node | None]) -> int:
    """The cost of nodes that run once; loops and macros inside count themselves."""
    steps = 0
    left = list(found)
    while left:
        node = left.pop()
        if node is None:
            continue
        steps += next((it for kind, it in _STEPS if isinstance(node, kind)), _OTHER)
        if isinstance(node, nodes.Output):
            steps += STEP * len(node.nodes)
        if isinstance(node, nodes.For):
            left += [node.iter, *node.else_]
        elif isinstance(node, nodes.CallBlock):
            left.append(node.call)
        elif not isinstance(node, nodes.Macro):
            left += node.iter_child_nodes()
    return steps


def is_straight(node: nodes.Node, calls: Collection[str] = ()) -> bool:
    """Whether a template shows values as they are, and asks of them only whether they are empty.

    `calls` are functions that only say where something stands.
    """
    if isinstance(node, nodes.Template):
        return all(is_straight(one, calls) for one in node.body)
    if isinstance(node, nodes.Output):
        return all(_is_plain_output(one, calls) for one in node.nodes)
    if isinstance(node, nodes.If):
        inside = (*node.body, *node.elif_, *node.else_)
        return _is_emptiness_test(node.test) and all(is_straight(one, calls) for one in inside)
    return False


def _is_plain_output(node: nodes.Node, calls: Collection[str]) -> bool:
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
        plain = not (node.dyn_args or node.dyn_kwargs) and node.node.name in calls
        given = (*node.args, *(one.value for one in node.kwargs))
        return plain and all(isinstance(one, nodes.Const | nodes.Name) for one in given)
    authors = isinstance(node, nodes.Filter) and node.name == _AUTHORS
    return authors or isinstance(node, nodes.Const | nodes.Name)


def _is_emptiness_test(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Not):
        return _is_emptiness_test(node.node)
    if isinstance(node, nodes.And | nodes.Or):
        return _is_emptiness_test(node.left) and _is_emptiness_test(node.right)
    return isinstance(node, nodes.Name)


# The filters.


def _mark_author(text: str) -> OutputText:
    get_work()  # refuses while Jinja2 compiles, which would fold the mark away
    return make_output(text, [(AUTHOR, text)])


def _count_items(items: Any, each: int) -> Any:
    if isinstance(items, Undefined):
        return items
    if not isinstance(items, Iterable):
        raise Refused(f"a {type(items).__name__} cannot be looped over")
    return list(get_work().count_items(items, each))


def _join_parts(parts: list[Any]) -> str:
    work = get_work()
    for part in parts:
        work.measure(part)
    return str.__str__("".join(map(str, parts)))


def _measure(value: Any) -> Any:
    get_work().measure(value)
    return value


# The filters that a bounded tree names.
OWN_FILTERS: dict[str, Callable[..., Any]] = {
    _AUTHORS: _mark_author,
    _COUNTED: _count_items,
    _JOINED: _join_parts,
    _MEASURED: _measure,
    _SPENT: lambda count: get_work().spend(count),
}
