"""An evaluation that is held: its matrix, and the file in which each result is kept at once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, closing
from pathlib import Path

from orchestrator.agent.evaluation.matrix import Evaluation, Matrix
from orchestrator.agent.evaluation.results import CaseResult
from orchestrator.agent.evaluation.run_file import Run, RunFile


class Execution:
    """A run that is new, or goes on. A context that closes its agents and its file.

    Attributes:
        run: What is in its file; results are added as they come.
        resumed: How many were there already.
    """

    def __init__(self, evaluation: Evaluation, file: Path) -> None:
        """Loads the agents and opens the file.

        Raises:
            OrchestratorError: An agent, a model or a template is wrong; or the file holds a run of
                something else, or cannot be written.
        """
        with ExitStack() as stack:
            self._matrix = stack.enter_context(Matrix(evaluation))
            self._file = stack.enter_context(RunFile(file, self._matrix.head()))
            self._stack = stack.pop_all()
        self.run: Run = self._file.run
        self.resumed = self._file.resumed

    def iterate(self) -> Generator[CaseResult, None, None]:
        """Holds what is not there yet, and gives each result when it is kept.

        Closing the iterator ends it after the turns that run.
        """
        with closing(self._matrix.run({result.key for result in self.run.results})) as results:
            for result in results:
                self._file.add(result)
                yield result

    def stop(self) -> None:
        """Has the iterator end, from another thread: turns that run end first."""
        self._matrix.stop()

    def __enter__(self) -> Execution:
        """The execution itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self._stack.close()
