"""One question of a batch to its result."""

from __future__ import annotations

import time
from copy import copy
from typing import TYPE_CHECKING, Any

from orchestrator.cli.batch.questions import Question
from orchestrator.cli.return_control import GivenResults
from orchestrator.cli.terminal import Terminal
from orchestrator.cli.turns import TurnRunner
from orchestrator.errors import OrchestratorError
from orchestrator.models.base import Usage
from orchestrator.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.agent.agent import Agent
    from orchestrator.cli.batch.folder import BatchFolder
    from orchestrator.engine.run.options import Options
    from orchestrator.engine.trace.reply import Reply


class Asker:
    """Asks an agent one question after the other, from any thread.

    A question whose turn an earlier run has begun is not asked again: its turn is gone on with, or
    has its answer.
    """

    def __init__(
        self, agent: Agent, given: GivenResults, options: Options, folder: BatchFolder
    ) -> None:
        self._agent = agent
        self._given = given
        self._options = options
        self._folder = folder

    def ask(self, question: Question) -> dict[str, Any]:
        """The result of a question; a turn that fails has one too."""
        began = time.monotonic()
        replies: list[Reply] = []
        failed: BaseException | None = None
        try:
            replies += self._run(question)
        except Exception as error:  # the other questions are to be asked all the same
            failed = error
            replies += [reply for reply in [getattr(error, "reply", None)] if reply is not None]
        return build_result(question, replies, failed, time.monotonic() - began)

    def _run(self, question: Question) -> list[Reply]:
        runner = TurnRunner(_Silent(), self._choose_agent(question.session), self._given)
        options = merge_options(self._options, question.options)
        options["request_id"] = self._folder.build_request_id(question)
        session = question.session or self._folder.build_session_id(question)
        return runner.ask(question.text, session, options)

    def _choose_agent(self, session: str | None) -> Agent:
        if session is not None or self._agent.sessions.durable:
            return self._agent
        # A session of its own in memory is over with its answer: thousands would fill the memory.
        agent = copy(self._agent)
        agent.sessions = Sessions.of(None)
        return agent


class _Silent(Terminal):
    def note(self, *items: Any) -> None:
        """Writes nothing: a line a call of thousands of questions would hide the progress."""


def merge_options(all_questions: Options, own: Options) -> Options:
    """The options of a turn: attributes of the question win over those of the command."""
    merged: Any = dict(all_questions)
    for name, given in own.items():
        merged[name] = {**merged.get(name, {}), **given}  # type: ignore[dict-item]
    result: Options = merged
    return result


def build_result(
    question: Question, replies: Iterable[Reply], failed: BaseException | None, seconds: float
) -> dict[str, Any]:
    """The line of a question's result."""
    usage, last = Usage(), None
    for last in replies:
        usage = usage.plus(last.usage)
    control = last.return_control if last is not None else None
    result: dict[str, Any] = {
        "id": question.id,
        "question": question.text,
        "session_id": last.session_id if last is not None else question.session,
        "answer": last.text if last is not None and failed is None else None,
        "stop_reason": last.stop_reason if last is not None else "failure",
        "calls": usage.calls,
        "tokens": {"input": usage.total_tokens - usage.output_tokens, "output": usage[1]},
        "seconds": round(seconds, 3),
        "error": failed and _describe(failed),
    }
    if control is not None and failed is None:
        result["return_control"] = {
            "invocationId": control.invocation_id,
            "invocationInputs": control.invocation_inputs,
        }
    return result


def _describe(error: BaseException) -> dict[str, str]:
    if isinstance(error, OrchestratorError):
        return {"type": type(error).__name__, "message": error.message}
    return {"type": type(error).__name__, "message": str(error)}
