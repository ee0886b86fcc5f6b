"""Which model a template's file names, and how it is reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from orchestrator.errors import ResourceNotFound, TemplateError, ValidationError
from orchestrator.models import Model, resolve_model
from orchestrator.models.openai import LOOPBACK, OPENAI, OpenAIModel
from orchestrator.prompts.languages.base import Document
from orchestrator.prompts.languages.prompty.connection import ModelSource
from orchestrator.prompts.languages.prompty.document import PromptyDocument

_AZURE = ("azure_openai", "azure", "azureopenai", "azure-openai", "azure_openai_beta")
_OPENAI = ("openai",)
# Services that speak OpenAI's protocol at the address that the file gives.
_COMPATIBLE = ("serverless", "azure_ai", "foundry", "github", "ollama", "vllm")
_OPENAI_NAMES = ("gpt-", "o1", "o3", "o4", "chatgpt")
_NO_CHAT = {"embedding": "embeds texts", "image": "makes images"}
_GIVE = "give a model: --model SPEC, in Python model=..."


def resolve_template_model(document: Document, model: str | Model | None) -> Model:
    """The model of a run: the one that is given, else the one that the template's file names.

    Raises:
        ResourceNotFound: The file names none that can be had here; the message says what to do.
        TemplateError: A variable that the file's connection names is not set.
        ValidationError: The template is no prompt of a chat.
    """
    source = ModelSource(str(document.settings.get("model") or ""))
    if isinstance(document, PromptyDocument):
        _check_api(document)
        source = _read_source(document) if model is None else source
    return resolve_model(model) if model is not None else _resolve_source(source)


def names_model(document: Document) -> bool:
    """Whether a template's file says anything of its model."""
    if isinstance(document, PromptyDocument) and document.connection:
        return True
    return bool(document.settings.get("model"))


def _read_source(document: PromptyDocument) -> ModelSource:
    try:
        return document.read_model()
    except TemplateError as error:
        raise TemplateError(
            f"{error.reason}. Or {_GIVE}", file=error.file, line=error.line, column=error.column
        ) from None


def _check_api(document: PromptyDocument) -> None:
    model = document.model if isinstance(document.model, Mapping) else {}
    api = str(model.get("apiType") or model.get("api") or "chat").lower()
    if api in _NO_CHAT:
        raise ValidationError(
            f"the template is for a model that {_NO_CHAT[api]} (api: {api}), and no chat; it can "
            "only be rendered"
        )


def _resolve_source(source: ModelSource) -> Model:
    provider, name = source.provider, source.name
    if provider in _AZURE:
        return _build_azure_model(source)
    if provider in _OPENAI or (not provider and source.endpoint) or provider in _COMPATIBLE:
        return _build_openai_model(source)
    if provider and provider not in ("bedrock", "aws_bedrock", "aws"):
        raise ResourceNotFound(
            f"the template's model is of {provider!r}, which is not supported: there is openai, "
            f"azure_openai, bedrock and what speaks OpenAI's protocol at an endpoint. Else {_GIVE}"
        )
    if not name:
        raise ResourceNotFound(f"the template names no model; {_GIVE}")
    if not provider and name.lower().startswith(_OPENAI_NAMES):
        return _build_openai_model(source)
    try:
        return resolve_model(name)
    except ValidationError as error:
        reason = error.message
        raise ResourceNotFound(f"the template's model {name!r}: {reason}. Or {_GIVE}") from error


def _build_azure_model(source: ModelSource) -> Model:
    endpoint = source.endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT", "")
    if not endpoint:
        raise ResourceNotFound(
            "the template's model is of Azure OpenAI, and nothing says where that is: set "
            "AZURE_OPENAI_ENDPOINT (and AZURE_OPENAI_API_KEY), or write azure_endpoint: into its "
            f"connection. Or {_GIVE}"
        )
    key = _read_azure_key(endpoint) if source.key is None else source.key
    _check_name(source)
    if key is None:
        raise ResourceNotFound(
            "the template's model is of Azure OpenAI, and there is no key for it: set "
            f"AZURE_OPENAI_API_KEY, or write api_key: into its connection. Or {_GIVE}"
        )
    # Azure's own path of OpenAI's protocol; an endpoint may have it already.
    base = endpoint.rstrip("/")
    base = base if "/openai" in base else f"{base}/openai/v1"
    return OpenAIModel(source.name, base, api_key=key)


def _read_azure_key(endpoint: str) -> str | None:
    # As for OpenAI's key: endpoints come from files, so the environment's key goes over https or
    # to this machine only.
    parts = urlsplit(endpoint)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise ValidationError(
            f"the endpoint {endpoint!r} of the template's model is not https, so it does not get "
            "the environment's AZURE_OPENAI_API_KEY; write https://, or api_key: into the "
            f"connection. Or {_GIVE}"
        )
    return os.environ.get("AZURE_OPENAI_API_KEY")


def _build_openai_model(source: ModelSource) -> Model:
    _check_name(source)
    base = source.endpoint or os.environ.get("OPENAI_BASE_URL", OPENAI)
    return OpenAIModel(source.name, base, api_key=source.key)


def _check_name(source: ModelSource) -> None:
    if not source.name:
        raise ResourceNotFound(
            f"the template says how its model is reached, and not which it is: write id: into its "
            f"model. Or {_GIVE}"
        )


# What Prompty calls options of chat completions.
_OPTIONS = {
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "allowMultipleToolCalls": "parallel_tool_calls",
}
# Members of a request that its own parts make.
_OWN = frozenset(("stream", "messages", "model", "tools", "tool_choice", "functions"))


def additional_fields(model: Model, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A template's other options for this model, and the names of those that it does not take.

    They are options of OpenAI's protocol: other models refuse a request that has them.
    """
    named = {_OPTIONS.get(name, name): value for name, value in options.items()}
    is_openai = model.model_id.startswith("openai:")
    taken = {name: it for name, it in named.items() if is_openai and name not in _OWN}
    return taken, [name for name in options if _OPTIONS.get(name, name) not in taken]
