"""The budget of what a script does by itself, between its calls of models and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from orchestrator.errors import LimitExceeded
from orchestrator.flows.tree import ScriptError
from orchestrator.limits import SCRIPT_WORK
from orchestrator.prompts.work import MOST_WORK, Work
from orchestrator.support.work_budget import WorkBudget

# Loops in loops, scripts that call scripts, and values that double are each small when they are
# looked at alone. So one sum is kept for a whole run, with all scripts that it calls. A unit is
# less than a microsecond: a statement is an event and a record of the journal, the item of a list
# is copied or encoded, and a template is compiled, rendered and joined.
STATEMENT = 100
ROUND = 50
CALL = 1_000
RENDERING = 100
COMPILING = 5_000
_CHARS = 32  # characters of a text that are copied in a unit
_RENDERED = 4  # units of a rendering (`orchestrator.prompts.work`) in one of these
_DEEPEST = 200


class ScriptWork(WorkBudget):
    """What one run of a script may do by itself.

    Attributes:
        most: How much it may do.
        line: The line of the statement that runs.
    """

    def __init__(self, most: int = SCRIPT_WORK) -> None:
        self.most = self.left = most
        self.line = 0

    def refuse(self) -> NoReturn:
        """Raises `LimitExceeded`: it is more than `Limits.script_work`."""
        raise LimitExceeded(
            f"line {self.line}: the script does too much by itself: more than {self.most:,} units "
            f"of work, of which a statement is {STATEMENT} and the item of a list that it sets or "
            "passes on is 10; loop over less, or raise Limits.script_work",
            limit="script_work",
        )

    def begin_statement(self, line: int) -> None:
        """Counts a statement."""
        self.line = line
        self.spend(STATEMENT)

    def copy(self, *values: Any) -> None:
        """Counts values that are copied, without what is in them."""
        for value in values:
            size = len(value) if isinstance(value, str | list | tuple | Mapping) else 0
            self.spend(size // _CHARS if isinstance(value, str) else size)

    def measure(self, value: Any) -> None:
        """Counts a value with all that is in it, as often as it is in it.

        Raises:
            ScriptError: It is nested too deeply for JSON.
        """
        level = [value]
        depth = 0
        while level:
            inner: list[Any] = []
            for one in level:
                if isinstance(one, str):
                    self.spend(1 + len(one) // _CHARS)
                elif isinstance(one, list | tuple):
                    self.spend(10 + 10 * len(one))
                    inner += one
                elif isinstance(one, Mapping):
                    self.spend(10 + 20 * len(one))
                    inner += one.values()
            level, depth = inner, depth + 1
            if depth > _DEEPEST:
                raise ScriptError(
                    f"a value is nested more than {_DEEPEST} levels deep",
                    f"值嵌套超过 {_DEEPEST} 层",
                )

    @contextmanager
    def rendering(self) -> Iterator[Work]:
        """The budget of one rendering of a template, which is taken from this one."""
        work = Work(min(MOST_WORK, _RENDERED * self.left + 1))
        try:
            yield work
        finally:
            self.spend(RENDERING + work.amount // _RENDERED)
