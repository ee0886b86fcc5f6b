"""The results of a batch: one JSON object a line, and what an earlier run has left of them.

A process that is killed while it writes leaves half a line at the end, which is taken off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from orchestrator.cli.batch.folder import BatchFolder
from orchestrator.cli.batch.questions import Question, digest_text
from orchestrator.errors import SessionBusy, ValidationError
from orchestrator.support.private_files import open_private

_END = 65_536  # bytes that are read at once while the end of the file is looked for


class Results:
    """The file of results, which this process alone writes to.

    Of the results that are there it knows the ids alone, and enough of the questions to tell them
    from others.

    Attributes:
        file: The file.
        folder: What is kept beside it for the next run.
    """

    def __init__(self, file: Path, *, again: bool = False) -> None:
        """Opens the file, mends its end and reads it.

        Args:
            file: The file; it is made where there is none, for its owner alone.
            again: Whether results that are errors are taken out, so that they are asked again.

        Raises:
            ValidationError: It cannot be written, another process writes to it, or a line of it is
                no result.
        """
        self.file = file
        self._known: dict[str, bytes] = {}
        is_new = not file.exists()
        self._stream = self._open()
        try:
            self.folder = BatchFolder(file, is_new=is_new)
            _mend_end(self._stream)
            if again and self._write_without_failed():
                self._stream.close()
                self._stream = self._open()
            self._read()
        except BaseException:
            self._stream.close()
            raise

    def _open(self) -> IO[bytes]:
        try:
            stream: IO[bytes] = open_private(self.file, "r+b" if self.file.exists() else "w+b")
        except OSError as error:
            raise ValidationError(
                f"{str(self.file)!r} cannot be written: {error.strerror}; give --out FILE"
            ) from error
        try:
            self._lock(stream)
        except BaseException:
            stream.close()
            raise
        return stream

    def __enter__(self) -> Self:
        """The file itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self._stream.close()

    def has(self, question: Question) -> bool:
        """Whether a question's result is there.

        Raises:
            ValidationError: What is there under its id is the result of another question.
        """
        known = self._known.get(question.id)
        if known is not None and known != question.digest:
            raise ValidationError(
                f"{str(self.file)!r} has the result of another question under the id "
                f"{question.id!r} (line {question.line} of the questions); give another --out, or "
                "ids that stay when questions are added"
            )
        return known is not None

    def add(self, result: dict[str, Any]) -> None:
        """Writes a result, at once."""
        line = json.dumps(result, ensure_ascii=False, default=str)
        self._stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
        self._stream.flush()

    def _lock(self, stream: IO[bytes]) -> None:
        with suppress(ImportError):  # Windows has no such lock
            import fcntl

            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValidationError(
                    f"another batch is writing to {str(self.file)!r}; wait for its end, or give "
                    "another --out"
                ) from None

    def _read(self) -> None:
        for _, result in self._list():
            self._known[result["id"]] = digest_text(result["question"])

    def _write_without_failed(self) -> bool:
        """Whether there were errors; the file is another one then, which is there whole or not."""
        new = self.file.with_name(f".{self.file.name}.new")
        failed, anew = 0, list[str]()
        with open_private(new, "wb") as stream:
            for line, result in self._list():
                if result["error"] is None:
                    stream.write(line)
                    continue
                failed += 1
                if not _is_unasked(result["error"]):
                    anew.append(result["id"])
        if failed:
            self.folder.note_attempts(anew)
            os.replace(new, self.file)
        else:
            new.unlink()
        return failed > 0

    def _list(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        self._stream.seek(0)
        for number, line in enumerate(self._stream, 1):
            try:
                result = json.loads(line)
                is_result = isinstance(result["id"], str) and isinstance(result["question"], str)
                is_result = is_result and "error" in result
            except (ValueError, TypeError, KeyError, RecursionError):
                is_result = False
            if not is_result:
                raise ValidationError(
                    f"{str(self.file)!r}, line {number}, is no result of a batch; give another "
                    "--out, or remove the line"
                )
            yield line, result


def _is_unasked(error: object) -> bool:
    # The turn that an earlier run has begun was still another process's: it is gone on with.
    return isinstance(error, dict) and error.get("type") == SessionBusy.__name__


def _mend_end(stream: IO[bytes]) -> None:
    """Takes a last line off that has no end, unless only its end is missing."""
    size = stream.seek(0, os.SEEK_END)
    start = _find_last_line(stream, size)
    stream.seek(start)
    last = stream.read()
    if not last:
        return
    try:
        whole = isinstance(json.loads(last), dict)
    except (ValueError, RecursionError):
        whole = False
    if whole:
        stream.write(b"\n")
    else:
        stream.truncate(start)
    stream.flush()


def _find_last_line(stream: IO[bytes], size: int) -> int:
    """Where the text after the last line end begins."""
    end = size
    while end > 0:
        begin = max(end - _END, 0)
        stream.seek(begin)
        found = stream.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
