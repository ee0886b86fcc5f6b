"""Retrieve: the knowledge bases of the server, searched (Bedrock: agents runtime)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ValidationError
from orchestrator.server.operations import Handler, Request
from orchestrator.server.paging import decode_offset, encode_token
from orchestrator.server.runtime.guardrails import apply_guardrail, find_guardrail
from orchestrator.server.runtime.resources import check_retrieval
from orchestrator.server.runtime.response_shapes import get_converter

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_RESULTS = "KnowledgeBaseRetrievalResults"
_PAGE_CHARS = 1_000_000  # of the texts in one answer


def operations_of_knowledge(world: ServerState) -> dict[str, Handler]:
    """Retrieve."""
    return {"Retrieve": partial(_retrieve, world)}


def _retrieve(world: ServerState, request: Request) -> Mapping[str, Any]:
    params, caller = request.params, request.caller
    base = world.bases.base(caller, params["knowledgeBaseId"].rpartition("/")[2])
    query, configuration = (
        _read_text(params["retrievalQuery"]),
        params.get("retrievalConfiguration"),
    )
    check_retrieval(caller, configuration)
    guardrail = find_guardrail(caller, params.get("guardrailConfiguration"))
    name = _hash_search(params)
    start = decode_offset(params.get("nextToken"), name)
    found: Sequence[Mapping[str, Any]] = base.retrieve(query, configuration)
    answer: dict[str, Any] = {}
    if guardrail is not None:
        found, answer["guardrailAction"] = apply_guardrail(guardrail, query, found)
    end = _find_page_end(found, start)
    if end < len(found):
        answer["nextToken"] = encode_token([end], name)
    return {"retrievalResults": get_converter(_RESULTS)(found[start:end]), **answer}


def _read_text(query: Mapping[str, Any]) -> str:
    if query.get("type", "TEXT") != "TEXT" or "image" in query:
        raise ValidationError("a knowledge base of this server is searched by text: give 'text'")
    text = query.get("text")
    if not isinstance(text, str):
        raise ValidationError("the retrievalQuery has no text")
    return text


def _hash_search(params: Mapping[str, Any]) -> str:
    """What a token of a page is good for: the same search."""
    told = {key: it for key, it in params.items() if key != "nextToken"}
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _find_page_end(found: Sequence[Mapping[str, Any]], start: int) -> int:
    left, end = _PAGE_CHARS, start
    while end < len(found):
        left -= len(found[end]["content"].get("text") or "")
        if left < 0 and end > start:
            break
        end += 1
    return end
