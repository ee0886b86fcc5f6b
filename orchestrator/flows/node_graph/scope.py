"""The values of a run: of a flow, of one round of an iterator in it, or of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.flows.node_graph.definition import Connection
from orchestrator.flows.node_graph.events import ControlStep
from orchestrator.flows.node_graph.graph import Chain, FlowGraph


@dataclass(slots=True)
class Scope:
    """What nodes of one chain have given so far; an iterator's round sees what is around it."""

    graph: FlowGraph
    chain: Chain = ()
    steps: tuple[ControlStep, ...] = ()  # the rounds of iterators and loops that it is in
    parent: Scope | None = None
    values: dict[tuple[str, str], Any] = field(default_factory=dict)  # by node and output
    conditions: dict[str, str] = field(default_factory=dict)  # which one holds, by node
    collected: dict[str, list[Any]] = field(default_factory=dict)  # items, by collector
    # The values of the inputs of the controller of the loop that this is a round of
    controls: dict[str, Any] = field(default_factory=dict)

    def key(self, name: str) -> str:
        """Names a node and the rounds that it runs in: `Each[0]/Ask`."""
        return "/".join([*(f"{it.name}[{it.index}]" for it in self.steps), name])

    def has(self, connection: Connection) -> bool:
        """Whether what a data connection starts from has given something."""
        key = connection.source, connection.output
        return key in self.values or (self.parent is not None and self.parent.has(connection))

    def get(self, connection: Connection) -> Any:
        """What a data connection gives."""
        key = connection.source, connection.output
        if key in self.values or self.parent is None:
            return self.values[key]
        return self.parent.get(connection)

    def find_condition(self, node: str) -> str | None:
        """The condition of a node that holds; `None` when the node did not run."""
        found = self.conditions.get(node)
        if found is None and self.parent is not None:
            return self.parent.find_condition(node)
        return found

    def is_wanted(self, name: str) -> bool:
        """Whether a node runs: a way leads to it, its sources ran, one of its conditions holds."""
        graph, depth = self.graph, len(self.chain)
        if name not in graph.reachable:
            return False
        for one in graph.get_sources(name).values():
            # A collector's items are of a chain further in.
            if len(graph.chains[one.source]) <= depth and not self.has(one):
                return False
        gates = graph.get_gates(name)
        return not gates or any(self.find_condition(it.source) == it.condition for it in gates)

    def build_round(self, node: str, index: int) -> Scope:
        """The values of a round of an iterator."""
        step = ControlStep(node, index, "Iterator")
        return Scope(self.graph, (*self.chain, node), (*self.steps, step), self)

    def build_loop_round(self, graph: FlowGraph, node: str, index: int) -> Scope:
        """The values of a round of a loop, which sees nothing around it."""
        return Scope(graph, (), (*self.steps, ControlStep(node, index, "Loop")))

    def find_collectors(self, iterator: str) -> Sequence[tuple[str, Connection]]:
        """The collectors of an iterator's items, with the connection that gives each its items."""
        inner = (*self.chain, iterator)
        found = []
        for name in self.graph.find_members(self.chain):
            if self.graph.nodes[name].type == "Collector":
                item = self.graph.get_sources(name)["arrayItem"]
                if self.graph.chain_after(item.source) == inner:
                    found.append((name, item))
        return found
