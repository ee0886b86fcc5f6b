"""Errors of what users wrote, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError

_KINDS = {"TemplateError": "template", "FlowError": "script"}


def as_findings(error: DefinitionError) -> tuple[Diagnostic, ...]:
    """The findings in an error, at least one."""
    if error.diagnostics:
        return error.diagnostics
    kind = _KINDS.get(type(error).__name__, "definition")
    return (
        Diagnostic(
            severity="error",
            code=kind,
            message=error.reason,
            file=error.file,
            line=error.line,
            column=error.column,
        ),
    )


@contextmanager
def collect_findings(found: list[Diagnostic]) -> Iterator[None]:
    """Adds the findings of an error that ends what is within."""
    try:
        yield
    except DefinitionError as error:
        found += as_findings(error)
