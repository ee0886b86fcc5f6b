"""Checks of the calls that an agent made.

A function whose name begins with a word of reading, and an API operation whose method is GET, HEAD
or OPTIONS, change nothing; every other call is taken to change something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.agent.evaluation.checks.base import Judging, Verdict
from orchestrator.agent.evaluation.checks.values import compile_pattern, read_text, show
from orchestrator.agent.evaluation.trace_reading import Call, show_call
from orchestrator.support.spelling import did_you_mean

_READING_VERBS = frozenset({"GET", "HEAD", "OPTIONS"})
_READING_WORDS = frozenset(
    {"check", "count", "describe", "fetch", "find", "get", "has", "is", "list", "look", "lookup"}
    | {"query", "read", "search", "show", "view"}
)


def changes_something(name: str) -> bool:
    """Whether a call of this name changes something, as far as its verb or first word tells."""
    verb, _, path = name.rpartition(" ")
    if verb:
        return verb.upper() not in _READING_VERBS
    first = re.match(r"[A-Z]?[a-z]*", path)
    return (first[0] if first else "").lower() not in _READING_WORDS


# -- expected calls ------------------------------------------------------------------------------

Matches = Callable[[str], bool]


@dataclass(frozen=True)
class ExpectedCall:
    """A call as a case expects it; what is made may have more arguments."""

    name: str
    arguments: Mapping[str, Any]  # as they are written
    matchers: Mapping[str, Matches]

    def fits(self, call: Call) -> bool:
        """Whether a call is this one."""
        made = call["arguments"]
        return self.name == call["name"] and all(
            name in made and fits(_write(made[name])) for name, fits in self.matchers.items()
        )

    def show(self) -> str:
        """It in one line."""
        return show_call({"name": self.name, "arguments": self.arguments})

    def values(self) -> list[str]:
        """The texts of its arguments that are no patterns."""
        plain = (
            next(iter(it.values())) if isinstance(it, dict) else it
            for it in self.arguments.values()
        )
        return [_write(value) for value in plain]


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_calls(value: Any, folder: Path) -> list[ExpectedCall]:
    """A list of calls, each a name or `name` and `arguments`."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"{show(value)} is none")
    return [_read_call(one, folder) for one in value]


def _read_call(value: Any, folder: Path) -> ExpectedCall:
    if isinstance(value, str):
        return ExpectedCall(read_text(value, folder), {}, {})
    if not isinstance(value, dict) or "name" not in value:
        raise ValueError(f"{show(value)} is no call: it needs a 'name'")
    for member in value:
        if member not in ("name", "arguments"):
            raise ValueError(f"a call has 'name' and 'arguments', and no {member!r}")
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments {show(arguments)} are no mapping")
    matchers = {name: _read_matcher(one) for name, one in arguments.items()}
    return ExpectedCall(read_text(value["name"], folder), arguments, matchers)


def _read_matcher(value: Any) -> Matches:
    if not isinstance(value, dict):
        return _equals(value)
    if len(value) != 1 or next(iter(value)) not in _MATCHERS:
        name = next((one for one in value if one not in _MATCHERS), "")
        raise ValueError(
            f"the argument {show(value)} is none of {', '.join(_MATCHERS)}; write "
            f"{{'equals': ...}} for a mapping{did_you_mean(name, _MATCHERS)}"
        )
    (name, wanted), *_ = value.items()
    return _MATCHERS[name](wanted)


def _equals(wanted: Any) -> Matches:
    def fits(made: str) -> bool:
        if isinstance(wanted, str):
            return made == wanted
        try:
            return bool(json.loads(made) == wanted)
        except (ValueError, RecursionError):
            return False

    return fits


def _contains(wanted: Any) -> Matches:
    text = read_text(wanted, Path()).lower()
    return lambda made: text in made.lower()


def _regex(wanted: Any) -> Matches:
    return compile_pattern(read_text(wanted, Path())).search


def _any(wanted: Any) -> Matches:
    if wanted is not True:
        raise ValueError("an argument that may be anything is written {'any': true}")
    return lambda made: True


def _like(wanted: Any) -> Matches:
    """Equal but for case, spaces and `#_-`; `claim-857` is `857`."""
    one = _normalise(_write(wanted))

    def fits(made: str) -> bool:
        other = _normalise(made)
        return one == other or _number_of(one) == other or one == _number_of(other)

    return fits


def _normalise(value: str) -> str:
    return re.sub(r"[\s#_-]+", "-", value.strip().lower()).strip("-")


def _number_of(value: str) -> str:
    return re.sub(r"^[a-z]+-(?=\d+$)", "", value)


_MATCHERS: dict[str, Callable[[Any], Matches]] = {
    "equals": _equals,
    "contains": _contains,
    "regex": _regex,
    "like": _like,
    "any": _any,
}


# -- judging -------------------------------------------------------------------------------------


def show_calls(calls: Sequence[Call]) -> str:
    """Calls in one text."""
    return "; ".join(map(show_call, calls)) or "no call"


def pair_calls(wanted: Sequence[ExpectedCall], made: Sequence[Call]) -> dict[int, int]:
    """Which expectation each call meets, by their places: as many as can be, each call for one."""
    pairs: dict[int, int] = {}  # from a call to the expectation that it meets

    def place(expectation: int, tried: set[int]) -> bool:
        for number, call in enumerate(made):
            if number in tried or not wanted[expectation].fits(call):
                continue
            tried.add(number)
            # A call that meets another expectation is free if that one finds another call.
            if number not in pairs or place(pairs[number], tried):
                pairs[number] = expectation
                return True
        return False

    for expectation in range(len(wanted)):
        place(expectation, set())
    return pairs


def judge_calls(wanted: Sequence[ExpectedCall], judging: Judging) -> Iterator[Verdict]:
    """Each expected call was made; a call stands for one expectation only."""
    met = set(pair_calls(wanted, judging.outcome.calls).values())
    for number, call in enumerate(wanted):
        yield Verdict(number in met, call.show(), show_calls(judging.outcome.calls))


def judge_order(wanted: Sequence[ExpectedCall], judging: Judging) -> Iterator[Verdict]:
    """The calls were made in this order; others may stand between them."""
    made = iter(judging.outcome.calls)
    passed = all(any(call.fits(one) for one in made) for call in wanted)
    expected = ", then ".join(call.show() for call in wanted)
    yield Verdict(passed, expected, show_calls(judging.outcome.calls))


def judge_never(unwanted: Sequence[ExpectedCall], judging: Judging) -> Iterator[Verdict]:
    """None of these calls was made, and none was handed over."""
    calls = [*judging.outcome.calls, *judging.outcome.waiting]
    for call in unwanted:
        made = [one for one in calls if call.fits(one)]
        yield Verdict(not made, f"never {call.show()}", show_calls(made))


def judge_no_calls(_: bool, judging: Judging) -> Iterator[Verdict]:
    """Nothing was called."""
    calls = [*judging.outcome.calls, *judging.outcome.waiting]
    yield Verdict(not calls, "no call", show_calls(calls))


def judge_side_effects(_: bool, judging: Judging) -> Iterator[Verdict]:
    """No call changed something but those expected, each of them once."""
    calls = judging.outcome.calls
    expected = pair_calls(judging.expect.get("calls", ()), calls)
    unwanted = [
        call
        for number, call in enumerate(calls)
        if number not in expected and changes_something(call["name"])
    ]
    yield Verdict(not unwanted, "no change that is not expected", show_calls(unwanted))


def judge_returned_control(wanted: Any, judging: Judging) -> Iterator[Verdict]:
    """These calls wait for the caller, or none does."""
    waiting = judging.outcome.waiting
    if isinstance(wanted, bool):
        expected = "a return of control" if wanted else "no return of control"
        yield Verdict(bool(waiting) == wanted, expected, show_calls(waiting))
        return
    for call in wanted:
        passed = any(call.fits(one) for one in waiting)
        yield Verdict(passed, f"handed over: {call.show()}", show_calls(waiting))


def read_returned_control(value: Any, folder: Path) -> Any:
    """True, false, or a list of calls."""
    return value if isinstance(value, bool) else read_calls(value, folder)
