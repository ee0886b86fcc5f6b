"""What nodes need from outside of a flow: models, prompts, agents, functions, buckets, sandboxes.

Whoever runs a flow gives an object with these methods; it also checks what the flow's caller may
use. Each may block, and is called from several threads at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.actions import Executor
from orchestrator.guardrails import Guardrail
from orchestrator.models import Model


@dataclass(frozen=True, slots=True)
class FlowIdentity:
    """Whose run it is: for functions, sessions and messages."""

    arn: str
    alias_arn: str
    execution_id: str
    tenant: str = ""


class AgentTurn(Protocol):
    """The end of an agent's turn; a `Reply` is one."""

    text: str
    stop_reason: str


class FlowAgent(Protocol):
    """An agent that a node asks."""

    def ask(self, text: str, session_id: str, state: Mapping[str, Any]) -> Iterator[Any]:
        """The trace parts of one turn, and its `AgentTurn` at last.

        Args:
            text: What the agent is asked.
            session_id: Its session.
            state: Bedrock's `sessionState`.

        Raises:
            OrchestratorError: The turn failed.
        """
        ...


class PromptResolver(Protocol):
    """Finds prompts of Prompt management."""

    def find_prompt(self, arn: str) -> Mapping[str, Any]:
        """The variant of a prompt that is used without further saying.

        It has the members of Bedrock's `PromptFlowNodeInlineConfiguration`: `modelId`,
        `templateType`, `templateConfiguration`, `inferenceConfiguration` and
        `additionalModelRequestFields`.

        Args:
            arn: The prompt's ARN; `:<version>` may follow.

        Raises:
            ResourceNotFound: There is no such prompt, or version.
            AccessDenied: The caller may not use it.
        """
        ...


class FlowServices(PromptResolver, Protocol):
    """All that nodes need. What is not there, or may not be used, raises an `OrchestratorError`."""

    def find_model(self, model_id: str) -> Model:
        """The model of an id or ARN."""
        ...

    def find_guardrail(self, id: str, version: str) -> Guardrail:
        """A guardrail."""
        ...

    def find_agent(self, alias_arn: str) -> FlowAgent:
        """The agent that an alias stands for."""
        ...

    def retrieve(self, id: str, query: str, configuration: Mapping[str, Any]) -> list[Any]:
        """What a search of a knowledge base finds (Bedrock: Retrieve's `retrievalResults`)."""
        ...

    def generate(self, query: str, configuration: Mapping[str, Any]) -> str:
        """The text of RetrieveAndGenerate, with its `knowledgeBaseConfiguration`."""
        ...

    def invoke_function(self, arn: str, event: dict[str, Any]) -> Any:
        """What a Lambda function returns for an event: JSON data."""
        ...

    def read_object(self, bucket: str, key: str, most: int) -> bytes:
        """An object of Amazon S3; of what is longer than `most`, at least one byte more."""
        ...

    def write_object(self, bucket: str, key: str, content: bytes) -> None:
        """Stores an object in Amazon S3, in place of the one of that key."""
        ...

    def code_interpreter(self) -> Executor:
        """The sandbox that runs inline code."""
        ...
