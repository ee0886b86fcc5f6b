"""Interpreters that end with their test, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from interpreter_support import children

from orchestrator.actions.code_interpreter import CodeInterpreter, CodeInterpreterSettings


@pytest.fixture
def make() -> Iterator[Callable[..., CodeInterpreter]]:
    """Makes interpreters with some settings."""
    made: list[CodeInterpreter] = []
    before = children()

    def make(**changes: object) -> CodeInterpreter:
        made.append(CodeInterpreter(CodeInterpreterSettings(**changes)))
        return made[-1]

    yield make
    assert children() <= before
    for interpreter in made:
        interpreter.close()


@pytest.fixture
def interpreter(make: Callable[..., CodeInterpreter]) -> CodeInterpreter:
    return make()
