"""Which operations the server carries out, asked of one that is opened; see `coverage_page.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.wire.api import Api

Row = tuple[str, ...]

# Why an operation is not there, by a part of its name.
REASONS = {
    "RetrievalInstruction": "only AgenticRetrieveStream uses them",
    "AgenticRetrieveStream": "AWS does not document how its own agent searches; use an agent with "
    "knowledge bases",
    "VpcConfiguration": "knowledge bases here are files on this machine, in no VPC",
    "DocumentAcl": "documents have no access control lists here; each tenant has its key",
    "GetDocumentContent": "it answers with a presigned URL, whose signature is in the query "
    "string; the server does not accept such signatures",
    "OptimizePrompt": "it rewrites prompts with a model and instructions that only Amazon has",
    "AsyncInvoke": "only models that make or embed video need them, and there are none here",
    "InvokeModelWithBidirectionalStream": "only models that listen while they speak need it, "
    "and there are none here",
}


def operations() -> Iterator[Row]:
    """By service: the operations that have a handler, and those that are refused by name."""
    for service, (there, missing) in _list_operations().items():
        if there:
            yield f"`{service}`", f"works ({len(there)})", _format_names(there)
        if service == "bedrock":
            reason = "they manage models, jobs and accounts that Amazon runs"
            yield f"`{service}`", f"not yet ({len(missing)})", f"all others: {reason}"
            continue
        for reason in dict.fromkeys(map(_find_reason, missing)):
            names = [it for it in missing if _find_reason(it) == reason]
            yield f"`{service}`", f"not yet ({len(names)})", f"{_format_names(names)}: {reason}"


def _list_operations() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    world = ServerState(Settings())
    try:
        return Api(world.operations()).list_operations()
    finally:
        world.close()


def supported(service: str) -> tuple[str, ...]:
    """The operations of a service that have a handler."""
    return _list_operations()[service][0]


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _find_reason(name: str) -> str:
    """Why the server has no such operation; a new one needs a reason."""
    return next(reason for part, reason in REASONS.items() if part in name)


def summary() -> str:
    """How many of the operations on agents and models work."""
    found = {name: it for name, it in _list_operations().items() if name != "bedrock"}
    there = sum(len(names) for names, _ in found.values())
    total = there + sum(len(names) for _, names in found.values())
    services = ", ".join(f"`{name}`" for name in found)
    return f"Of the {total} operations of {services}, {there} work."
