"""What is wrong with the connections of a flow, and with the ways that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from orchestrator.flows.node_graph.definition import Connection
from orchestrator.flows.node_graph.findings import Findings, FlowValidation
from orchestrator.flows.node_graph.graph import FlowGraph
from orchestrator.flows.node_graph.json_path import PathSyntaxError, parse_path

_NESTING = ("Object", "Array")


def find_in_connections(graph: FlowGraph) -> Findings:
    """What is wrong with the connections of one flow, or of one loop's body."""
    for one in graph.definition.connections:
        yield from _find_in_connection(graph, one)
    yield from _find_duplicates(graph.definition.connections)
    yield from _find_in_filling(graph)
    for one in graph.find_cycles():
        message = f"the connection {one.name!r} is part of a circle; a Loop node repeats nodes"
        yield FlowValidation("CyclicConnection", message, {"connection": one.name})
    for name in graph.conflicts:
        yield FlowValidation(
            "Unspecified",
            f"the node {name!r} joins the items of two iterators that are not one within the "
            "other, or collects where no iterator repeats: collect each iterator's items first",
        )
    yield from _find_unsatisfied(graph)


def _find_in_connection(graph: FlowGraph, one: Connection) -> Findings:
    where = {"connection": one.name}
    source, target = graph.nodes.get(one.source), graph.nodes.get(one.target)
    if source is None:
        message = f"the connection {one.name!r} begins at {one.source!r}, and there is no such node"
        yield FlowValidation("UnknownConnectionSource", message, where)
    if target is None:
        message = f"the connection {one.name!r} leads to {one.target!r}, and there is no such node"
        yield FlowValidation("UnknownConnectionTarget", message, where)
    if not one.configured:
        message = f"the connection {one.name!r} of the type {one.type} has no configuration of it"
        yield FlowValidation("MissingConnectionConfiguration", message, where)
    elif source is not None and one.type == "Conditional":
        if source.type != "Condition" or one.condition not in source.condition_names:
            message = (
                f"the connection {one.name!r} is for the condition {one.condition!r}, which the "
                f"node {one.source!r} has not"
            )
            yield FlowValidation("UnknownConnectionCondition", message, where)
    elif source is not None and target is not None:
        yield from _find_in_data(graph, one)


def _find_in_data(graph: FlowGraph, one: Connection) -> Findings:
    where = {"connection": one.name}
    output = graph.nodes[one.source].find_output(one.output)
    input = graph.nodes[one.target].find_input(one.input)
    if output is None:
        message = (
            f"the connection {one.name!r} begins at the output {one.output!r}, which the node "
            f"{one.source!r} has not"
        )
        yield FlowValidation("UnknownConnectionSourceOutput", message, where)
    if input is None:
        message = (
            f"the connection {one.name!r} leads to the input {one.input!r}, which the node "
            f"{one.target!r} has not"
        )
        yield FlowValidation("UnknownConnectionTargetInput", message, where)
    if output is None or input is None:
        return
    try:
        whole = parse_path(input.expression).is_whole
    except PathSyntaxError:
        return
    fits = output.type == input.type if whole else output.type in _NESTING
    if not fits:
        yield FlowValidation(
            "IncompatibleConnectionDataType",
            f"the connection {one.name!r} gives {output.type}, of which the input {one.input!r} "
            f"of the node {one.target!r} takes {input.expression} as {input.type}",
            where,
        )


def _find_duplicates(connections: tuple[Connection, ...]) -> Findings:
    ends = Counter(
        (it.type, it.source, it.target, it.output, it.input, it.condition) for it in connections
    )
    for (_, source, target, *_), count in ends.items():
        if count > 1:
            message = f"{count} connections from {source!r} to {target!r} are the same"
            details = {"source": source, "target": target}
            yield FlowValidation("DuplicateConnections", message, details)


def _find_in_filling(graph: FlowGraph) -> Findings:
    """Inputs with no connection, or with several."""
    for node in graph.nodes.values():
        counts = Counter(it.input for it in graph.incoming[node.name] if it.type == "Data")
        for one in node.inputs:
            details = {"node": node.name, "input": one.name}
            if not counts[one.name]:
                message = f"no connection leads to the input {one.name!r} of the node {node.name!r}"
                yield FlowValidation("UnfulfilledNodeInput", message, details)
            elif counts[one.name] > 1:
                message = (
                    f"{counts[one.name]} connections lead to the input {one.name!r} of the node "
                    f"{node.name!r}; one may"
                )
                yield FlowValidation("MultipleNodeInputConnections", message, details)


# Which conditions have to hold for a node to run: by condition node, the names of which one does.
Needs = Mapping[str, frozenset[str]]


def _find_unsatisfied(graph: FlowGraph) -> Findings:
    """Connections that can never give what they should: their conditions exclude each other."""
    needs: dict[str, Needs] = {}
    for name in graph.order:
        joined: Needs = _join_gates(graph.get_gates(name), needs)
        for one in graph.incoming[name]:
            if one.type != "Data":
                continue
            joined = _add(joined, needs[one.source])
            if not all(joined.values()):
                yield FlowValidation(
                    "UnsatisfiedConnectionConditions",
                    f"the connection {one.name!r} never gives the node {name!r} anything: the "
                    "conditions on the ways to it exclude each other",
                    {"connection": one.name},
                )
                # What follows from it is not said again.
                joined = {key: names for key, names in joined.items() if names}
        needs[name] = joined


def _join_gates(gates: list[Connection], needs: Mapping[str, Needs]) -> Needs:
    """What one of several conditional connections needs."""
    ways = [_add(needs[it.source], {it.source: frozenset((it.condition,))}) for it in gates]
    if not ways:
        return {}
    shared = set(ways[0]).intersection(*ways)
    return {key: frozenset(_unite(way[key] for way in ways)) for key in shared}


def _unite(names: Iterator[frozenset[str]]) -> set[str]:
    return set().union(*names)


def _add(needs: Needs, more: Needs) -> dict[str, frozenset[str]]:
    """What both need."""
    joined = dict(needs)
    for key, names in more.items():
        joined[key] = joined[key] & names if key in joined else names
    return joined
