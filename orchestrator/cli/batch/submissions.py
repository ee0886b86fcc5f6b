"""The questions of a batch as submitted turns, which workers of a database answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from orchestrator.cli.batch.ask import Order
from orchestrator.cli.batch.questions import Question
from orchestrator.cli.batch.turn import build_result, merge_options

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.durable import DurableRuns, Submission
    from orchestrator.cli.batch.folder import BatchFolder
    from orchestrator.engine.run.options import Options

_MOST = 500  # turns that are submitted and have no result yet
_PAUSE = 0.25  # seconds between two looks


def pause() -> None:
    """Waits until it is worth to look again."""
    time.sleep(_PAUSE)


class SubmittedWindow:
    """The questions that were submitted, as `Window` has those that are asked here."""

    def __init__(
        self, order: Order, submit: Callable[[Question], Submission], runs: DurableRuns
    ) -> None:
        self._order, self._submit, self._runs = order, submit, runs
        self._waiting: dict[str, tuple[Question, Submission]] = {}
        self._stopped = False

    @property
    def running(self) -> int:
        """How many have no result yet."""
        return len(self._waiting)

    def stop(self) -> None:
        """Waits for no more results; the workers go on, and the next run finds what they did."""
        self._stopped = True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The results, in the order in which they come."""
        self._fill()
        while self._waiting and not self._stopped:
            submissions = [submission for _, submission in self._waiting.values()]
            outcomes = self._runs.find_outcomes(submissions)
            for id, reply, error, seconds in outcomes:
                question, _ = self._waiting.pop(id)
                self._order.release(question)
                result = build_result(question, [reply] if reply else [], error, seconds)
                # Where nobody named one, the session has the turn's id, and so has a failed turn's.
                yield {**result, "session_id": result["session_id"] or id}
            self._fill()
            if not outcomes:
                pause()

    def _fill(self) -> None:
        while len(self._waiting) < _MOST and not self._stopped:
            question = self._order.take()
            if question is None:
                return
            submission = self._submit(question)
            self._waiting[submission.id] = question, submission


class Submitter:
    """Submits questions, each once, however often the batch is run."""

    def __init__(
        self,
        agent: Agent,
        runs: DurableRuns,
        options: Options,
        *,
        queue: str,
        folder: BatchFolder,
        retries: int,
    ) -> None:
        self._agent, self._runs, self._options = agent, runs, options
        self._queue, self._retries = queue, retries
        self._folder = folder

    def submit(self, question: Question) -> Submission:
        """The submission of a question; one that an earlier run has made, if there is one."""
        options = merge_options(self._options, question.options)
        options["request_id"] = self._folder.build_request_id(question)
        return self._agent.submit(
            question.text,
            question.session,
            runs=self._runs,
            queue=self._queue,
            retries=self._retries,
            **options,
        )
