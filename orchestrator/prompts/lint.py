"""What is doubtful about a template's placeholders: unknown, misplaced, missing, misspelt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError
from orchestrator.prompts.jsonbody import line_column
from orchestrator.prompts.leaf import Use
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    MEMORY_SUMMARIZATION,
    ORCHESTRATION,
    PLACEHOLDERS,
    POST_PROCESSING,
    PRE_PROCESSING,
    ROUTING_CLASSIFIER,
    lookup,
    names,
)

if TYPE_CHECKING:
    from orchestrator.prompts.dialect import Dialect
    from orchestrator.prompts.languages.base import Input

_Severity = Literal["error", "warning", "info"]

_NEEDED: dict[str, tuple[tuple[str, _Severity, str], ...]] = {
    PRE_PROCESSING: (("question", "error", "the model would not see the user's input"),),
    ORCHESTRATION: (
        ("question", "error", "the model would not see the user's input"),
        ("instruction", "warning", "the agent's instruction would not reach the model"),
        ("agent_scratchpad", "warning", "it marks where the turn's steps go; they go last"),
    ),
    KNOWLEDGE_BASE_RESPONSE_GENERATION: (
        ("search_results", "error", "the model would not see what was found"),
    ),
    POST_PROCESSING: (("latest_response", "error", "the model would not see the answer"),),
    MEMORY_SUMMARIZATION: (("conversation", "error", "the model would not see the conversation"),),
    ROUTING_CLASSIFIER: (
        ("last_user_request", "error", "the model would not see the user's input"),
        ("reachable_agents", "warning", "the model would not know whom to choose"),
    ),
}
_INSTEAD = {
    "instruction": ("model_instruction", "model_instructions"),
    "agent_scratchpad": ("bot_response",),
    "last_user_request": ("conversation",),
}
_ANCHORS = ("agent_scratchpad", "conversation_history")
_MAX_SUGGESTIONS = 100  # names of one template; comparing names takes time
_LOOSE = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_]*)\}|\$([A-Za-z][A-Za-z0-9_]*)(\$?)")


def lint_template(
    text: str,
    *,
    stage: str,
    dialect: Dialect,
    source: str | None = None,
    strict: bool = False,
    language: str | None = None,
) -> tuple[Diagnostic, ...]:
    """All that can be said against a template, without raising.

    Args:
        text: The template.
        stage: The prompt type.
        dialect: What the model understands.
        source: The file it came from.
        strict: Report what Bedrock's API may refuse as an error.
        language: The language it is written in, where the source's ending does not tell it.
    """
    from orchestrator.prompts.compiler import compile_template

    try:
        template = compile_template(
            text, stage=stage, dialect=dialect, source=source, strict=strict, language=language
        )
    except TemplateError as error:
        return (
            Diagnostic(
                severity="error",
                code="broken-template",
                message=error.reason,
                file=error.file,
                line=error.line,
                column=error.column,
            ),
        )
    return template.diagnostics


def inspect(text: str, stage: str, uses: Sequence[Use], source: str | None) -> Iterator[Diagnostic]:
    """Checks the placeholders of a template.

    Args:
        text: The template.
        stage: The prompt type.
        uses: What looks like a placeholder in it.
        source: The file it came from.
    """
    seen: set[str] = set()
    for use in uses:
        if finding := _check_use(use, stage, seen):
            severity, code, message, suggestion = finding
            yield Diagnostic(
                severity=severity,
                code=code,
                message=message,
                suggestion=suggestion,
                file=source,
                line=use.line,
                column=use.column,
            )
        seen.add(use.name)
    yield from _find_misspelt(text, stage, source)
    yield from _find_missing({use.name for use in uses}, stage, source, "$")


def inspect_inputs(
    inputs: Sequence[Input], stage: str, uses: Sequence[Use], source: str | None
) -> Iterator[Diagnostic]:
    """Checks the inputs of a template that is written in another language than Bedrock's.

    Args:
        inputs: Its inputs.
        stage: The prompt type.
        uses: Those that it uses.
        source: The file it came from.
    """
    own = {one.name for one in inputs if one.default is not None}
    for use in uses:
        if use.literal and use.name not in own:
            yield Diagnostic(
                severity="warning",
                code="unknown-placeholder",
                message=f"the input {use.name!r} is not a placeholder of {stage}; it is empty",
                suggestion=_suggest_input(use.name, stage),
                file=source,
                line=use.line,
                column=use.column,
            )
    yield from _find_missing({use.name for use in uses}, stage, source, "")


def _find_missing(
    used: set[str], stage: str, source: str | None, mark: str
) -> Iterator[Diagnostic]:
    for name, severity, reason in _NEEDED.get(stage, ()):
        if used.isdisjoint((name, *_INSTEAD.get(name, ()))):
            shown = f"{mark}{name}{mark}"
            yield Diagnostic(
                severity=severity,
                code="missing-placeholder",
                message=f"the {stage} template has no {shown}: {reason}",
                suggestion=f"put {shown} where it belongs",
                file=source,
            )


def _suggest_input(name: str, stage: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, names(stage), n=1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else "give it a default, or remove it"


def _check_use(use: Use, stage: str, seen: set[str]) -> tuple[_Severity, str, str, str] | None:
    shown = f"${use.name}$"
    if use.status == "unknown":
        stays = f"{shown} is not a placeholder of {stage}; it stays in the text as it is"
        suggestion = _suggest_placeholder(use.name, stage) if len(seen) < _MAX_SUGGESTIONS else ""
        return "warning", "unknown-placeholder", stays, suggestion
    if use.name in _ANCHORS and use.name in seen:
        return "warning", "repeated-anchor", f"{shown} occurs twice", "keep one of them"
    if use.literal:
        stages = sorted({row.stage for row in PLACEHOLDERS if row.name == use.name and row.stage})
        where = f"it belongs to {', '.join(stages)}" if stages else "it has no stage"
        stays = f"{shown} has no meaning in {stage} and stays in the text as it is: {where}"
        return "warning", "unsupported-placeholder", stays, "remove it"
    row = lookup(use.name, stage)
    if row is not None and not row.filled:
        empty = f"nothing fills {shown} here; it becomes the empty text"
        return "info", "unfilled-placeholder", empty, ""
    return None


def _suggest_placeholder(name: str, stage: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, names(stage), n=1, cutoff=0.7)
    return f"did you mean ${near[0]}$?" if near else "remove it, or write it in upper case"


def _find_misspelt(text: str, stage: str, source: str | None) -> Iterator[Diagnostic]:
    """Names that were meant as placeholders but are not written as such."""
    for found in _LOOSE.finditer(text):
        name = found[1] or found[2]
        well_written = found[3] and name.islower()
        if well_written or lookup(name.lower(), stage) is None:
            continue
        line, column = line_column(text, found.start())
        yield Diagnostic(
            severity="warning",
            code="misspelt-placeholder",
            message=f"{found[0]} is not a placeholder; it stays in the text as it is",
            suggestion=f"write ${name.lower()}$",
            file=source,
            line=line,
            column=column,
        )
