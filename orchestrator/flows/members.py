"""The pure members of texts and lists in expressions, as JavaScript has them.

None changes its value: `sort` and `reverse` give another list. What they make is bounded and
counted, as all that expressions make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orchestrator.flows.tree import ScriptError
from orchestrator.support.spelling import did_you_mean
from orchestrator.support.work_budget import WorkBudget

MOST = 1_000_000
"""Characters of a text, and items of a list, that a script puts together."""

Member = Callable[..., Any]


def has_length(value: Any, name: str) -> bool:
    """Whether a member is the length of a text or a list."""
    return name == "length" and isinstance(value, str | list | tuple)


def has_member(value: Any, name: str) -> bool:
    """Whether a value has a function of that name."""
    return name in (_TEXTS if isinstance(value, str) else _LISTS if isinstance(value, list) else ())


def call_member(value: Any, name: str, args: Sequence[Any], work: WorkBudget) -> Any:
    """The value of `value.name(args)`; a `ScriptError` where there is no such member."""
    if not isinstance(value, str | list | tuple):
        raise ScriptError(
            f"only texts and lists have functions, such as {name!r}: this is none",
            f"只有文本和列表有函数，如 {name}",
        )
    table, kind, kind_zh = (
        (_TEXTS, "texts", "文本") if isinstance(value, str) else (_LISTS, "lists", "列表")
    )
    member = table.get(name)
    if member is None:
        there = ", ".join(sorted(table))
        raise ScriptError(
            f"{kind} have no function {name!r} here; there is {there}{did_you_mean(name, table)}",
            f"{kind_zh}没有函数 {name}；可用: {there}",
        )
    _count(work, value, *args)
    if any(isinstance(one, list | dict) for one in args):  # which is compared, with all in it
        _measure(work, value)
    try:
        result = member(value, *args)
    except (TypeError, ValueError, AttributeError):
        raise ScriptError(
            f"{name!r} cannot be called with these arguments", f"{name} 的参数有误"
        ) from None
    if isinstance(result, str | list) and len(result) > MOST:
        raise _build_size_error(name)
    _count(work, result)
    return result


def _count(work: WorkBudget, *values: Any) -> None:
    """Counts values that are gone through: the letters of texts are cheap."""
    for one in values:
        size = len(one) if isinstance(one, str | list | tuple) else 0
        work.spend(10 + (size // 32 if isinstance(one, str) else size))


def _build_size_error(name: str) -> ScriptError:
    return ScriptError(f"what {name!r} makes is longer than {MOST}", f"{name} 的结果超过 {MOST}")


def _measure(work: WorkBudget, value: Any) -> None:
    """Counts a value with all that is in it."""
    level = [value]
    while level:
        work.spend(10 * len(level))
        inner: list[Any] = []
        for one in level:
            if isinstance(one, list | tuple):
                inner += one
            elif isinstance(one, dict):
                inner += one.values()
        level = inner


def _slice(value: Any, start: int = 0, end: int | None = None) -> Any:
    return value[_whole(start) : None if end is None else _whole(end)]


def _substring(value: str, start: int = 0, end: int | None = None) -> str:
    last = len(value) if end is None else _whole(end)
    first, last = (min(max(_whole(one), 0), len(value)) for one in (start, last))
    return value[min(first, last) : max(first, last)]


def _at(value: Any, place: int = 0) -> Any:
    place = _whole(place)
    return value[place] if -len(value) <= place < len(value) else None


def _char_at(value: str, place: int = 0) -> str:
    return value[place] if 0 <= _whole(place) < len(value) else ""


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("it is no number")
    return int(value)


def _pad(value: str, length: int, fill: str, *, start: bool) -> str:
    missing = min(_whole(length), MOST + 1) - len(value)
    if missing <= 0 or not fill:
        return value
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + value if start else value + padding


def _repeat(value: str, times: int) -> str:
    if len(value) * _whole(times) > MOST:
        raise _build_size_error("repeat")
    return value * _whole(times)


def _replace_all(value: str, old: str, new: str) -> str:
    if len(value) + value.count(old) * len(new) > MOST:
        raise _build_size_error("replaceAll")
    return value.replace(old, new)


def _split(value: str, separator: str | None = None, most: int | None = None) -> list[str]:
    if separator is None:
        return [value]
    return (value.split(separator) if separator else list(value))[:most]


def _concat(value: Any, *others: Any) -> Any:
    if isinstance(value, str):
        return "".join((value, *map(text_of, others)))
    return [*value, *(it for one in others for it in (one if isinstance(one, list) else [one]))]


def text_of(value: Any) -> str:
    """A simple value as JavaScript writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list | dict):
        raise TypeError("it is no simple value")
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e16
    return str(int(value)) if whole else str(value)


def _join(value: Sequence[Any], separator: str = ",") -> str:
    texts = [text_of(one) for one in value]
    if sum(map(len, texts)) + len(separator) * len(texts) > MOST:
        raise _build_size_error("join")
    return separator.join(texts)


def _index(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.find(item)
    return next((at for at, one in enumerate(value) if _is_same(one, item)), -1)


def _last_index(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.rfind(item)
    places = range(len(value) - 1, -1, -1)
    return next((at for at in places if _is_same(value[at], item)), -1)


def _is_same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _flat(value: Iterable[Any]) -> list[Any]:
    return [it for one in value for it in (one if isinstance(one, list) else [one])]


def _sort(value: Sequence[Any]) -> list[Any]:
    return sorted(value, key=text_of)


def _find(value: Sequence[Any], holds: Member) -> Any:
    return next((one for at, one in enumerate(value) if holds(one, at)), None)


def _find_index(value: Sequence[Any], holds: Member) -> int:
    return next((at for at, one in enumerate(value) if holds(one, at)), -1)


_BOTH: dict[str, Member] = {
    "at": _at,
    "concat": _concat,
    "includes": lambda value, item: _index(value, item) >= 0,
    "indexOf": _index,
    "lastIndexOf": _last_index,
    "slice": _slice,
}

_TEXTS: dict[str, Member] = {
    **_BOTH,
    "charAt": _char_at,
    "endsWith": lambda value, end: value.endswith(end),
    "padEnd": lambda value, length, fill=" ": _pad(value, length, fill, start=False),
    "padStart": lambda value, length, fill=" ": _pad(value, length, fill, start=True),
    "repeat": _repeat,
    "replace": lambda value, old, new: value.replace(old, new, 1),
    "replaceAll": _replace_all,
    "split": _split,
    "startsWith": lambda value, start: value.startswith(start),
    "substring": _substring,
    "toLowerCase": lambda value: value.lower(),
    "toString": lambda value: value,
    "toUpperCase": lambda value: value.upper(),
    "trim": lambda value: value.strip(),
    "trimEnd": lambda value: value.rstrip(),
    "trimStart": lambda value: value.lstrip(),
}

_LISTS: dict[str, Member] = {
    **_BOTH,
    "every": lambda value, holds: all(holds(one, at) for at, one in enumerate(value)),
    "filter": lambda value, holds: [one for at, one in enumerate(value) if holds(one, at)],
    "find": _find,
    "findIndex": _find_index,
    "flat": _flat,
    "join": _join,
    "map": lambda value, make: [make(one, at) for at, one in enumerate(value)],
    "reverse": lambda value: [*reversed(value)],
    "some": lambda value, holds: any(holds(one, at) for at, one in enumerate(value)),
    "sort": _sort,
    "toString": _join,
}
