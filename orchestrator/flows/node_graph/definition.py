"""The definition of a flow: nodes and the connections between them, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ValidationError

DEFAULT_CONDITION = "default"
"""The condition that holds when no other one of its node does (Bedrock)."""

# Far above Bedrock's own limits, which its service model has: 40 nodes and 20 connections.
_MOST_NODES = 200
_MOST_CONNECTIONS = 1_000
_MOST_LEVELS = 5  # loops in loops


@dataclass(frozen=True, slots=True)
class NodeInput:
    """One input of a node."""

    name: str
    type: str  # `String`, `Number`, `Boolean`, `Object` or `Array`
    expression: str  # which part of the whole input it is, such as `$.data.name`
    category: str = ""  # of a loop's controller: `LoopCondition`, `ReturnValueToLoopStart` …


@dataclass(frozen=True, slots=True)
class NodeOutput:
    """One output of a node."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One node."""

    name: str
    type: str  # `Input`, `Prompt`, `Condition` … (Bedrock: FlowNodeType)
    # The members of its configuration's one member; `None` when it has none, or another type's
    configuration: Mapping[str, Any] | None
    inputs: tuple[NodeInput, ...]
    outputs: tuple[NodeOutput, ...]
    loop: FlowDefinition | None = None  # what a loop repeats

    def find_input(self, name: str) -> NodeInput | None:
        """The input of a name."""
        return next((it for it in self.inputs if it.name == name), None)

    def find_output(self, name: str) -> NodeOutput | None:
        """The output of a name."""
        return next((it for it in self.outputs if it.name == name), None)

    @property
    def condition_names(self) -> tuple[str, ...]:
        """The names of a condition node's conditions, in their order."""
        conditions = (self.configuration or {}).get("conditions") or ()
        return tuple(it["name"] for it in conditions)


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection: of data, or of a condition (then it has no output and no input)."""

    name: str
    type: str  # `Data` or `Conditional`
    source: str
    target: str
    configured: bool  # whether it has the configuration of its type
    output: str = ""
    input: str = ""
    condition: str = ""


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A flow, or what a loop in it repeats."""

    nodes: tuple[FlowNode, ...]
    connections: tuple[Connection, ...]

    def find_nodes(self, type: str) -> list[FlowNode]:
        """The nodes of a type."""
        return [node for node in self.nodes if node.type == type]


def read_definition(data: Mapping[str, Any], level: int = 1) -> FlowDefinition:
    """Reads a definition.

    Args:
        data: What Bedrock's service model allows as a `FlowDefinition`; whoever has it from
            elsewhere checks that first.
        level: How many flows it is in, itself included.

    Raises:
        ValidationError: It has more nodes, connections or levels of loops than may be run.
    """
    nodes, connections = data.get("nodes") or (), data.get("connections") or ()
    if len(nodes) > _MOST_NODES or len(connections) > _MOST_CONNECTIONS:
        raise ValidationError(
            f"the flow has {len(nodes):,} nodes and {len(connections):,} connections; the most "
            f"are {_MOST_NODES} and {_MOST_CONNECTIONS:,}"
        )
    if level > _MOST_LEVELS:
        raise ValidationError(f"the flow has loops in more than {_MOST_LEVELS} levels")
    return FlowDefinition(
        tuple(_read_node(node, level) for node in nodes), tuple(map(_read_connection, connections))
    )


def get_member(type: str) -> str:
    """The member of a node's configuration that its type has, such as `knowledgeBase`."""
    return type[:1].lower() + type[1:]


def _read_node(data: Mapping[str, Any], level: int) -> FlowNode:
    type = data["type"]
    configuration = (data.get("configuration") or {}).get(get_member(type))
    loop = None
    if type == "Loop" and configuration is not None:
        loop = read_definition(configuration["definition"], level + 1)
    inputs = (
        NodeInput(it["name"], it["type"], it["expression"], it.get("category") or "")
        for it in data.get("inputs") or ()
    )
    outputs = (NodeOutput(it["name"], it["type"]) for it in data.get("outputs") or ())
    return FlowNode(data["name"], type, configuration, tuple(inputs), tuple(outputs), loop)


def _read_connection(data: Mapping[str, Any]) -> Connection:
    type = data["type"]
    members = (data.get("configuration") or {}).get(type.lower())
    return Connection(
        data["name"],
        type,
        data["source"],
        data["target"],
        members is not None,
        **_read_ends(type, members or {}),
    )


def _read_ends(type: str, members: Mapping[str, Any]) -> dict[str, str]:
    if type == "Conditional":
        return {"condition": members.get("condition", "")}
    return {"output": members.get("sourceOutput", ""), "input": members.get("targetInput", "")}
