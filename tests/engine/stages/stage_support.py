"""What the tests of stages share: a knowledge base that tells queries apart, and replies."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import botocore_shapes
from whole_agents import INSTRUCTION

from orchestrator import Agent, Reply
from orchestrator.engine.decisions import source_ids
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

KB_STAGE = "KNOWLEDGE_BASE_RESPONSE_GENERATION"
ON = {"promptState": "ENABLED"}
# A model of each dialect
MODELS = {
    "claude-2": "anthropic.claude-v2",
    "claude-2.1": "anthropic.claude-v2:1",
    "claude-3": "anthropic.claude-3-sonnet-20240229-v1:0",
    "tool-use": "anthropic.claude-3-5-sonnet-20240620-v1:0",
    "titan": "amazon.titan-text-premier-v1:0",
    "llama-3": "meta.llama3-1-70b-instruct-v1:0",
    "mistral": "mistral.mistral-large-2402-v1:0",
    "nova": "amazon.nova-pro-v1:0",
    "general": "openai.gpt-oss-20b-1:0",
    "deepseek": "deepseek.r1-v1:0",
    "local": "local",
}


class Handbook:
    """A knowledge base that finds one passage for each query, and notes how it was asked."""

    def __init__(self, id: str = "HANDBOOK01", text: str = "About {}: twelve.") -> None:
        self.id = id
        self.description = "The handbook."
        self.asked: list[tuple[str, Mapping[str, Any] | None]] = []
        self._text = text

    def found(self, query: str) -> dict[str, Any]:
        return {
            "content": {"text": self._text.format(query), "type": "TEXT"},
            "location": {"type": "CUSTOM", "customDocumentLocation": {"id": query}},
        }

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        self.asked.append((query, configuration))
        return [self.found(query)]

    def source(self, query: str) -> str:
        """The id that the model is told for what the query finds."""
        (id,) = source_ids([self.found(query)], {})
        return id


def lookup(query: str, base: str = "HANDBOOK01") -> tuple[str, dict[str, Any]]:
    """A call that searches."""
    return f"GET::x_amz_knowledgebase_{base}::Search", {"searchQuery": query}


def cited(*parts: tuple[str, str]) -> str:
    """An answer in parts: texts and source ids."""
    told = "".join(
        f"<answer_part><text>{text}</text><sources><source>{source}</source></sources>"
        "</answer_part>"
        for text, source in parts
    )
    return f"<answer>{told}</answer>"


def agent(model: Model | str, **options: Any) -> Agent:
    return Agent("hr", INSTRUCTION, model, **options)


def sound(reply: Reply) -> list[dict[str, Any]]:
    """The reply's trace, each part of which has Bedrock's shape."""
    for part in reply.trace:
        assert botocore_shapes.problems(part) == []
    for one in reply.citations:
        assert botocore_shapes.problems(one, "Citation") == []
    return reply.trace


def stages(model: Any) -> list[str]:
    return [request.stage for request in model.requests]


def asked(request: Any) -> str:
    """All that a prompt says."""
    told = [str(request.system)]
    for message in request.messages:
        for block in message["content"]:
            told.append(block.get("text", ""))
            told += [one["text"] for one in block.get("toolResult", {}).get("content", ())]
    return "\n".join(told)


class Snapshots(ScriptedModel):
    """A scripted model that copies the sessions' file before each reply, as a crash would leave it.

    The copies are `<name>.0`, `<name>.1`, ... beside the file.
    """

    def __init__(self, script: list[Any], model_id: str, file: Path) -> None:
        super().__init__(script, model_id)
        self._file = file

    def complete(self, request: ModelRequest) -> ModelReply:
        number = len(self.requests)
        target = self._file.with_name(f"{self._file.name}.{number}")
        with closing(sqlite3.connect(self._file)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
        return super().complete(request)


def search(query: str = "q") -> list[dict[str, Any]]:
    """A reply that searches the knowledge base `HANDBOOK01`, natively."""
    name = "GET__x_amz_knowledgebase_HANDBOOK01__Search"
    return [{"toolUse": {"toolUseId": query, "name": name, "input": {"searchQuery": query}}}]
