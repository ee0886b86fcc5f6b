"""The conversation that `orchestrator chat` has with an agent, whoever types the questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.cli.findings import show_error
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.return_control import GivenResults, show_waiting_calls, suggest_options
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.turns import TurnRunner
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.run.options import Options
    from orchestrator.engine.trace.past_turns import PastTurn
    from orchestrator.engine.trace.reply import Reply


class Question(NamedTuple):
    """A question of this conversation."""

    text: str
    files: list[dict[str, Any]]  # that came with it
    before: str  # the id of the session's last turn when it was asked; empty without one


class Talk:
    """A conversation in one session.

    Attributes:
        terminal: Where it is shown.
        agent: Who answers.
        session: The session's id.
        trace: Whether each step is shown.
        files: What comes with the next question.
        last: The last question since the conversation began, if there was one.
    """

    def __init__(
        self,
        terminal: Terminal,
        agent: Agent,
        session: str,
        options: Options,
        *,
        trace: bool = False,
        given: GivenResults | None = None,
    ) -> None:
        self.terminal = terminal
        self.agent = agent
        self.session = session
        self.trace = trace
        self.files: list[dict[str, Any]] = []
        self.last: Question | None = None
        self._options = options
        self._given = given or GivenResults()

    def find_last_turn(self) -> PastTurn | None:
        """The session's last turn since it began, also one of an earlier process."""
        turns = self.agent.turns(self.session)
        return turns[-1] if turns and turns[-1].current else None

    def answer_json(self, question: str) -> None:
        """Answers a question with a line of JSON; raises when the turn fails."""
        runner = TurnRunner(self.terminal, self.agent, self._given)
        self.terminal.line(runner.collect(question, self.session, self._take_options()))

    def answer_line(self, question: str) -> None:
        """Answers a question where nobody can be asked; raises when the turn fails."""
        live = self._begin_to_show()
        runner = TurnRunner(self.terminal, self.agent, self._given)
        try:
            reply = runner.show(live, question, self.session, self._take_options())
        finally:
            live.finish()
        if reply.return_control is not None:
            show_waiting_calls(self.terminal, reply.return_control)
            how = suggest_options(reply.return_control.invocation_inputs)
            self.terminal.note(f"Answer with {how}; the next question gives the turn up.")
        self._note_missing_tool(reply)

    def ask(
        self, question: str, ask: Callable[[str], str], *, again: Question | None = None
    ) -> None:
        """Answers a question, and asks for the results of calls that are handed over.

        Nothing is raised: an error is shown, and Ctrl-C stops the turn.

        Args:
            question: What is asked.
            ask: Asks the user.
            again: The question that it stands for, whose turn was undone: it has its files.
        """
        options = self._take_options()
        if again is not None and again.files:
            options["files"] = again.files
        live = self._begin_to_show()
        runner = TurnRunner(self.terminal, self.agent, self._given, ask)
        try:
            self._remember(question, options)
            self._note_missing_tool(runner.show(live, question, self.session, options))
        except KeyboardInterrupt:
            self.terminal.note(clean(live.describe_interruption()))
        except OrchestratorError as error:
            show_error(self.terminal, error)
        finally:
            live.finish()

    def _remember(self, question: str, options: Options) -> None:
        files: Any = options.get("files", ())
        turn = self.find_last_turn()
        self.last = Question(question, list(files), turn.id if turn is not None else "")

    def _begin_to_show(self) -> LiveTurn:
        # The steps say themselves who hands over to whom.
        agent = "" if self.trace else self.agent.plan.name
        return LiveTurn(self.terminal, trace=self.trace, agent=agent)

    def _take_options(self) -> Options:
        options: Options = {**self._options}
        if self.files:
            options["files"], self.files = self.files, []
        return options

    def _note_missing_tool(self, reply: Reply) -> None:
        # Only a template's model calls what nobody carries out.
        if reply.stop_reason == "tool_use":
            self.terminal.note("nobody carries the call out: give --tool NAME=FILE:FUNCTION")
