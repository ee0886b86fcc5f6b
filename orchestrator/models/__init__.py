"""The models that answer an agent's prompts, one module a backend.

The backends are imported when they are first named: none of boto3, httpx2 and llama.cpp is
needed to use another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.models.base import CallFormat, Model, ModelReply, ModelRequest, OperationFormat
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.models.bedrock import BedrockModel
    from orchestrator.models.local import LocalModel
    from orchestrator.models.openai import OpenAIModel
    from orchestrator.models.recording import RecordingModel, ReplayModel
    from orchestrator.models.registry import file_of_model, resolve_embedder, resolve_model
    from orchestrator.models.scripted_model import ScriptedModel

__all__ = [
    "BedrockModel",
    "CallFormat",
    "LocalModel",
    "Model",
    "ModelReply",
    "ModelRequest",
    "OpenAIModel",
    "OperationFormat",
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "file_of_model",
    "resolve_embedder",
    "resolve_model",
]

_HOMES = {
    "BedrockModel": "bedrock",
    "LocalModel": "local",
    "OpenAIModel": "openai",
    "RecordingModel": "recording",
    "ReplayModel": "recording",
    "ScriptedModel": "scripted_model",
    "file_of_model": "registry",
    "resolve_embedder": "registry",
    "resolve_model": "registry",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
