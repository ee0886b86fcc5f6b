"""The workflow prompt language: read whole, then run step by step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.errors import FlowError
from orchestrator.flows.pl.linting import doubtful_arrows, findings
from orchestrator.flows.pl.nodes import Block, CodeBlock, Loop
from orchestrator.flows.pl.uses import (
    Dependence,
    arguments_of,
    calls_in,
    find_dependences,
    statements_in,
)
from orchestrator.flows.steps import CallCatalog, Finding, Place, Running

__all__ = ["PlProgram"]


class PlProgram:
    """A program that was read; see `orchestrator.flows.steps.Program`."""

    language = "pl"
    text_input = "question"

    def __init__(self, text: str, file: Path | None, *, files: bool = False) -> None:
        from orchestrator.flows.pl.reader import read_program

        self.file = str(file) if file is not None else None
        self.digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        own = [file.resolve().parent] if file is not None else []
        self.folders: Sequence[Path] = own if files else []
        self.text = text
        self.body = read_program(text, self.file)
        self.doubts = [
            (place, f"{message}; {way}")
            for *_, place, message, way in doubtful_arrows(self.body, text)
        ]
        self.calls = calls_in(self.body)
        self.dependent = find_dependences(self.body)
        _refuse_dependent(self.body, self.dependent, self.file)
        self.uses_code = any(
            isinstance(it, CodeBlock) and it.kind != "json" for it in statements_in(self.body)
        )

    def run(self, arguments: Mapping[str, Any] | str | None, known: CallCatalog) -> Running:
        """Runs it; see `Program.run`."""
        from orchestrator.flows.pl.interpreter import Interpreter

        if isinstance(arguments, str):
            raise FlowError("the arguments of a program are values by name, and not one text")
        run = Interpreter(
            self.body, self.file, arguments or {}, known, self.dependent, files=bool(self.folders)
        )
        return run.run(self.calls, self.doubts)

    def arguments(self) -> tuple[list[str], set[str]]:
        """Which it wants, and which mean something to it; see `Program.arguments`."""
        return arguments_of(self.body)

    def findings(self) -> Iterator[Finding]:
        """What may not do what was meant; see `Program.findings`."""
        return findings(self.body, self.text)


def _refuse_dependent(body: Block, dependent: Mapping[Place, Dependence], file: str | None) -> None:
    for loop in statements_in(body):
        if not isinstance(loop, Loop) or loop.parallel is None or loop.place not in dependent:
            continue
        why = dependent[loop.place]
        raise loop.place.error(
            f"the items of this FOR cannot run side by side: {why.message}; leave PARALLEL out",
            f"此 FOR 的各项不能并行：{why.message_zh}；请去掉 PARALLEL",
            file,
            with_column=True,
        )
