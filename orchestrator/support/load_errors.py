"""A Python file of the user's that cannot be loaded: what is wrong, and where.

What a file raises while it is loaded is no answer to anybody's call, and whoever wrote the file has
to read it, with its line and its source. But callers over HTTP did not write it, and logs are read
by others. So all of it is shown only in its user's own terminal (`report_load_errors`); errors have
the message alone, without known credentials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError
from orchestrator.support.redaction import is_credential, redact
from orchestrator.support.user_code import find_innermost

Report = Callable[[Diagnostic], None]

# Shorter values of variables are words that messages have, too.
_SHORTEST_SECRET = 12
_report: Report | None = None


@contextmanager
def report_load_errors(report: Report | None) -> Iterator[None]:
    """Gives `report` what is wrong with files that are loaded within, in any thread."""
    global _report
    before, _report = _report, report
    try:
        yield
    finally:
        _report = before


def reports_load_errors() -> bool:
    """Whether somebody may read what files raise while they are loaded."""
    return _report is not None


def report_load_error(finding: Diagnostic) -> None:
    """Passes a finding on to whoever may read it."""
    if _report is not None:
        _report(finding)


def find_load_error(
    error: BaseException, file: Path, environment: Mapping[str, str] | None = None
) -> Diagnostic:
    """What a file raised while it was loaded, without credentials of its environment.

    The place is the innermost one in the file's folder, so that of a module beside it, too.
    """
    where, line, column = _find_place(error, file)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return describe_load_error(type(error).__name__, text, where, line, column, environment)


def describe_load_error(
    kind: str,
    text: str,
    file: Path,
    line: int | None = None,
    column: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Diagnostic:
    """The same, of an exception of which only the type's name and the text are known."""
    secrets = [
        value
        for name, value in {**os.environ, **(environment or {})}.items()
        if len(value) >= _SHORTEST_SECRET and is_credential(name, value)
    ]
    shown = redact(text, secrets).strip()
    return Diagnostic(
        severity="error",
        code="load",
        message=f"running the file failed with {kind}{': ' if shown else ''}{shown}",
        file=str(file),
        line=line,
        column=column,
    )


def build_load_failure(error: BaseException, file: Path) -> DefinitionError:
    """The error of a definition that needs the file."""
    found = find_load_error(error, file)
    return DefinitionError(found.message, file=found.file, line=found.line, column=found.column)


def _find_place(error: BaseException, file: Path) -> tuple[Path, int | None, int | None]:
    folder = file.parent
    if isinstance(error, SyntaxError) and error.filename:
        if Path(error.filename).is_relative_to(folder):
            return Path(error.filename), error.lineno, error.offset
    found = find_innermost(error, lambda name: Path(name).is_relative_to(folder))
    return (Path(found[0]), found[1], None) if found else (file, None, None)
