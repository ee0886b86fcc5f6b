"""The libraries that scripts need, which an installation without the extra does not have."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from orchestrator.errors import DefinitionError


def build_missing_error(library: str) -> DefinitionError:
    """The error of an installation that lacks a library."""
    return DefinitionError(
        f"scripts need {library!r}, of the extra 'flows': pip install 'bedrock-orchestrator[flows]'"
    )


def import_library(library: str) -> Any:
    """A library.

    Raises:
        DefinitionError: It is not installed.
    """
    try:
        return import_module(library)
    except ImportError as error:
        raise build_missing_error(library) from error
