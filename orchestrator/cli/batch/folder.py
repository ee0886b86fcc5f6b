"""What a batch keeps beside its results, so that it goes on after a kill and repeats nothing.

A hidden, private folder has the batch's id, how often each question was asked, and the journal of
the turns unless they are kept elsewhere. Each question has a session and a request id that are made
of these alone: the next run finds what became of its turn in the journal.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID, uuid4, uuid5

from orchestrator.cli.batch.questions import Question
from orchestrator.errors import ValidationError
from orchestrator.support.private_files import make_private_folder, open_private


class BatchFolder:
    """The folder of one batch, of whichever run.

    Attributes:
        path: The folder.
        id: Names the batch.
        sessions_file: Where the journal of its turns is, if no other store was named.
    """

    def __init__(self, results: Path, *, is_new: bool) -> None:
        """Opens the folder, and makes it where it is missing.

        Args:
            results: The file of results, which nobody else writes to.
            is_new: Whether it was made just now. Results that were deleted are another batch, whose
                questions are asked again: what is left of the former one is deleted, too.

        Raises:
            ValidationError: It cannot be written.
        """
        self.path = results.with_name(f".{results.name}.batch")
        self.sessions_file = self.path / "sessions.sqlite"
        self._attempts_file = self.path / "attempts.jsonl"
        try:
            if is_new and self.path.is_dir():
                shutil.rmtree(self.path)
            make_private_folder(self.path)
            self.id = self._read_id()
            self._attempts = self._read_attempts()
        except OSError as error:
            raise ValidationError(
                f"the folder {str(self.path)!r}, in which a batch keeps what its next run has to "
                f"know, cannot be used: {error.strerror}; give --out FILE"
            ) from error

    def build_session_id(self, question: Question) -> str:
        """The session of a question that names none."""
        return self._build_id("session", question)

    def build_request_id(self, question: Question) -> str:
        """The request id of a question's turn: the same one in each run, until it is retried."""
        return self._build_id("request", question)

    def note_attempts(self, ids: Iterable[str]) -> None:
        """Notes that questions are asked anew, before their failed results are taken away.

        Raises:
            OSError: They cannot be written.
        """
        with open_private(self._attempts_file, "a", encoding="ascii") as file:
            for id in ids:
                self._attempts[id] += 1
                file.write(json.dumps(id) + "\n")

    def _build_id(self, kind: str, question: Question) -> str:
        # JSON: no two questions have the same text, and half a surrogate pair has one.
        names = [kind, self._attempts[question.id], question.id, question.digest.hex()]
        return str(uuid5(self.id, json.dumps(names)))

    def _read_id(self) -> UUID:
        file = self.path / "id"
        try:
            return UUID(file.read_text(encoding="ascii").strip())
        except (FileNotFoundError, ValueError):
            made = uuid4()
        with open_private(file) as stream:
            stream.write(f"{made}\n")
        return made

    def _read_attempts(self) -> Counter[str]:
        attempts: Counter[str] = Counter()
        try:
            lines = self._attempts_file.read_text(encoding="ascii").splitlines()
        except (FileNotFoundError, UnicodeDecodeError):
            return attempts
        for line in lines:
            try:
                attempts[str(json.loads(line))] += 1
            except (ValueError, RecursionError):  # half a line, of a process that was killed
                continue
        return attempts
