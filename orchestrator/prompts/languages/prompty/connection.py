"""How a Prompty file says that its model is reached: `model.connection`, or `configuration`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import ValidationError

# What the versions of Prompty, promptflow and Semantic Kernel call the same members.
_NAMES = ("azure_deployment", "azureDeployment", "deployment", "model", "name")
_ENDPOINTS = ("endpoint", "azure_endpoint", "azureEndpoint", "base_url", "baseUrl", "url")
_KEYS = ("apiKey", "api_key", "key")
_TYPES = ("provider", "type", "kind")
# Kinds of connections that say nothing of the service behind them (Prompty: `Connection.kind`).
_KINDS = ("key", "reference", "remote", "anonymous", "oauth")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a template's model is, as far as its file says."""

    name: str = ""  # the model, or its deployment
    provider: str = ""  # as the file writes it: `openai`, `azure_openai`, `serverless`, ...
    api: str = "chat"  # `chat`, `completion`, `responses`, `embedding`, `image`
    endpoint: str = ""
    # `None` where the file has none; the empty key where it says that none is needed
    key: str | None = field(default=None, repr=False)


def build_model_source(model: Mapping[str, Any], connection: Mapping[str, Any]) -> ModelSource:
    """The source of a model, of its member `model` and the connection with resolved references.

    Raises:
        ValidationError: A member is no text.
    """
    kind = _get(connection, "kind")
    kinds = [_get(one, name) for one in (model, connection) for name in _TYPES]
    provider = next((one for one in kinds if one and one not in _KINDS), "")
    if not provider and any(one.startswith("azure") for one in connection):
        provider = "azure_openai"
    key = _get(connection, *_KEYS)
    return ModelSource(
        _get(model, "id") or _get(connection, *_NAMES),
        provider.lower(),
        (_get(model, "apiType", "api") or "chat").lower(),
        _get(connection, *_ENDPOINTS),
        key or ("" if kind == "anonymous" else None),
    )


def _get(members: Mapping[str, Any], *names: str) -> str:
    found = next((members[one] for one in names if members.get(one) is not None), "")
    if not isinstance(found, str | int | float):
        raise ValidationError(f"{names[0]!r} of the template's model must be a text")
    return str(found)
