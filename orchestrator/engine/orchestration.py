"""The protocol of a loop that replaces the built-in one."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from orchestrator.engine.effects import Effect
    from orchestrator.engine.results import Result
    from orchestrator.engine.state import Turn


class Orchestration(Protocol):
    """Decides what a turn does, instead of the built-in loop. Serves many turns at once.

    Besides, it may have `groups`, action groups that it calls and no model knows of, and a
    `digest`, which changes with what it does; by default, with its name.
    """

    name: str  # for errors

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn between pre- and post-processing: yields effects, and is sent their outcomes.

        It is run again from the turn's beginning, with the journal's outcomes, to go on after a
        return of control or a crash, and for the trace. So it has to do the same again when it is
        sent the same.
        """
        ...
