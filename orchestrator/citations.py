"""Source ids for retrieved references, and Bedrock's citations made from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["cite", "source_ids"]


def source_ids(references: Sequence[Mapping[str, Any]], seed: str) -> dict[str, dict[str, Any]]:
    """Gives each reference a short id for the model to cite.

    The service uses random tokens of four letters; these are made from `seed`, so that a turn
    that is run again gives the same ones.
    """
    found: dict[str, dict[str, Any]] = {}
    for index, reference in enumerate(references):
        digest = hashlib.sha256(f"{seed}:{index}".encode()).hexdigest()
        length = next(size for size in range(4, 65) if digest[:size] not in found)
        found[digest[:length]] = dict(reference)
    return found


def cite(
    parts: Sequence[Mapping[str, Any]], sources: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Bedrock's citations of an answer whose parts name their sources.

    Args:
        parts: The parser's `generatedResponseParts`: texts with `references` by `sourceId`.
        sources: Retrieved references by source id; unknown ids are left out.

    Returns:
        One citation a part that has a known source, with the part's span in the whole text
        (`end` is the last character's index, as the service counts).
    """
    citations = []
    start = 0
    for part in parts:
        text = part.get("text") or ""
        ids = [reference.get("sourceId") for reference in part.get("references") or ()]
        known = [sources[id] for id in ids if id in sources]
        if known:
            span = {"start": start, "end": max(start + len(text) - 1, start)}
            response = {"textResponsePart": {"text": text, "span": span}}
            citations.append({"generatedResponsePart": response, "retrievedReferences": known})
        start += len(text) + 1
    return citations
