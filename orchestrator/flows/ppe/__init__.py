"""Programmable Prompt Engine scripts: read whole, then run step by step."""

from __future__ import annotations

from pathlib import Path

from orchestrator.flows.steps import Program

__all__ = ["read"]


def read(text: str, file: Path | None = None) -> Program:
    """Reads a script.

    Args:
        text: The script.
        file: The file that it is from; what it loads lies beside it.

    Raises:
        FlowError: It is wrong, with line and column.
    """
    raise NotImplementedError
