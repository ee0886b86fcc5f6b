"""A question to its end: calls that are handed over get the results that options or users give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orchestrator.cli.live import LiveTurn
from orchestrator.cli.return_control import GivenResults, ask_results
from orchestrator.cli.terminal import Terminal

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.run.options import Options
    from orchestrator.engine.trace.reply import Reply


class TurnRunner:
    """Puts questions to an agent.

    `ask` asks the user for the results that are not `given`; without it, a turn that needs one ends
    in its return of control.
    """

    def __init__(
        self,
        terminal: Terminal,
        agent: Agent,
        given: GivenResults,
        ask: Callable[[str], str] | None = None,
    ) -> None:
        self._terminal = terminal
        self._agent = agent
        self._given = given
        self._ask = ask

    def show(self, live: LiveTurn, question: str, session: str | None, options: Options) -> Reply:
        """Shows the turn as it happens, and returns its last reply.

        Raises:
            OrchestratorError: The turn failed.
        """
        while True:
            reply = live.run(self._agent.stream(question, session, **options))
            results = self._find_results(reply)
            if results is None:
                return reply
            question, session, options = "", reply.session_id, _go_on(options, results)

    def collect(self, question: str, session: str | None, options: Options) -> dict[str, Any]:
        """The whole turn as JSON members, those of `Reply`; raises as `show` does."""
        return _merge_replies(self.ask(question, session, options))

    def ask(self, question: str, session: str | None, options: Options) -> list[Reply]:
        """The turn's replies, all but the last with calls handed over; raises as `show`."""
        replies: list[Reply] = []
        while True:
            reply = self._agent.invoke(question, session, **options)
            replies.append(reply)
            results = self._find_results(reply)
            if results is None:
                return replies
            question, session, options = "", reply.session_id, _go_on(options, results)

    def _find_results(self, reply: Reply) -> dict[str, Any] | None:
        control = reply.return_control
        if control is None:
            return None
        if self._ask is not None:
            return ask_results(control, self._terminal, self._ask, self._given)
        return self._given.answer(control, self._terminal)


def _go_on(options: Options, results: dict[str, Any]) -> Options:
    next_options: Options = {**options, "results": results}
    next_options.pop("files", None)  # they came with the question, as its id did
    next_options.pop("request_id", None)
    return next_options


def _merge_replies(replies: list[Reply]) -> dict[str, Any]:
    usage, last = replies[0].usage, replies[-1]
    for reply in replies[1:]:
        usage = usage.plus(reply.usage)
    return {
        **last.as_dict(),
        "usage": usage._asdict(),
        "notes": [note for reply in replies for note in reply.notes],
        "trace": [part for reply in replies for part in reply.trace],
    }
