"""Programmable Prompt Engine scripts: read whole, then run step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.flows.steps import CallCatalog, Event, Finding, Outcome, Place, Running

__all__ = ["PpeScript"]


class PpeScript:
    """A script that was read; see `orchestrator.flows.steps.Program`."""

    language = "ppe"
    uses_code = False

    def __init__(self, text: str, file: Path | None, libraries: Sequence[Path] = ()) -> None:
        from orchestrator.flows.ppe.library import Library
        from orchestrator.flows.ppe.output import inputs_of, text_input
        from orchestrator.flows.ppe.reader import read_script

        self.file = str(file) if file is not None else None
        # A script reads files beside it, and in the folders that its user names for it.
        own = [file.resolve().parent] if file is not None else []
        self.folders: Sequence[Path] = [*own, *libraries]
        self._text = text
        self._library = Library(text, file, libraries)
        self.digest = self._library.digest
        self._script = self._library.resolve_inheritance(read_script(text, "main", self.file))
        self.text_input = text_input(inputs_of(self._script.front.get("input")))

    def findings(self) -> Iterator[Finding]:
        """What may not do what was meant; see `Program.findings`."""
        from orchestrator.flows.ppe.linting import findings

        return findings(self._text, self._script, self._library)

    def arguments(self) -> tuple[list[str], frozenset[str] | None]:
        """Which it wants, and which mean something to it; see `Program.arguments`."""
        from orchestrator.flows.ppe.uses import arguments_of

        return arguments_of(self._script)

    def run(self, arguments: Mapping[str, Any] | str | None, known: CallCatalog) -> Running:
        """Runs it; see `Program.run`."""
        from orchestrator.flows.ppe.data import plain
        from orchestrator.flows.ppe.dialogue import merge_messages
        from orchestrator.flows.ppe.interpreter import Interpreter

        args = [arguments] if isinstance(arguments, str) else []
        named = {} if isinstance(arguments, str) else dict(arguments or {})
        start = Place(1)
        yield Event("run_start", start)
        run = Interpreter(self._script, self._library, known, args, named)
        output = yield from run.run()
        known.work.measure(output)
        output = plain(output)
        yield Event("run_end", start, {"output": output})
        system, messages = merge_messages([(one.role, one.done) for one in run.dialogue.all])
        system_messages = [{"role": "system", "content": [{"text": system}]}] if system else []
        variables = run.data.whole()
        known.work.measure(variables)
        return Outcome(output, plain(variables), [*system_messages, *messages])
