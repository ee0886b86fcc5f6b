"""Resource policies of knowledge bases: stored and shown; what a key may use is for its `allow`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.ids import new_id
from orchestrator.server.knowledge_bases.service import POLICY, Data, KnowledgeBaseService
from orchestrator.server.operations import Request, conflict_error, pick
from orchestrator.support.safe_json import json_or

_ARN = re.compile(
    r"arn:aws[^:]*:bedrock:(?P<region>[^:]+):(?P<account>\d{12}):knowledge-base/(?P<id>\w+)",
    re.ASCII,
)


def put(bases: KnowledgeBaseService, request: Request) -> Data:
    """PutResourcePolicy: another policy in the place of the one that is there."""
    params, tenant = request.params, request.caller.tenant
    if not isinstance(json_or(params["policy"], None), dict):
        raise ValidationError("the policy is not a JSON object")
    with bases.documents.transaction():
        id = _find_id(bases, request)
        _check_revision(bases.documents.get(tenant, POLICY, id), params)
        policy = {"policy": params["policy"], "revisionId": new_id()}
        bases.documents.put(tenant, POLICY, id, policy)
    return {"resourceArn": params["resourceArn"], "revisionId": policy["revisionId"]}


def _find_id(bases: KnowledgeBaseService, request: Request) -> str:
    """The id of the knowledge base whose policy a request is about."""
    arn = request.params["resourceArn"]
    found = _ARN.fullmatch(arn)
    if found is None or found.group("region", "account") != bases.arns:
        raise ResourceNotFound(f"there is no knowledge base {arn!r}")
    bases.record(request.caller.tenant, found["id"])
    return found["id"]


def _check_revision(stored: Mapping[str, Any] | None, params: Data) -> None:
    expected = params.get("expectedRevisionId")
    if expected is not None and (stored or {}).get("revisionId") != expected:
        raise conflict_error(
            f"the policy is not of the revision {expected!r} any more; read it again"
        )


def get(bases: KnowledgeBaseService, request: Request) -> Data:
    """GetResourcePolicy."""
    return {"resourceArn": request.params["resourceArn"], **_get_policy(bases, request)}


def _get_policy(bases: KnowledgeBaseService, request: Request) -> dict[str, Any]:
    id = _find_id(bases, request)
    stored = bases.documents.get(request.caller.tenant, POLICY, id)
    if stored is None:
        raise ResourceNotFound(f"the knowledge base {id!r} has no policy")
    return stored


def delete(bases: KnowledgeBaseService, request: Request) -> Data:
    """DeleteResourcePolicy."""
    with bases.documents.transaction():
        stored = _get_policy(bases, request)
        _check_revision(stored, request.params)
        bases.documents.delete(request.caller.tenant, POLICY, _find_id(bases, request))
    return {"resourceArn": request.params["resourceArn"], **pick(stored, ("revisionId",))}


HANDLERS: Mapping[str, Callable[[KnowledgeBaseService, Request], Data]] = {
    "PutResourcePolicy": put,
    "GetResourcePolicy": get,
    "DeleteResourcePolicy": delete,
}
