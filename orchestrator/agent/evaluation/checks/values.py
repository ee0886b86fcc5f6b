"""Readers of what a case says about a check; each raises `ValueError` for anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.support.regexes import Regex, compile_regex

Reader = Callable[[Any, Path], Any]


def show(value: Any) -> str:
    """A value, for a message."""
    return json.dumps(value, ensure_ascii=False)[:80]


def read_text(value: Any, _: Path) -> str:
    """A text with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{show(value)} is not a text")
    return value


def read_flag(value: Any, _: Path) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{show(value)} is neither true nor false")
    return value


def read_true(value: Any, _: Path) -> bool:
    """True: leaving the check out is the only other choice."""
    if value is not True:
        raise ValueError(f"{show(value)} is not true; leave the check out instead")
    return True


def read_number(value: Any, _: Path) -> float:
    """A number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{show(value)} is not a number from 0")
    return value


def read_count(value: Any, _: Path) -> int:
    """A whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{show(value)} is not a whole number from 0")
    return value


def read_texts(value: Any, folder: Path) -> list[str]:
    """A text, or a list of them."""
    if isinstance(value, list):
        if not value:
            raise ValueError("the list is empty")
        return [read_text(one, folder) for one in value]
    return [read_text(value, folder)]


def read_groups(value: Any, folder: Path) -> list[list[str]]:
    """Texts that must all be there; a list inside names alternatives."""
    if not isinstance(value, list):
        return [[read_text(value, folder)]]
    if not value:
        raise ValueError("the list is empty")
    return [read_texts(one, folder) for one in value]


def read_patterns(value: Any, folder: Path) -> list[tuple[str, Regex]]:
    """Regular expressions in RE2's syntax."""
    return [(text, compile_pattern(text)) for text in read_texts(value, folder)]


def compile_pattern(text: str) -> Regex:
    """A regular expression.

    Raises:
        ValueError: It is none, or uses what RE2 does not have.
    """
    try:
        return compile_regex(text)
    except DefinitionError as error:
        raise ValueError(error.reason) from error
