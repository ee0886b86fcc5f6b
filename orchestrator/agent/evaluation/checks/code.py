"""Checks that the author of the cases wrote in Python: `python: file.py:function`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.actions.handler_files import check_function, handler_file
from orchestrator.actions.handler_modules import HandlerModule
from orchestrator.agent.evaluation.checks.base import Judging, Verdict, shorten
from orchestrator.agent.evaluation.checks.values import read_texts
from orchestrator.errors import DefinitionError
from orchestrator.support.load_errors import build_load_failure


def load_function(spec: str, folder: Path | None, what: str) -> Callable[..., Any]:
    """The function that `file.py:function` names; runs the file.

    Raises:
        DefinitionError: There is none, or its file cannot be run.
    """
    file, colon, function = spec.rpartition(":")
    if not colon or not function.isidentifier():
        raise DefinitionError(f"the {what} {spec!r} is not written file.py:function")
    path = handler_file(file, folder, what, place="the folder of the cases")
    check_function(path, function)
    try:
        loaded: Callable[..., Any] = getattr(HandlerModule(path).load(), function)
    except (Exception, SystemExit) as error:
        raise build_load_failure(error, path) from error
    return loaded


def read_functions(value: Any, folder: Path) -> list[tuple[str, Callable[..., Any]]]:
    """Functions of Python files beside the file of cases."""
    try:
        return [(spec, load_function(spec, folder, "check")) for spec in read_texts(value, folder)]
    except DefinitionError as error:
        raise ValueError(str(error)) from error


def judge_functions(
    functions: Sequence[tuple[str, Callable[..., Any]]], judging: Judging
) -> Iterator[Verdict]:
    """Each function is given the outcome of the turn.

    It passes with `None` or true, and fails with false, a text that says why, or an
    `AssertionError`. Whatever else it raises is an error.
    """
    for spec, function in functions:
        try:
            result = function(judging.outcome)
        except AssertionError as error:
            result = str(error) or "the assertion failed"
        passed = result is None or result is True
        actual = "passed" if passed else shorten(str(result or "it returned false"))
        yield Verdict(passed, spec, actual)
