"""How Python's names are spelled in Bedrock's documents."""

from __future__ import annotations


def to_camel(name: str) -> str:
    """`agent_name` as `agentName`; a name without underscores, or that begins with one, stays."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest) if first else name
