"""Variables of a run: one pool, values put into texts in one pass, and never expanded again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.flows.evaluation import UNDEFINED, path_value
from orchestrator.flows.members import MOST
from orchestrator.flows.tree import ScriptError, path_of
from orchestrator.flows.work import ScriptWork
from orchestrator.support.spelling import did_you_mean

USE = re.compile(r"\$\{(?P<path>[^{}]*)\}|\$(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
"""How a text uses a variable. A name is in ASCII, so that Chinese text may follow it directly."""


class BareVariable(str):
    """How a variable is written in JSON outside of texts: there it is the value itself."""

    __slots__ = ("steps",)
    steps: tuple[str | int, ...]  # the path to it


def as_text(value: Any) -> str:
    """A value in a text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def steps_of(found: re.Match[str]) -> tuple[str | int, ...] | None:
    """The path to the variable that a text uses; `None` where it is none."""
    return (found["name"],) if found["name"] else path_of(found["path"])


def find_variable_names(text: str) -> Iterator[str]:
    """The names of the variables that a text uses."""
    for found in USE.finditer(text):
        if steps := steps_of(found):
            yield str(steps[0])


def value_of(found: re.Match[str], values: Mapping[str, Any]) -> Any:
    """The value of a variable that a text uses, or `UNDEFINED`."""
    steps = steps_of(found)
    return UNDEFINED if steps is None else path_value(values, steps)


class Pool:
    """The variables of a run, by name: JSON data."""

    def __init__(self, values: Mapping[str, Any], work: ScriptWork) -> None:
        self.work = work
        self.values: dict[str, Any] = dict(values)
        # Names that texts used and nothing had defined, since it was last asked
        self.unknown: list[str] = []

    def set(self, name: str, value: Any, append: bool = False) -> None:
        """Assigns, or appends: then it is always a list, and a list is added item by item."""
        if append:
            found = self.values.get(name, [])
            before = found if isinstance(found, list) else [found]
            self.work.copy(before)
            value = [*before, *(value if isinstance(value, list) else [value])]
            if len(value) > MOST:
                raise ScriptError(
                    f"the list ${name} has more than {MOST} items", f"列表 ${name} 超过 {MOST} 项"
                )
        self.values[name] = value

    def fill(self, text: str) -> str:
        """A text with its variables' values; an undefined one stays as it is written."""
        parts, at = [], 0
        for found in USE.finditer(text):
            parts += [text[at : found.start()], self._replace_variable(found)]
            at = found.end()
        parts.append(text[at:])
        if sum(map(len, parts)) > MOST:
            raise ScriptError(
                f"the text has more than {MOST} characters", f"文本超过 {MOST} 个字符"
            )
        return "".join(parts)

    def _replace_variable(self, found: re.Match[str]) -> str:
        value = value_of(found, self.values)
        if value is UNDEFINED:
            self.unknown.append(found[0])
            return found[0]
        self.work.measure(value)
        return as_text(value)

    # The scope of expressions (`orchestrator.flows.evaluation.Scope`).

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path."""
        return path_value(self.values, steps)

    def text(self, text: str) -> str:
        """A quoted text, filled."""
        return self.fill(text)

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Refuses it: expressions have no calls."""
        raise ScriptError(f"{name!r} cannot be called here", f"此处不能调用 {name!r}")


class LenientPool(Pool):
    """The same variables for a message, in which an undefined variable keeps its text."""

    def __init__(self, pool: Pool) -> None:
        self.work = pool.work
        self.values = pool.values
        self.unknown = pool.unknown

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path, or the path as it is written."""
        value = path_value(self.values, steps)
        if value is UNDEFINED:
            self.unknown.append(written)
            return written
        return value


class ArgumentPool(LenientPool):
    """The same variables for arguments: a callee never gets a name instead of a value.

    Within a quoted text, an undefined variable keeps its text.
    """

    def text(self, text: str) -> str:
        """A quoted text, filled; it may not be nothing but a variable that is not defined."""
        only = USE.fullmatch(text)
        if only is not None and value_of(only, self.values) is UNDEFINED:
            raise self._build_undefined_error(text, only["name"] or "")
        return super().text(text)

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        """The value at a path, which must be defined."""
        value = path_value(self.values, steps)
        if value is UNDEFINED:
            raise self._build_undefined_error(written, str(steps[0]) if len(steps) == 1 else "")
        return value

    def _build_undefined_error(self, written: str, name: str) -> ScriptError:
        meant = did_you_mean(name, self.values) if name else ""
        return ScriptError(f"{written} is not defined{meant}", f"变量 {written} 未定义")


class RecordingPool(Pool):
    """The same variables for an iteration by itself, which notes what it changes."""

    def __init__(self, values: Mapping[str, Any], work: ScriptWork) -> None:
        super().__init__(values, work)
        # By name, in order: whether a value was appended, and the value. What comes before an
        # assignment is forgotten.
        self.changes: dict[str, list[tuple[bool, Any]]] = {}

    def set(self, name: str, value: Any, append: bool = False) -> None:
        """Assigns, or appends."""
        super().set(name, value, append)
        if append:
            self.changes.setdefault(name, []).append((True, value))
        else:
            self.changes[name] = [(False, value)]
