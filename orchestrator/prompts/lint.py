"""What is doubtful about a template's placeholders: unknown, misplaced, missing, misspelt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from orchestrator.diagnostics import Diagnostic
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
from orchestrator.prompts.source import Source, find_close, warn
from orchestrator.prompts.template import Use

if TYPE_CHECKING:
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
# Comparing names takes time: a hostile template could have thousands of unknown ones.
_MAX_SUGGESTIONS = 100
_LOOSE = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_]*)\}|\$([A-Za-z][A-Za-z0-9_]*)(\$?)")


def inspect(source: Source, stage: str, uses: Sequence[Use]) -> Iterator[Diagnostic]:
    """Checks what looks like a placeholder in a template."""
    seen: set[str] = set()
    for use in uses:
        if finding := _check_use(use, stage, seen):
            severity, code, message, instead = finding
            place = (source.file, use.line, use.column)
            yield warn(code, message, instead, *place, severity=severity)
        seen.add(use.name)
    yield from _find_misspelt(source, stage)
    yield from _find_missing({use.name for use in uses}, stage, source.file, "$")


def inspect_inputs(
    inputs: Sequence[Input], stage: str, uses: Sequence[Use], source: str | None
) -> Iterator[Diagnostic]:
    """Checks the inputs of a template in another language than Bedrock's."""
    own = {one.name for one in inputs if one.default is not None}
    for use in uses:
        if use.literal and use.name not in own:
            message = f"the input {use.name!r} is not a placeholder of {stage}; it is empty"
            near = find_close(use.name, names(stage), 0.7)
            instead = f"did you mean {near!r}?" if near else "give it a default, or remove it"
            yield warn("unknown-placeholder", message, instead, source, use.line, use.column)
    yield from _find_missing({use.name for use in uses}, stage, source, "")


def _find_missing(
    used: set[str], stage: str, source: str | None, mark: str
) -> Iterator[Diagnostic]:
    for name, severity, reason in _NEEDED.get(stage, ()):
        if used.isdisjoint((name, *_INSTEAD.get(name, ()))):
            shown = f"{mark}{name}{mark}"
            message = f"the {stage} template has no {shown}: {reason}"
            suggestion = f"put {shown} where it belongs"
            yield warn("missing-placeholder", message, suggestion, source, severity=severity)


def _check_use(use: Use, stage: str, seen: set[str]) -> tuple[_Severity, str, str, str] | None:
    shown = f"${use.name}$"
    if use.status == "unknown":
        stays = f"{shown} is not a placeholder of {stage}; it stays in the text as it is"
        if len(seen) >= _MAX_SUGGESTIONS:
            return "warning", "unknown-placeholder", stays, ""
        near = find_close(use.name, names(stage), 0.7)
        instead = f"did you mean ${near}$?" if near else "remove it, or write it in upper case"
        return "warning", "unknown-placeholder", stays, instead
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


def _find_misspelt(source: Source, stage: str) -> Iterator[Diagnostic]:
    # `${question}`, `$question` and `$QUESTION$` are text to Bedrock; few authors mean that.
    for found in _LOOSE.finditer(source.text):
        name = found[1] or found[2]
        well_written = found[3] and name.islower()
        if well_written or lookup(name.lower(), stage) is None:
            continue
        message = f"{found[0]} is not a placeholder; it stays in the text as it is"
        instead = f"write ${name.lower()}$"
        yield source.warn("misspelt-placeholder", message, found.start(), instead)
