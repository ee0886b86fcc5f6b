"""Runs a flow: each node when what it needs is there, several at once where they can.

A node runs when every node that it has a value from has given it, and, where conditions lead to
it, one of them holds; a node that can get no value any more is left out, and so is what follows
it. An iterator has what follows it run for one item after the other, up to a collector; a loop
runs its own flow again and again.

A run can stop in the middle, because an agent asks the user. What its nodes have given is in its
`RunState` then: a run of the same state goes through the flow again, takes from there what is
there, sends no event twice, and goes on with the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import Any

from orchestrator.engine.telemetry.workflows import trace_workflow
from orchestrator.errors import ValidationError
from orchestrator.flows.node_graph.budget import RunBudget
from orchestrator.flows.node_graph.conditions import ConditionTypeError, parse_condition
from orchestrator.flows.node_graph.data_types import is_of_type, name_type
from orchestrator.flows.node_graph.definition import (
    DEFAULT_CONDITION,
    FlowDefinition,
    FlowNode,
    NodeInput,
)
from orchestrator.flows.node_graph.events import (
    StreamEvent,
    completion_event,
    condition_event,
    input_request_event,
    node_input_event,
    node_output_event,
    output_event,
)
from orchestrator.flows.node_graph.graph import FlowGraph
from orchestrator.flows.node_graph.json_path import parse_path
from orchestrator.flows.node_graph.nodes import AgentAsks, NodeRunner, NodeTask
from orchestrator.flows.node_graph.scope import Scope
from orchestrator.flows.node_graph.services import FlowIdentity, FlowServices
from orchestrator.limits import Limits
from orchestrator.support.threads import in_thread

FLOW_LIMITS = Limits(
    iterations=1_000, model_calls=500, actions=1_000, tokens=5_000_000, result_bytes=1_000_000
)
"""Budgets of a run without `limits`; `iterations` is how many nodes run."""

_ROUNDS = 10  # (Bedrock: the default of `maxIterations`)
# These only move values; the others wait for something, or repeat others.
_QUICK = frozenset({"Input", "Output", "Condition", "Collector", "LoopInput", "LoopController"})


class RunStopped(Exception):
    """The run was stopped from outside."""


@dataclass(slots=True)
class RunState:
    """What a run has done, as JSON data."""

    document: Any  # what the flow was given
    done: dict[str, Any] = field(default_factory=dict)  # what nodes gave, by their keys
    waiting: dict[str, str] = field(default_factory=dict)  # agents' questions, by nodes' keys
    sent: dict[str, bool] = field(default_factory=dict)  # the keys of events that were sent

    def to_json(self) -> dict[str, Any]:
        """It as JSON data."""
        return asdict(self)


class FlowRun:
    """One run of a flow, or the part of it between two questions to the user.

    Attributes:
        failed_node: The name of the node that failed; empty when none did.
    """

    def __init__(
        self,
        definition: FlowDefinition,
        services: FlowServices,
        identity: FlowIdentity,
        send: Callable[[StreamEvent], None],
        *,
        limits: Limits = FLOW_LIMITS,
    ) -> None:
        """Makes the run; nothing is run yet.

        Args:
            definition: A flow in which `validate_definition` finds no error.
            services: What its nodes need.
            identity: Whose run it is.
            send: Gets each event, from one thread at a time.
            limits: Its budgets.
        """
        self.failed_node = ""
        self._graphs: dict[int, FlowGraph] = {}
        self._definition = definition
        self._name = identity.arn.rpartition("/")[2]  # the flow's id, for telemetry
        self._budget = RunBudget(limits)
        self._runner = NodeRunner(services, identity, self._budget)
        self._send_event = send
        self._lock = Lock()
        self._places = BoundedSemaphore(limits.parallel)
        self._is_over = False
        self._state = RunState(None)
        self._answers: Mapping[str, str] = {}

    def stop(self) -> None:
        """Ends the run before its next node; what runs is no longer waited for."""
        self._is_over = True

    def run(self, state: RunState, answers: Mapping[str, str] | None = None) -> bool:
        """Runs the flow to its end, or to a question.

        Args:
            state: Where it begins; it is changed, and holds all that is needed to go on.
            answers: Answers to agents' questions, by the keys of `state.waiting`.

        Returns:
            Whether it has ended; otherwise an agent asks the user.

        Raises:
            OrchestratorError: A node failed, or a budget is used up; the message names the node.
            RunStopped: It was stopped.
        """
        self._state, self._answers = state, answers or {}
        for key in self._answers:
            state.waiting.pop(key, None)
        try:
            with trace_workflow(self._name):
                ended = self._run_scope(Scope(self._graph(self._definition)))
            self._send(completion_event("SUCCESS" if ended else "INPUT_REQUIRED"))
        finally:
            # Other nodes may still run when one has failed; what they send comes too late.
            self._is_over = True
        return ended

    def _graph(self, definition: FlowDefinition) -> FlowGraph:
        with self._lock:
            found = self._graphs.get(id(definition))
            if found is None:
                found = self._graphs[id(definition)] = FlowGraph(definition)
            return found

    def _send(self, event: StreamEvent, key: str = "") -> None:
        """Sends an event, if that of its key was not sent before."""
        with self._lock:
            if self._is_over or key in self._state.sent:
                return
            if key:
                self._state.sent[key] = True
            self._send_event(event)

    # -- the order of nodes ----------------------------------------------------------------------

    def _run_scope(self, scope: Scope) -> bool:
        """Runs the nodes of a chain; whether all of them are over."""
        members = scope.graph.find_members(scope.chain)
        needs = {name: set(scope.graph.find_needs(name)) for name in members}
        running: dict[Future[bool], str] = {}
        while True:
            self._start_ready(scope, needs, running)
            if not running:
                return not needs
            finished, _ = wait(running, self._budget.seconds_left(), FIRST_COMPLETED)
            for future in [it for it in running if it in finished]:
                name = running.pop(future)
                if future.result():
                    _settle(needs, name)
                else:
                    # What needs it waits with it.
                    needs[name] = {name}

    def _start_ready(
        self, scope: Scope, needs: dict[str, set[str]], running: dict[Future[bool], str]
    ) -> None:
        """Runs quick nodes that can run, and starts the others that can."""
        while ready := [name for name, left in needs.items() if not left]:
            for name in ready:
                del needs[name]
                if not scope.is_wanted(name):
                    _settle(needs, name)
                    continue
                self._count_node()
                if scope.graph.nodes[name].type in _QUICK:
                    self._run_quick(scope, name)
                    _settle(needs, name)
                else:
                    running[in_thread(partial(self._run_slow, scope, name))] = name

    def _count_node(self) -> None:
        if self._is_over:
            raise RunStopped
        self._budget.seconds_left()
        self._budget.spend("iterations")

    # -- one node --------------------------------------------------------------------------------

    def _run_quick(self, scope: Scope, name: str) -> None:
        node = scope.graph.nodes[name]
        with self._naming(node):
            if node.type == "Input":
                self._give(scope, node, {it.name: self._state.document for it in node.outputs})
            elif node.type == "LoopInput":
                self._give(scope, node, {it.name: scope.controls[it.name] for it in node.outputs})
            elif node.type == "Collector":
                self._collect(scope, node)
            else:
                self._take(scope, node)

    def _take(self, scope: Scope, node: FlowNode) -> None:
        """Runs a node that has no outputs: an Output, a condition, a loop's controller."""
        values, key = self._read_inputs(scope, node), scope.key(node.name)
        if node.type == "Output":
            self._send(output_event(node, values["document"]), f"{key} output")
            return
        if node.type == "LoopController":
            scope.controls = values
            return
        found = _find_condition(node, values)
        scope.conditions[node.name] = found
        self._send(condition_event(node, found), f"{key} condition")

    def _collect(self, scope: Scope, node: FlowNode) -> None:
        values = self._read_inputs(scope, node)
        items, size = values["arrayItem"], values["arraySize"]
        if len(items) != size:
            raise ValidationError(
                f"{len(items)} of {size} items reached it: every way from the iterator has to "
                "lead to a collector, or to none"
            )
        self._give(scope, node, {"collectedArray": items})

    def _run_slow(self, scope: Scope, name: str) -> bool:
        """Runs a node that waits for something; whether it is over."""
        node = scope.graph.nodes[name]
        with self._naming(node):
            values = self._read_inputs(scope, node)
            if node.type == "Iterator":
                return self._iterate(scope, node, values["array"])
            if node.type == "Loop":
                return self._repeat(scope, node, values)
            return self._carry_out(scope, node, values)

    def _carry_out(self, scope: Scope, node: FlowNode, values: Mapping[str, Any]) -> bool:
        key, state = scope.key(node.name), self._state
        if key in state.waiting:
            self._send(input_request_event(node, state.waiting[key]))
            return False
        if key not in state.done:
            task = NodeTask(node, key, values, self._send, self._answers.get(key))
            with self._places:
                if self._is_over:
                    raise RunStopped
                try:
                    outputs = self._runner.run(task)
                except AgentAsks as asks:
                    state.waiting[key] = str(asks)
                    self._send(input_request_event(node, str(asks)))
                    return False
            self._check_outputs(node, outputs)
            state.done[key] = outputs
        self._give(scope, node, state.done[key])
        return True

    def _naming(self, node: FlowNode) -> _Naming:
        return _Naming(self, node.name)

    # -- iterators and loops ---------------------------------------------------------------------

    def _iterate(self, scope: Scope, node: FlowNode, items: list[Any]) -> bool:
        collectors = scope.find_collectors(node.name)
        collected: dict[str, list[Any]] = {name: [] for name, _ in collectors}
        for index, item in enumerate(items):
            inner = scope.build_round(node.name, index)
            self._give(inner, node, {"arrayItem": item, "arraySize": len(items)})
            if not self._run_scope(inner):
                return False
            if not any(map(inner.is_wanted, scope.graph.find_members(inner.chain))):
                self._count_node()  # so that rounds in which nothing ran have an end, too
            for name, connection in collectors:
                if inner.has(connection):
                    collected[name].append(inner.get(connection))
        scope.collected |= collected
        scope.values[node.name, "arraySize"] = len(items)
        return True

    def _repeat(self, scope: Scope, node: FlowNode, values: dict[str, Any]) -> bool:
        assert node.loop is not None
        graph = self._graph(node.loop)
        controller = node.loop.find_nodes("LoopController")[0]
        for index in range((controller.configuration or {}).get("maxIterations") or _ROUNDS):
            inner = scope.build_loop_round(graph, node.name, index)
            inner.controls = values
            if not self._run_scope(inner):
                return False
            values = {**values, **_pick_category(controller, inner, "ReturnValueToLoopStart")}
            if not self._continues(controller, inner):
                break
        self._give(scope, node, _pick_category(controller, inner, "ExitLoop"))
        return True

    def _continues(self, controller: FlowNode, scope: Scope) -> bool:
        condition = (controller.configuration or {})["continueCondition"]
        values = _pick_category(controller, scope, "LoopCondition")
        if not _holds(condition["expression"], values):
            return False
        key = f"{scope.key(controller.name)} condition"
        self._send(condition_event(controller, condition["name"]), key)
        return True

    # -- values ----------------------------------------------------------------------------------

    def _read_inputs(self, scope: Scope, node: FlowNode) -> dict[str, Any]:
        """The values of a node's inputs; sends them."""
        sources = scope.graph.get_sources(node.name)
        values = {}
        for one in node.inputs:
            if node.type == "Collector" and one.name == "arrayItem":
                items = scope.collected[node.name]
                values[one.name] = [self._read_input(one, it) for it in items]
            else:
                values[one.name] = self._read_input(one, scope.get(sources[one.name]))
        if node.inputs:
            event = node_input_event(scope.graph, node, values, scope.steps)
            self._send(event, f"{scope.key(node.name)} input")
        return values

    def _read_input(self, one: NodeInput, whole: Any) -> Any:
        """The value of an input, of what is connected to it."""
        path = parse_path(one.expression)
        value = _evaluate(path.evaluate, one.name, one.expression, one.type, whole)
        # An expression with several parts may have one part many times.
        size = _measure(value) if path.is_definite else _measure_list(value)
        most = self._budget.limits.result_bytes
        if size > most:
            raise ValidationError(
                f"its input {one.name!r}, {one.expression}, has {size:,} bytes as JSON; the most "
                f"are {most:,}"
            )
        self._budget.spend("input_bytes", size)
        return value

    def _give(self, scope: Scope, node: FlowNode, values: Mapping[str, Any]) -> None:
        """Has a node's outputs have these values; sends them."""
        self._check_outputs(node, values)
        for one in node.outputs:
            scope.values[node.name, one.name] = values[one.name]
        if node.outputs:
            event = node_output_event(scope.graph, node, values)
            self._send(event, f"{scope.key(node.name)} output")

    def _check_outputs(self, node: FlowNode, values: Mapping[str, Any]) -> None:
        for one in node.outputs:
            value = values[one.name]
            if not is_of_type(value, one.type):
                raise ValidationError(
                    f"its output {one.name!r} is of the type {name_type(value)}, and the flow "
                    f"says {one.type}"
                )
            size = _measure(value)
            most = self._budget.limits.result_bytes
            if size > most:
                raise ValidationError(
                    f"its output {one.name!r} has {size:,} bytes as JSON; the most are {most:,}"
                )
            self._budget.spend("bytes", size)


class _Naming:
    """A context in which what fails says which node it was."""

    def __init__(self, run: FlowRun, name: str) -> None:
        self._run, self._name = run, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        message = getattr(error, "message", None)
        if error is None or not isinstance(message, str) or hasattr(error, "node"):
            return
        # The error is of the tree, and stays what it is: a caller reads its name.
        error.message = f"the node {self._name!r} failed: {message}"  # type: ignore[attr-defined]
        error.args = (error.message,)  # type: ignore[attr-defined]
        error.node = self._name  # type: ignore[attr-defined]
        self._run.failed_node = self._run.failed_node or self._name


def _settle(needs: Mapping[str, set[str]], name: str) -> None:
    for left in needs.values():
        left.discard(name)


def _evaluate(
    evaluate: Callable[[Any], Any], name: str, expression: str, type: str, whole: Any
) -> Any:
    """The value of an input."""
    try:
        value = evaluate(whole)
    except LookupError as error:
        raise ValidationError(f"its input {name!r} is {expression}, and {error}") from None
    if not is_of_type(value, type):
        raise ValidationError(
            f"its input {name!r}, {expression}, is of the type {name_type(value)}, and the flow "
            f"says {type}"
        )
    return value


def _find_condition(node: FlowNode, values: Mapping[str, Any]) -> str:
    """The first of a node's conditions that holds."""
    for one in (node.configuration or {})["conditions"]:
        if one["name"] != DEFAULT_CONDITION and _holds(one["expression"], values):
            return str(one["name"])
    return DEFAULT_CONDITION


def _holds(expression: str, values: Mapping[str, Any]) -> bool:
    try:
        return parse_condition(expression).evaluate(values)
    except ConditionTypeError as error:
        raise ValidationError(f"its condition {expression!r} cannot be checked: {error}") from None


def _pick_category(controller: FlowNode, scope: Scope, category: str) -> dict[str, Any]:
    names: Iterable[str] = (it.name for it in controller.inputs if it.category == category)
    return {name: scope.controls[name] for name in names}


def _measure_list(values: list[Any]) -> int:
    """`_measure`, without writing out what is in a list several times."""
    distinct = {id(it): it for it in values}
    measured = {key: _measure(it) for key, it in distinct.items()}
    return sum(measured[id(it)] + len(", ") for it in values)


def _measure(value: Any) -> int:
    """The bytes of a value as JSON."""
    try:
        return len(
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"a value of it is no JSON data: {error}") from None
