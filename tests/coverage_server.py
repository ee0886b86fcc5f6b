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
    "AgenticRetrieveStream": "how Amazon's own agent searches is not documented; an agent with "
    "knowledge bases does it here",
    "VpcConfiguration": "knowledge bases here are files of this machine, in no VPC",
    "DocumentAcl": "documents have no access control lists here; tenants have keys",
    "GetDocumentContent": "it answers with a presigned URL, which needs no signature; the server "
    "serves nobody without one",
    "OptimizePrompt": "it rewrites prompts with a model and instructions of Amazon's",
    "AsyncInvoke": "models that answer later make video or embed it, and none of those is here",
    "InvokeModelWithBidirectionalStream": "models that listen while they speak are not here",
}


def operations() -> Iterator[Row]:
    """By service: the operations that have a handler, and those that are refused by name."""
    for service, (there, missing) in _list_operations().items():
        if there:
            yield f"`{service}`", f"works ({len(there)})", _format_names(there)
        if service == "bedrock":
            reason = "they manage what Amazon runs: its models, jobs and accounts"
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
