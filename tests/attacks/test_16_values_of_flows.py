"""Attack 16: a flow makes much of little: copies of a value, or rounds in which nothing runs."""

from __future__ import annotations

from typing import Any

import pytest
from node_graphs import data, end, flow, node, start, when

from orchestrator.errors import LimitExceeded, OrchestratorError, ValidationError
from orchestrator.flows.node_graph import FlowIdentity, FlowRun, RunState, read_definition

IDENTITY = FlowIdentity("arn:flow", "arn:alias", "1", "tenant")


# No node of these flows asks anybody for anything.
SERVICES: Any = None


def run(definition: dict[str, Any], document: Any) -> tuple[OrchestratorError, int]:
    """How a flow fails, and how many events it has sent until then."""
    events: list[Any] = []
    run = FlowRun(read_definition(definition), SERVICES, IDENTITY, events.append)
    with pytest.raises(OrchestratorError) as caught:
        run.run(RunState(document))
    return caught.value, len(events)


def test_an_expression_that_repeats_a_large_value_is_measured() -> None:
    document: Any = "A" * 900_000
    for _ in range(8):
        document = [document]
    expression = "$.data" + "[0,0,0]" * 8
    definition = flow(
        start("Array"),
        end("Array", expression=expression),
        data("Start.document", "End.document"),
    )
    error, events = run(definition, document)
    assert isinstance(error, ValidationError)
    assert error.message == (
        f"the node 'End' failed: its input 'document', {expression}, has 5,904,926,244 bytes as "
        "JSON; the most are 1,000,000"
    )
    assert events == 1


def test_rounds_without_a_node_are_counted() -> None:
    items = (("arrayItem", "Number"), ("arraySize", "Number"))
    definition = flow(
        start("Array"),
        node("Each", "Iterator", [("array", "Array")], items),
        node("All", "Collector", items, [("collectedArray", "Array")]),
        end("Array"),
        data("Start.document", "Each.array"),
        data("Each.arrayItem", "All.arrayItem"),
        data("Each.arraySize", "All.arraySize"),
        data("All.collectedArray", "End.document"),
    )
    error, events = run(definition, [1] * 10_000)
    assert isinstance(error, LimitExceeded)
    assert error.limit == "iterations"
    assert events < 1_100


def test_events_that_have_a_large_value_in_each_round_are_bounded() -> None:
    document = {"items": [1] * 400, "large": "A" * 900_000}
    definition = flow(
        start("Object"),
        node(
            "Each",
            "Iterator",
            [("array", "Array", "$.data.items")],
            [("arrayItem", "Number"), ("arraySize", "Number")],
        ),
        node(
            "Check",
            "Condition",
            [("item", "Number"), ("large", "String", "$.data.large")],
            conditions=[{"name": "one", "expression": "item == 1"}, {"name": "default"}],
        ),
        end(name="One", expression="$.data.large"),
        end(name="Other", expression="$.data.large"),
        data("Start.document", "Each.array"),
        data("Each.arrayItem", "Check.item"),
        data("Start.document", "Check.large"),
        data("Start.document", "One.document"),
        data("Start.document", "Other.document"),
        when("Check.one", "One"),
        when("Check.default", "Other"),
    )
    error, events = run(definition, document)
    assert isinstance(error, LimitExceeded)
    assert error.message == (
        "the node 'Check' failed: the flow used all of its 256,000,000 bytes of inputs"
    )
    assert events < 1_000
