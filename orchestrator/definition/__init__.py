"""What an agent *is*: Bedrock's own members, read from `agent.yaml` and written back."""

from orchestrator.definition.action_group import (
    ActionGroupDefinition,
    ActionGroupExecutor,
    ApiSchema,
    Function,
    FunctionSchema,
    HttpApi,
    McpServer,
    ParameterDetail,
)
from orchestrator.definition.action_group_builder import build_action_groups
from orchestrator.definition.agent import (
    AgentCollaborator,
    AgentDefinition,
    AgentDescriptor,
    CustomOrchestration,
    GuardrailConfiguration,
    LimitsConfiguration,
    MemoryConfiguration,
    OrchestrationExecutor,
    SessionSummaryConfiguration,
)
from orchestrator.definition.dump import dump_definition
from orchestrator.definition.files import PromptText, prompt_text
from orchestrator.definition.knowledge_base import KnowledgeBaseAssociation
from orchestrator.definition.lint import collaborators_of, lint_collaborator, lint_definition
from orchestrator.definition.load import definition_of, load_definition, parse_definition
from orchestrator.definition.prompt_override import (
    InferenceConfiguration,
    PromptConfiguration,
    PromptOverrideConfiguration,
)
from orchestrator.definition.schema import definition_schema
from orchestrator.support.documents import Source

__all__ = [
    "ActionGroupDefinition",
    "ActionGroupExecutor",
    "AgentCollaborator",
    "AgentDefinition",
    "AgentDescriptor",
    "ApiSchema",
    "CustomOrchestration",
    "Function",
    "FunctionSchema",
    "GuardrailConfiguration",
    "HttpApi",
    "InferenceConfiguration",
    "KnowledgeBaseAssociation",
    "LimitsConfiguration",
    "McpServer",
    "MemoryConfiguration",
    "OrchestrationExecutor",
    "ParameterDetail",
    "PromptConfiguration",
    "PromptOverrideConfiguration",
    "PromptText",
    "SessionSummaryConfiguration",
    "Source",
    "build_action_groups",
    "collaborators_of",
    "definition_of",
    "definition_schema",
    "dump_definition",
    "lint_collaborator",
    "lint_definition",
    "load_definition",
    "parse_definition",
    "prompt_text",
]
