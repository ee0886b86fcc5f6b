"""Asks the questions of a batch: several at the same time, those of one session in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestrator.cli.batch.questions import Question
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

_MOST_HELD = 1_000  # questions that were read, and wait for an earlier one of their session

Ask: TypeAlias = Callable[[Question], dict[str, Any]]


class Order:
    """Gives questions in their order, but none while an earlier one of its session is asked."""

    def __init__(self, questions: Iterator[Question]) -> None:
        self._questions = questions
        self._held: deque[Question] = deque()
        self._busy: set[str] = set()

    def take(self) -> Question | None:
        """The next question that can be asked now, if there is one."""
        blocked = set(self._busy)
        for place, question in enumerate(self._held):
            if question.session not in blocked:
                del self._held[place]
                return self._begin(question)
            blocked.add(question.session)
        while len(self._held) < _MOST_HELD:
            following = next(self._questions, None)
            if following is None:
                return None
            if following.session is None or following.session not in blocked:
                return self._begin(following)
            self._held.append(following)
        return None

    def release(self, question: Question) -> None:
        """Says that a question has its result."""
        if question.session is not None:
            self._busy.discard(question.session)

    def _begin(self, question: Question) -> Question:
        if question.session is not None:
            self._busy.add(question.session)
        return question


class Window:
    """The questions that are asked at the moment, each in a thread."""

    def __init__(self, order: Order, ask: Ask, most: int) -> None:
        self._order, self._ask, self._most = order, ask, most
        self._ended: SimpleQueue[tuple[Question, Future[dict[str, Any]]]] = SimpleQueue()
        self._stopped = False
        self.running = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The results, in the order in which they come."""
        self._fill()
        while self.running:
            question, future = self._ended.get()
            self.running -= 1
            self._order.release(question)
            self._fill()
            yield future.result()

    def stop(self) -> None:
        """Begins no more questions; those that were begun have their results."""
        self._stopped = True

    def _fill(self) -> None:
        while self.running < self._most and not self._stopped:
            question = self._order.take()
            if question is None:
                return
            self.running += 1
            future = in_thread(partial(self._ask, question))
            future.add_done_callback(partial(self._note_end, question))

    def _note_end(self, question: Question, future: Future[dict[str, Any]]) -> None:
        self._ended.put((question, future))
