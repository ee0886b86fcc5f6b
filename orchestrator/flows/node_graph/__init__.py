"""Flows of Amazon Bedrock: a graph of nodes, through which values flow along connections.

A definition (Bedrock: `FlowDefinition`) is read (`definition.py`) and checked whole
(`validation.py`, whose findings are Bedrock's `FlowValidation`s). `graph.py` says in which order
its nodes can run and which of them an iterator repeats. `run.py` runs it, node by node, and sends
the events of InvokeFlow; `nodes.py` and the modules beside it carry single nodes out. What a node
names outside of the flow, such as a model or a bucket, comes from `services.py`'s protocol.
"""

from orchestrator.flows.node_graph.definition import FlowDefinition, read_definition
from orchestrator.flows.node_graph.events import StreamEvent
from orchestrator.flows.node_graph.findings import FlowValidation
from orchestrator.flows.node_graph.graph import FlowGraph
from orchestrator.flows.node_graph.run import FLOW_LIMITS, FlowRun, RunState
from orchestrator.flows.node_graph.services import (
    FlowAgent,
    FlowIdentity,
    FlowServices,
    PromptResolver,
)
from orchestrator.flows.node_graph.validation import validate_definition

__all__ = [
    "FLOW_LIMITS",
    "FlowAgent",
    "FlowDefinition",
    "FlowGraph",
    "FlowIdentity",
    "FlowRun",
    "FlowServices",
    "FlowValidation",
    "PromptResolver",
    "RunState",
    "StreamEvent",
    "read_definition",
    "validate_definition",
]
