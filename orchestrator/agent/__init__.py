"""The public `Agent` and `Flow`, and building one from a folder, a request or arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.bedrock_agent import BedrockAgent
    from orchestrator.agent.flow import Flow, load_flow
    from orchestrator.agent.flow_run import FlowEvent, FlowResult
    from orchestrator.agent.template import PromptTemplate, load_template
    from orchestrator.agent.template_run import TemplateResult
    from orchestrator.agent.validate import Collaborator

__all__ = [
    "Agent",
    "BedrockAgent",
    "Collaborator",
    "Flow",
    "FlowEvent",
    "FlowResult",
    "PromptTemplate",
    "TemplateResult",
    "load_flow",
    "load_template",
]

_HOMES = {
    "Agent": "agent",
    "BedrockAgent": "bedrock_agent",
    "Collaborator": "validate",
    "Flow": "flow",
    "FlowEvent": "flow_run",
    "FlowResult": "flow_run",
    "PromptTemplate": "template",
    "TemplateResult": "template_run",
    "load_flow": "flow",
    "load_template": "template",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
