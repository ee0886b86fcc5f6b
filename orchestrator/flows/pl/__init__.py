"""The workflow prompt language: read whole, then run step by step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import FlowError
from orchestrator.flows.pl.nodes import Block, CodeBlock, If, Loop
from orchestrator.flows.steps import Known, Program, Running

__all__ = ["read"]


class _Program:
    """A program that was read; see `orchestrator.flows.steps.Program`."""

    language = "pl"
    text_input = "question"

    def __init__(self, text: str, file: Path | None) -> None:
        from orchestrator.flows.pl.reader import read_program

        self.file = str(file) if file is not None else None
        self.digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        self.body = read_program(text, self.file)
        self.uses_code = _has_code(self.body)

    def run(self, arguments: Mapping[str, Any] | str | None, known: Known) -> Running:
        """Runs it; see `Program.run`."""
        from orchestrator.flows.pl.interpreter import Interpreter

        if isinstance(arguments, str):
            raise FlowError("the arguments of a program are values by name, and not one text")
        return Interpreter(self.body, self.file, arguments or {}, known).run()


def _has_code(body: Block) -> bool:
    for one in body:
        if isinstance(one, CodeBlock) and one.kind != "json":
            return True
        if isinstance(one, Loop) and _has_code(one.body):
            return True
        if isinstance(one, If) and any(_has_code(branch.body) for branch in one.branches):
            return True
    return False


def read(text: str, file: Path | None = None) -> Program:
    """Reads a program.

    Args:
        text: The program.
        file: The file that it is from.

    Raises:
        FlowError: It is wrong, with line and column.
    """
    return _Program(text, file)
