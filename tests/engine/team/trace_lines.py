"""What traces of teams say, without ids and times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from botocore_shapes import problems

_TEXTS = {
    "rationale": lambda it: it["text"],
    "modelInvocationInput": lambda it: it["type"],
    "modelInvocationOutput": lambda it: "",
}


def trace_lines(trace: Iterable[dict[str, Any]]) -> list[str]:
    """A line for each part: who tells it, at what depth, and what it is."""
    return [_line(part) for part in trace]


def _line(part: dict[str, Any]) -> str:
    ((kind, inner),) = part["trace"].items()
    depth = len(part["callerChain"])
    who = part.get("collaboratorName", "boss")
    if kind in ("failureTrace", "guardrailTrace"):
        return f"{depth} {who} {kind}"
    member = next(name for name in inner if name not in ("traceId",))
    said = inner[member]
    shown = said.get("invocationType") or said.get("type") or ""
    name = member
    if kind != "orchestrationTrace":
        name = f"{kind.removesuffix('Trace')}.{member}"
    step = re.sub(r"^[0-9a-f-]{36}-", "", said["traceId"])
    more = _detail(said)
    return " ".join(filter(None, [str(depth), who, step, name, shown, more]))


def _detail(said: dict[str, Any]) -> str:
    for name in ("agentCollaboratorInvocationInput", "agentCollaboratorInvocationOutput"):
        if inner := said.get(name):
            flow = inner.get("input") or inner.get("output")
            return f"{inner['agentCollaboratorName']}:{flow['type']}:{flow.get('text', '')}"
    if inner := said.get("actionGroupInvocationInput"):
        return f"{inner['executionType']}:{inner['function']}"
    if inner := said.get("actionGroupInvocationOutput"):
        return str(inner["text"])
    if inner := said.get("finalResponse"):
        return str(inner["text"])
    return ""


def find_problems(trace: Iterable[dict[str, Any]]) -> list[str]:
    """What AWS's own model of a trace part does not allow in a trace."""
    return [found for part in trace for found in problems(part)]
