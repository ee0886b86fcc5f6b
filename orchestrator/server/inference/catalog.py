"""The models that this server answers for, as `bedrock` lists foundation models and profiles.

Listed are the ids that the operator has mapped one by one, and those of the caller's agents that a
mapping answers for: what fits a pattern, such as `anthropic.*`, has no end. An id of a region, such
as `us.anthropic.…`, is an inference profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.ids import Arns
from orchestrator.server.inference.models import Models
from orchestrator.server.operations import Caller, Handler, Request

if TYPE_CHECKING:
    from orchestrator.server.agents.store import AgentStore

# A model's id, with the region of a profile before it (Bedrock: BedrockModelId, and "Supported
# Regions and models for inference profiles").
_ID = re.compile(
    r"(?P<region>(?:us|us-gov|eu|ap|apac|au|ca|jp|sa|global)\.)?"
    r"(?P<model>(?P<provider>[a-z0-9-]{1,63})\.[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,2}"
    r"(?::[0-9a-z]{1,63}){0,2})"
)
_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:[a-z0-9-]*:[0-9]*:(?:foundation-model|inference-profile)/(?P<id>.+)"
)
_LONGEST_NAME = 20
_TEXT = ["TEXT"]

Data = Mapping[str, Any]


class ModelCatalog:
    """The models that are listed, and those that are described."""

    def __init__(self, models: Models, agents: AgentStore) -> None:
        self._models = models
        self._agents = agents

    @property
    def arns(self) -> Arns:
        """The ARNs of the server's things."""
        return self._agents.arns

    def list_ids(self, caller: Caller) -> list[str]:
        """The ids of models and profiles, in alphabetical order."""
        of_agents = {
            record.agent.get("foundationModel", "") for _, record in self._agents.agents(caller)
        }
        ids = {_strip_arn(it) for it in (*self._models.list_exact_ids(), *of_agents)}
        return sorted(it for it in ids if _ID.fullmatch(it) and self._models.is_mapped(it))

    def match(self, identifier: str) -> re.Match[str] | None:
        """The parts of an id or ARN, if this server answers for it."""
        id = _strip_arn(identifier)
        mapped = self._models.is_mapped(identifier) or self._models.is_mapped(id)
        return _ID.fullmatch(id) if mapped else None


def _strip_arn(identifier: str) -> str:
    found = _ARN.fullmatch(identifier)
    return found["id"] if found else identifier


def operations_of_catalog(models: Models, agents: AgentStore) -> dict[str, Handler]:
    """ListFoundationModels, GetFoundationModel, ListInferenceProfiles and GetInferenceProfile."""
    catalog = ModelCatalog(models, agents)
    handlers = {
        "ListFoundationModels": _list_models,
        "GetFoundationModel": _get_model,
        "ListInferenceProfiles": _list_profiles,
        "GetInferenceProfile": _get_profile,
    }
    return {name: partial(handler, catalog) for name, handler in handlers.items()}


def _list_models(catalog: ModelCatalog, request: Request) -> Data:
    params = request.params
    if "byCustomizationType" in params:
        return {"modelSummaries": []}
    wanted = {
        "outputModalities": params.get("byOutputModality", "TEXT"),
        "inferenceTypesSupported": params.get("byInferenceType", "ON_DEMAND"),
    }
    provider = params.get("byProvider", "").lower()
    found = [
        _describe_model(catalog, it)
        for it in _matches(catalog, request.caller)
        if not it["region"] and provider in ("", it["provider"])
    ]
    return {
        "modelSummaries": [
            it for it in found if all(value in it[name] for name, value in wanted.items())
        ]
    }


def _matches(catalog: ModelCatalog, caller: Caller) -> Iterator[re.Match[str]]:
    found = (catalog.match(id) for id in catalog.list_ids(caller))
    return (it for it in found if it is not None)


def _describe_model(catalog: ModelCatalog, found: re.Match[str]) -> dict[str, Any]:
    name = found["model"].partition(".")[2]
    return {
        "modelArn": catalog.arns.foundation_model(found["model"]),
        "modelId": found["model"],
        "modelName": name[:_LONGEST_NAME],
        "providerName": found["provider"].capitalize()[:_LONGEST_NAME],
        "inputModalities": _TEXT,
        "outputModalities": _TEXT,
        "responseStreamingSupported": True,
        "customizationsSupported": [],
        "inferenceTypesSupported": ["ON_DEMAND"],
        "modelLifecycle": {"status": "ACTIVE"},
    }


def _get_model(catalog: ModelCatalog, request: Request) -> Data:
    identifier = request.params["modelIdentifier"]
    found = catalog.match(identifier)
    if found is None or found["region"]:
        raise ResourceNotFound(f"this server has no model {identifier!r}; map one with --model")
    return {"modelDetails": _describe_model(catalog, found)}


def _list_profiles(catalog: ModelCatalog, request: Request) -> Data:
    params = request.params
    found = []
    if params.get("typeEquals", "SYSTEM_DEFINED") == "SYSTEM_DEFINED":
        found = [
            ((it[0],), _describe_profile(catalog, it))
            for it in _matches(catalog, request.caller)
            if it["region"]
        ]
    scope = f"{request.caller.tenant}\0profiles"
    page = paginate(found, params.get("maxResults"), params.get("nextToken"), scope)
    return render_page("inferenceProfileSummaries", page)


def _describe_profile(catalog: ModelCatalog, found: re.Match[str]) -> dict[str, Any]:
    id = found[0]
    return {
        "inferenceProfileName": re.sub(r"[^0-9a-zA-Z]+", "-", id)[:64],
        "inferenceProfileArn": catalog.arns.inference_profile(id),
        "inferenceProfileId": id,
        "models": [{"modelArn": catalog.arns.foundation_model(found["model"])}],
        "status": "ACTIVE",
        "type": "SYSTEM_DEFINED",
    }


def _get_profile(catalog: ModelCatalog, request: Request) -> Data:
    identifier = request.params["inferenceProfileIdentifier"]
    found = catalog.match(identifier)
    if found is None or not found["region"]:
        raise ResourceNotFound(
            f"this server has no inference profile {identifier!r}; map one with --model"
        )
    return _describe_profile(catalog, found)
