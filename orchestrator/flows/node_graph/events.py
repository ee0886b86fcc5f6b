"""The events of a run, as InvokeFlow's stream has them (Bedrock: FlowResponseStream)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from orchestrator.flows.node_graph.definition import FlowNode, NodeInput, NodeOutput
from orchestrator.flows.node_graph.graph import FlowGraph

StreamEvent = tuple[str, Mapping[str, Any]]
"""An event's name and its members, such as `("flowOutputEvent", {...})`."""

_NODE_TYPES = {"Input": "FlowInputNode", "Output": "FlowOutputNode"}


@dataclass(frozen=True, slots=True)
class ControlStep:
    """A round of an iterator or a loop that a node runs in."""

    name: str  # of the iterator or loop
    index: int  # of the round, from 0
    type: str  # `Iterator` or `Loop`


def get_node_type(type: str) -> str:
    """A node's type as events name it, such as `PromptNode` or `FlowInputNode`.

    Bedrock's enum (NodeType) has only the oldest types.
    """
    return _NODE_TYPES.get(type, f"{type}Node")


def node_input_event(
    graph: FlowGraph, node: FlowNode, values: Mapping[str, Any], steps: Sequence[ControlStep]
) -> StreamEvent:
    """What a node begins with."""
    sources = graph.get_sources(node.name)
    chain = [{"nodeName": it.name, "index": it.index, "type": it.type} for it in steps]

    def build_field(one: NodeInput) -> dict[str, Any]:
        source = sources[one.name]
        return {
            "nodeInputName": one.name,
            "content": {"document": values[one.name]},
            "source": {
                "nodeName": source.source,
                "outputFieldName": source.output,
                "expression": one.expression,
            },
            "type": one.type,
            **({"category": one.category} if one.category else {}),
            **({"executionChain": chain} if chain else {}),
        }

    return _trace("nodeInputTrace", node, fields=[build_field(it) for it in node.inputs])


def node_output_event(graph: FlowGraph, node: FlowNode, values: Mapping[str, Any]) -> StreamEvent:
    """What a node has given, and where it goes."""

    def build_field(one: NodeOutput) -> dict[str, Any]:
        following = [
            {"nodeName": it.target, "inputFieldName": it.input}
            for it in graph.outgoing[node.name]
            if it.type == "Data" and it.output == one.name
        ]
        return {
            "nodeOutputName": one.name,
            "content": {"document": values[one.name]},
            "next": following,
            "type": one.type,
        }

    return _trace("nodeOutputTrace", node, fields=[build_field(it) for it in node.outputs])


def condition_event(node: FlowNode, name: str) -> StreamEvent:
    """Which condition of a node holds."""
    return _trace("conditionNodeResultTrace", node, satisfiedConditions=[{"conditionName": name}])


def action_event(
    node: FlowNode, service: str, operation: str, request_id: str, request: Any, response: Any
) -> StreamEvent:
    """What a node had another service do."""
    return _trace(
        "nodeActionTrace",
        node,
        requestId=request_id,
        serviceName=service,
        operationName=operation,
        operationRequest=request,
        operationResponse=response,
    )


def dependency_event(node: FlowNode, part: Mapping[str, Any]) -> StreamEvent:
    """A trace part of the agent that a node asks."""
    return _trace("nodeDependencyTrace", node, traceElements={"agentTraces": [part]})


def _trace(kind: str, node: FlowNode, **members: Any) -> StreamEvent:
    trace = {"nodeName": node.name, "timestamp": datetime.now(UTC), **members}
    return "flowTraceEvent", {"trace": {kind: trace}}


def output_event(node: FlowNode, document: Any) -> StreamEvent:
    """What a flow gives, by one of its Output nodes."""
    return "flowOutputEvent", _content(node, document)


def input_request_event(node: FlowNode, question: str) -> StreamEvent:
    """What an agent asks the user; the run waits for the answer."""
    return "flowMultiTurnInputRequestEvent", _content(node, question)


def _content(node: FlowNode, document: Any) -> dict[str, Any]:
    return {
        "nodeName": node.name,
        "nodeType": get_node_type(node.type),
        "content": {"document": document},
    }


def completion_event(reason: str) -> StreamEvent:
    """The end of a run, or of the part up to a question: `SUCCESS` or `INPUT_REQUIRED`."""
    return "flowCompletionEvent", {"completionReason": reason}
