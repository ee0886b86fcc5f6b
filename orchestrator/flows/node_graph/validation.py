"""What is wrong with a flow: its nodes, conditions and loops; its connections are beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from orchestrator.flows.node_graph.conditions import (
    Condition,
    ConditionSyntaxError,
    parse_condition,
)
from orchestrator.flows.node_graph.connection_validation import find_in_connections
from orchestrator.flows.node_graph.definition import (
    DEFAULT_CONDITION,
    FlowDefinition,
    FlowNode,
    NodeInput,
)
from orchestrator.flows.node_graph.findings import Findings, FlowValidation
from orchestrator.flows.node_graph.graph import FlowGraph
from orchestrator.flows.node_graph.json_path import PathSyntaxError, parse_path
from orchestrator.flows.node_graph.node_kinds import Port, find_empty_member, get_kind

_MOST = 100  # (Bedrock: FlowValidations)
# (Bedrock: IncompatibleLoopNodeType)
_NOT_IN_LOOPS = ("Input", "Condition", "Iterator", "Collector")
_ONLY_IN_LOOPS = ("LoopInput", "LoopController")


def validate_definition(definition: FlowDefinition) -> list[FlowValidation]:
    """What is wrong with a flow, at most the first hundred; errors before warnings."""
    found = list(dict.fromkeys(map(_Hashed, _find_all(definition, None))))
    found.sort(key=lambda it: it.validation.severity)
    return [it.validation for it in found[:_MOST]]


class _Hashed:
    """A finding that is the same as another one with its words."""

    def __init__(self, validation: FlowValidation) -> None:
        self.validation = validation

    def __hash__(self) -> int:
        return hash((self.validation.type, self.validation.message))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.validation == other.validation


def _find_all(definition: FlowDefinition, loop: FlowNode | None) -> Findings:
    graph = FlowGraph(definition)
    yield from _find_in_names(definition)
    yield from _find_in_ends(graph) if loop is None else _find_in_loop(graph, loop)
    for node in definition.nodes:
        yield from _find_in_node(node)
    yield from find_in_connections(graph)
    for inner, body in graph.iterate_loops():
        yield from _find_boundaries(graph, body)
        yield from _find_all(body, inner)


def _find_in_names(definition: FlowDefinition) -> Findings:
    for what, items in (("nodes", definition.nodes), ("connections", definition.connections)):
        counts = Counter(it.name for it in items)
        for name, count in counts.items():
            if count > 1:
                yield _other_finding(f"{count} {what} are called {name!r}; give each its own name")


def _other_finding(message: str) -> FlowValidation:
    return FlowValidation("Unspecified", message)


# The ends of flows and loops


def _find_in_ends(graph: FlowGraph) -> Findings:
    starts = graph.definition.find_nodes("Input")
    if not starts:
        yield FlowValidation("MissingStartingNodes", "the flow has no Input node, where it begins")
    if len(starts) > 1:
        yield _other_finding(f"the flow has {len(starts)} Input nodes; it begins with one")
    if not graph.definition.find_nodes("Output"):
        yield FlowValidation("MissingEndingNodes", "the flow has no Output node, where it ends")
    for node in graph.nodes.values():
        if node.type in _ONLY_IN_LOOPS:
            yield _other_finding(f"the node {node.name!r} of the type {node.type} is in no loop")
    if len(starts) == 1:
        yield from _find_unreachable(graph, starts[0])


def _find_unreachable(graph: FlowGraph, start: FlowNode) -> Findings:
    for name in graph.nodes:
        if name not in graph.reachable:
            message = f"no way leads from {start.name!r} to the node {name!r}, which never runs"
            yield FlowValidation("UnreachableNode", message, {"node": name}, "Warning")


def _find_in_loop(graph: FlowGraph, loop: FlowNode) -> Findings:
    for start in graph.definition.find_nodes("LoopInput")[:1]:
        yield from _find_unreachable(graph, start)
    for type in _ONLY_IN_LOOPS:
        count = len(graph.definition.find_nodes(type))
        if count != 1:
            how = "Missing" if count == 0 else "Multiple"
            kind = f"{how}{type}Node{'s' if count else ''}"
            message = f"the loop {loop.name!r} has {count or 'no'} {type} nodes; it needs one"
            yield FlowValidation(kind, message, {"loopNode": loop.name})
    for node in graph.definition.nodes:
        if node.type in _NOT_IN_LOOPS:
            yield FlowValidation(
                "LoopIncompatibleNodeType",
                f"the node {node.name!r} of the type {node.type} cannot be in the loop "
                f"{loop.name!r}",
                {
                    "node": loop.name,
                    "incompatibleNodeType": node.type,
                    "incompatibleNodeName": node.name,
                },
            )
    yield from _find_in_loop_ports(graph, loop)


def _find_in_loop_ports(graph: FlowGraph, loop: FlowNode) -> Findings:
    """What the loop's own inputs and outputs have to match within it."""
    for start in graph.definition.find_nodes("LoopInput")[:1]:
        for port in start.outputs:
            outer = loop.find_input(port.name)
            if outer is None:
                yield _input_lack(loop, Port(port.name))
            elif outer.type != port.type:
                yield _input_mismatch(loop, outer, port.type)
    for controller in graph.definition.find_nodes("LoopController")[:1]:
        exits = {it.name: it for it in controller.inputs if it.category == "ExitLoop"}
        for output in loop.outputs:
            inner = exits.get(output.name)
            if inner is None:
                yield _input_lack(controller, Port(output.name))
            elif inner.type != output.type:
                yield _input_mismatch(controller, inner, output.type)


def _find_boundaries(graph: FlowGraph, body: FlowDefinition) -> Findings:
    inside = {node.name for node in body.nodes}
    for one in body.connections:
        for name in (one.source, one.target):
            if name not in inside and name in graph.nodes:
                yield FlowValidation(
                    "InvalidLoopBoundary",
                    f"the connection {one.name!r} is in a loop, and {name!r} is outside of it",
                    {"connection": one.name, "source": one.source, "target": one.target},
                )


# Nodes


def _find_in_node(node: FlowNode) -> Findings:
    where = {"node": node.name}
    if node.type == "Lex":
        yield _other_finding(
            f"the node {node.name!r} is of the type Lex, which is not run here: use a "
            "LambdaFunction node that asks the bot, or a Prompt node that names the intent"
        )
        return
    if node.configuration is None:
        message = f"the node {node.name!r} of the type {node.type} has no configuration of its type"
        yield FlowValidation("MissingNodeConfiguration", message, where)
    elif member := find_empty_member(node):
        message = f"the configuration of the node {node.name!r} has no {member}"
        yield FlowValidation("MissingNodeConfiguration", message, where)
    yield from _find_in_inputs(node)
    yield from _find_in_outputs(node)
    if node.configuration is not None and node.type == "Condition":
        yield from _find_in_conditions(node, node.configuration["conditions"])
    if node.configuration is not None and node.type == "LoopController":
        yield from _find_in_controller(node, node.configuration["continueCondition"])


def _find_in_inputs(node: FlowNode) -> Findings:
    ports = get_kind(node).inputs
    known = None if ports is None else {port.name: port for port in ports}
    for one in node.inputs:
        port = None if known is None else known.get(one.name)
        if known is not None and port is None:
            message = f"the node {node.name!r} has an input {one.name!r}, which its type has not"
            details = {"node": node.name, "input": one.name}
            yield FlowValidation("UnknownNodeInput", message, details)
        elif port is not None and port.type and port.type != one.type:
            yield _input_mismatch(node, one, port.type)
        yield from _find_in_expression(node, one)
    for port in ports or ():
        if port.required and node.find_input(port.name) is None:
            yield _input_lack(node, port)


def _find_in_expression(node: FlowNode, one: NodeInput) -> Findings:
    try:
        parse_path(one.expression)
    except PathSyntaxError as error:
        yield FlowValidation(
            "MalformedNodeInputExpression",
            f"the expression of the input {one.name!r} of the node {node.name!r} cannot be read: "
            f"{error}",
            {"node": node.name, "input": one.name, "cause": str(error)},
        )


def _input_lack(node: FlowNode, port: Port) -> FlowValidation:
    message = f"the node {node.name!r} has no input {port.name!r}, which it needs"
    return FlowValidation("MissingNodeInput", message, {"node": node.name, "input": port.name})


def _input_mismatch(node: FlowNode, one: NodeInput, type: str) -> FlowValidation:
    return FlowValidation(
        "MismatchedNodeInputType",
        f"the input {one.name!r} of the node {node.name!r} is of the type {one.type}; it has to "
        f"be a {type}",
        {"node": node.name, "input": one.name, "expectedType": type},
    )


def _find_in_outputs(node: FlowNode) -> Findings:
    ports = get_kind(node).outputs
    if ports is None:
        return
    known = {port.name: port for port in ports}
    for one in node.outputs:
        port = known.get(one.name)
        details = {"node": node.name, "output": one.name}
        if port is None:
            message = f"the node {node.name!r} has an output {one.name!r}, which its type has not"
            yield FlowValidation("UnknownNodeOutput", message, details)
        elif port.type and port.type != one.type:
            yield FlowValidation(
                "MismatchedNodeOutputType",
                f"the output {one.name!r} of the node {node.name!r} is of the type {one.type}; it "
                f"has to be a {port.type}",
                {**details, "expectedType": port.type},
            )
    for port in ports:
        if port.required and node.find_output(port.name) is None:
            message = f"the node {node.name!r} has no output {port.name!r}, which it needs"
            details = {"node": node.name, "output": port.name}
            yield FlowValidation("MissingNodeOutput", message, details)


# Conditions


def _find_in_conditions(node: FlowNode, conditions: list[Mapping[str, Any]]) -> Findings:
    if DEFAULT_CONDITION not in node.condition_names:
        message = (
            f"the condition node {node.name!r} has no condition called {DEFAULT_CONDITION!r}, "
            "which holds when no other one does"
        )
        yield FlowValidation("MissingDefaultCondition", message, {"node": node.name})
    seen: set[str] = set()
    for one in conditions:
        text = one.get("expression")
        if one["name"] == DEFAULT_CONDITION:
            continue
        if text in seen:
            yield FlowValidation(
                "DuplicateConditionExpression",
                f"two conditions of the node {node.name!r} have the expression {text!r}",
                {"node": node.name, "expression": text},
            )
        seen.add(text or "")
        yield from _find_in_condition(node, one, {it.name: it for it in node.inputs})


def _find_in_controller(node: FlowNode, condition: Mapping[str, Any]) -> Findings:
    inputs = {it.name: it for it in node.inputs if it.category == "LoopCondition"}
    yield from _find_in_condition(node, condition, inputs)


def _find_in_condition(
    node: FlowNode, condition: Mapping[str, Any], inputs: Mapping[str, NodeInput]
) -> Findings:
    cause = find_cause(condition.get("expression"), inputs)
    if cause:
        yield FlowValidation(
            "MalformedConditionExpression",
            f"the condition {condition['name']!r} of the node {node.name!r} cannot be used: "
            f"{cause}",
            {"node": node.name, "condition": condition["name"], "cause": cause},
        )


def find_cause(text: str | None, inputs: Mapping[str, NodeInput]) -> str:
    """Why an expression cannot be used with these inputs; empty when it can."""
    if not text:
        return "it has no expression"
    try:
        condition = parse_condition(text)
    except ConditionSyntaxError as error:
        return str(error)
    unknown = sorted(condition.names - inputs.keys())
    if unknown:
        return f"there is no input {unknown[0]!r}; a text constant stands in quotation marks"
    return _find_wrong_type(condition, inputs)


def _find_wrong_type(condition: Condition, inputs: Mapping[str, NodeInput]) -> str:
    for names, type in ((condition.numbers, "Number"), (condition.truths, "Boolean")):
        for name in sorted(names):
            if inputs[name].type != type:
                return f"the input {name!r} is of the type {inputs[name].type}, and no {type}"
    return ""
