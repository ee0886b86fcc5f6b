"""The nodes of a flow in an order in which they can run, and what iterators repeat of them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cached_property

from orchestrator.flows.node_graph.definition import Connection, FlowDefinition, FlowNode

Chain = tuple[str, ...]
"""The names of the iterators that repeat a node, the outermost first."""


class FlowGraph:
    """A definition as a graph, of the connections whose both ends are there.

    Attributes:
        nodes: The nodes by name; of several with one name, the first.
        incoming: The connections that lead to each node.
        outgoing: The connections that begin at each node.
        order: The names, sources first; those in circles are not among them.
    """

    def __init__(self, definition: FlowDefinition) -> None:
        self.definition = definition
        self.nodes: dict[str, FlowNode] = {}
        for node in definition.nodes:
            self.nodes.setdefault(node.name, node)
        self.incoming: dict[str, list[Connection]] = defaultdict(list)
        self.outgoing: dict[str, list[Connection]] = defaultdict(list)
        for one in definition.connections:
            if one.source in self.nodes and one.target in self.nodes:
                self.incoming[one.target].append(one)
                self.outgoing[one.source].append(one)
        self.order = self._sort()

    def _sort(self) -> tuple[str, ...]:
        waits = {name: len(self.incoming[name]) for name in self.nodes}
        ready = deque(name for name, count in waits.items() if not count)
        order = []
        while ready:
            name = ready.popleft()
            order.append(name)
            for one in self.outgoing[name]:
                waits[one.target] -= 1
                if not waits[one.target]:
                    ready.append(one.target)
        return tuple(order)

    def get_sources(self, name: str) -> dict[str, Connection]:
        """The data connections of a node, by the input that each fills."""
        return {one.input: one for one in self.incoming[name] if one.type == "Data"}

    def get_gates(self, name: str) -> list[Connection]:
        """The conditional connections of a node: it runs when one of them is satisfied."""
        return [one for one in self.incoming[name] if one.type == "Conditional"]

    def find_reachable(self, start: str) -> set[str]:
        """The nodes that connections lead to from one, itself included."""
        found, left = {start}, [start]
        while left:
            for one in self.outgoing[left.pop()]:
                if one.target not in found:
                    found.add(one.target)
                    left.append(one.target)
        return found

    @cached_property
    def reachable(self) -> frozenset[str]:
        """The nodes that connections lead to from where the flow, or the loop's body, begins."""
        starts = [it.name for it in self.nodes.values() if it.type in ("Input", "LoopInput")]
        return frozenset().union(*map(self.find_reachable, starts))

    def find_cycles(self) -> list[Connection]:
        """The connections between the nodes of circles, or between circles."""
        ordered = set(self.order)
        tangled = {name for name in self.nodes if name not in ordered}
        # Nodes after a circle are left over as well: they are taken from the end.
        waits = {
            name: sum(it.target in tangled for it in self.outgoing[name]) for name in self.nodes
        }
        ready = deque(name for name in tangled if not waits[name])
        while ready:
            name = ready.popleft()
            tangled.discard(name)
            for one in self.incoming[name]:
                waits[one.source] -= 1
                if one.source in tangled and not waits[one.source]:
                    ready.append(one.source)
        return [
            it
            for it in self.definition.connections
            if it.source in tangled and it.target in tangled
        ]

    # -- what iterators repeat -------------------------------------------------------------------

    @cached_property
    def chains(self) -> dict[str, Chain]:
        """The iterators that repeat each node of `order`; see `conflicts`."""
        return self._chains_and_conflicts[0]

    @cached_property
    def conflicts(self) -> list[str]:
        """Nodes that cannot be in a chain: of two iterators apart, or a collector of none."""
        return self._chains_and_conflicts[1]

    @cached_property
    def _chains_and_conflicts(self) -> tuple[dict[str, Chain], list[str]]:
        chains: dict[str, Chain] = {}
        conflicts = []
        for name in self.order:
            sources = [self._chain_after(one.source, chains) for one in self.incoming[name]]
            chain = max(sources, key=len, default=())
            if any(chain[: len(it)] != it for it in sources):
                conflicts.append(name)
            if self.nodes[name].type == "Collector":
                item = self.get_sources(name).get("arrayItem")
                if not chain or (item and self._chain_after(item.source, chains) != chain):
                    conflicts.append(name)
                chain = chain[:-1]
            chains[name] = chain
        return chains, conflicts

    def _chain_after(self, name: str, chains: dict[str, Chain]) -> Chain:
        chain = chains[name]
        return (*chain, name) if self.nodes[name].type == "Iterator" else chain

    def chain_after(self, name: str) -> Chain:
        """The iterators that repeat what comes of a node: an iterator repeats what follows it."""
        return self._chain_after(name, self.chains)

    def find_members(self, chain: Chain) -> list[str]:
        """The nodes that exactly these iterators repeat, in order."""
        return self._members.get(chain, [])

    @cached_property
    def _members(self) -> dict[Chain, list[str]]:
        members: dict[Chain, list[str]] = defaultdict(list)
        for name in self.order:
            members[self.chains[name]].append(name)
        return dict(members)

    def find_needs(self, name: str) -> set[str]:
        """The nodes beside a node, in its chain, that have to be over before it runs.

        An iterator runs with all that it repeats, and waits for what that reads from outside.
        """
        return self._needs[name]

    @cached_property
    def _needs(self) -> dict[str, set[str]]:
        needs: dict[str, set[str]] = {name: set() for name in self.order}
        for name in self.order:
            for one in self.incoming[name]:
                source, target = self._lift(one)
                if source != target:
                    needs[target].add(source)
        return needs

    def _lift(self, connection: Connection) -> tuple[str, str]:
        """The ends of a connection, as seen from the chain that both have in common."""
        source, target = self._way(connection.source), self._way(connection.target)
        place = 0
        while source[place] == target[place] and place + 1 < min(len(source), len(target)):
            place += 1
        return source[place], target[place]

    def _way(self, name: str) -> tuple[str, ...]:
        return (*self.chains[name], name)

    def iterate_loops(self) -> Iterator[tuple[FlowNode, FlowDefinition]]:
        """The loops of the flow, with what each repeats."""
        for node in self.nodes.values():
            if node.loop is not None:
                yield node, node.loop
