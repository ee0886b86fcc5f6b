"""Jinja2's filters, tests and methods of data, all of whose work is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from jinja2.filters import do_batch, do_indent, make_attrgetter
from jinja2.nodes import Impossible
from jinja2.utils import pass_environment

from orchestrator.prompts.work import MOST_CHARS, STEP, Refused, Work

__all__ = ["call_method", "count_work", "get_work", "limit_filters", "limit_tests"]

_MOST_IN_A_BATCH = 100_000
_WIDEST_INDENT = 100

_REMOVED = frozenset(
    (
        *("attr", "center", "format", "pprint", "random", "striptags", "urlize", "wordwrap"),
        "xmlattr",
    )
)

_work: ContextVar[Work] = ContextVar("work")


def get_work() -> Work:
    """The work of the rendering that goes on.

    Raises:
        Impossible: None does: Jinja2 asks while it compiles, to fold constants.
    """
    work = _work.get(None)
    if work is None:
        raise Impossible
    return work


@contextmanager
def count_work(work: Work) -> Iterator[Work]:
    """Has work counted."""
    token = _work.set(work)
    try:
        yield work
    finally:
        _work.reset(token)


Called = Callable[..., Any]


def limit_filters(filters: Mapping[str, Called]) -> dict[str, Called]:
    """Filters that count, without those that reach too far."""
    found = {name: one for name, one in filters.items() if name not in _REMOVED} | _OWN
    return {name: _count_calls(one) for name, one in found.items()}


def limit_tests(tests: Mapping[str, Called]) -> dict[str, Called]:
    """Tests that count."""
    return {
        name: _count_calls(one) if name != "callable" else _never for name, one in tests.items()
    }


def _never(value: Any) -> bool:
    return False


def _count_calls(function: Called) -> Called:
    """A filter or a test that measures what it is given and what it gives."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        work = get_work()
        work.spend(STEP)
        for one in (*args[first:], *kwargs.values()):
            work.measure(one)
        made = function(*args, **kwargs)
        if isinstance(made, str | list):
            work.spend(len(made))
        return work.count_items(made) if isinstance(made, Iterator) else made

    return wrapper


def call_method(
    work: Work, owner: Any, method: Called, args: Iterable[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The result of one of data's methods.

    Raises:
        Refused: It would be too large.
    """
    work.measure(owner)
    name = method.__name__
    if isinstance(owner, str) and name == "replace":
        return _replace(owner, *args, **kwargs)
    if isinstance(owner, str) and name == "join":
        return _join(owner, *args)
    made = method(*args, **kwargs)
    if isinstance(made, str | list):
        work.spend(len(made))
    return made


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
    if not isinstance(start, list):
        return sum(items, start)
    made = list(start)
    for one in items:
        get_work().spend(len(one))
        made += one
    return made


def _do_tojson(value: Any, indent: int | None = None) -> Any:
    from jinja2.utils import htmlsafe_json_dumps

    if indent is not None and indent > _WIDEST_INDENT:
        raise Refused(f"an indentation has {_WIDEST_INDENT} characters at most")
    return htmlsafe_json_dumps(value, indent=indent, sort_keys=True)


_OWN: dict[str, Called] = {
    "batch": _do_batch,
    "indent": _do_indent,
    "join": _do_join,
    "replace": _do_replace,
    "sum": _do_sum,
    "tojson": _do_tojson,
}
