"""What is wrong with a flow is said by Bedrock's types; no graph hangs or crashes the checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import botocore.session
import pytest
from control_support import Answering
from hypothesis import given
from hypothesis import strategies as st
from node_graphs import chain, data, end, flow, node, prompt, sizes, start, when

from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.flows.node_graph import (
    FlowIdentity,
    FlowRun,
    RunState,
    read_definition,
    validate_definition,
)

ASK = prompt("Ask", "{{text}}", ("text", "String"))
GOOD = chain(ASK, "text", "modelCompletion")
EACH = node(
    "Each", "Iterator", [("array", "Array")], [("arrayItem", "String"), ("arraySize", "Number")]
)
ALL = node(
    "All",
    "Collector",
    [("arrayItem", "String"), ("arraySize", "Number")],
    [("collectedArray", "Array")],
)
CHECK = node(
    "Check",
    "Condition",
    [("text", "String")],
    conditions=[{"name": "cats", "expression": "text == 'cat'"}, {"name": "default"}],
)
BEGIN = node("Begin", "LoopInput", outputs=[("text", "String")])
LAST = node(
    "Last",
    "LoopController",
    [("text", "String", "$.data", "LoopCondition"), ("result", "String", "$.data", "ExitLoop")],
    continueCondition={"name": "more", "expression": "text == 'more'"},
)
BODY = flow(BEGIN, LAST, data("Begin.text", "Last.text"), data("Begin.text", "Last.result"))


def checking(*conditions: Mapping[str, Any]) -> dict[str, Any]:
    """A flow with a condition node of these conditions."""
    check = node("Check", "Condition", [("text", "String")], conditions=list(conditions))
    return chain(check, "text", "nothing")


def looping(body: dict[str, Any]) -> dict[str, Any]:
    loop = node("Loop", "Loop", [("text", "String")], [("result", "String")], definition=body)
    return chain(loop, "text", "result")


def without(definition: dict[str, Any], name: str) -> dict[str, Any]:
    """A definition without a node."""
    nodes = [it for it in definition["nodes"] if it["name"] != name]
    return {**definition, "nodes": nodes}


def changed(part: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**part, **members}


def find(definition: dict[str, Any]) -> set[tuple[str, str]]:
    """The types of what is wrong, with what the details name."""
    found = set()
    for one in validate_definition(read_definition(definition)):
        ((_, details),) = one.to_api()["details"].items()
        found.add((one.type, " ".join(str(it) for it in details.values())))
    return found


WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("MissingStartingNodes", "", flow(end())),
    ("MissingEndingNodes", "", flow(start())),
    ("UnreachableNode", "Ask", flow(start(), end(), ASK)),
    ("UnfulfilledNodeInput", "Ask text", flow(start(), end(), ASK)),
    ("UnknownConnectionSource", "NoxToEndy", flow(start(), end(), data("No.x", "End.y"))),
    ("DuplicateConnections", "Start Ask", flow(*GOOD["nodes"], *GOOD["connections"][:1] * 2)),
    (
        "CyclicConnection",
        "AskmodelCompletionToAsktext",
        flow(start(), ASK, end(), data("Ask.modelCompletion", "Ask.text")),
    ),
    (
        "MultipleNodeInputConnections",
        "End document",
        flow(
            start(),
            ASK,
            end(),
            data("Start.document", "End.document"),
            data("Ask.modelCompletion", "End.document"),
        ),
    ),
    (
        "IncompatibleConnectionDataType",
        "StartdocumentToAsktext",
        chain(ASK, "text", "modelCompletion", start="Number"),
    ),
    (
        "IncompatibleConnectionDataType",
        "StartdocumentToEnddocument",
        flow(start(), end(expression="$.data.a"), data("Start.document", "End.document")),
    ),
    ("UnknownConnectionSourceOutput", "AskotherToEnddocument", chain(ASK, "text", "other")),
    ("UnknownConnectionTargetInput", "StartdocumentToAskother", chain(ASK, "other", "x")),
    ("UnknownNodeInput", "End other", flow(start(), changed(end(), inputs=[
        {"name": "other", "type": "String", "expression": "$.data"}]))),
    ("MissingNodeInput", "End document", flow(start(), changed(end(), inputs=[]))),
    ("UnknownNodeOutput", "Start other", flow(changed(start(), outputs=[
        {"name": "other", "type": "String"}]), end())),
    ("MissingNodeOutput", "Start document", flow(changed(start(), outputs=[]), end())),
    ("MismatchedNodeInputType", "Each array Array", chain(changed(EACH, inputs=[
        {"name": "array", "type": "String", "expression": "$.data"}]), "array", "arrayItem")),
    ("MismatchedNodeOutputType", "Ask modelCompletion String", chain(changed(ASK, outputs=[
        {"name": "modelCompletion", "type": "Array"}]), "text", "modelCompletion")),
    ("MissingNodeConfiguration", "Ask", chain(changed(ASK, configuration={}), "text", "x")),
    ("MissingConnectionConfiguration", "StartdocumentToEnddocument", flow(start(), end(), changed(
        data("Start.document", "End.document"), configuration={}))),
    ("UnknownConnectionCondition", "StartcatsToEnd", flow(
        start(), end(), when("Start.cats", "End"))),
    ("MissingDefaultCondition", "Check", checking({"name": "a", "expression": "text == 'a'"})),
    ("DuplicateConditionExpression", "Check text == 'a'", checking(
        {"name": "a", "expression": "text == 'a'"}, {"name": "b", "expression": "text == 'a'"},
        {"name": "default"})),
    ("MalformedConditionExpression", "Check a it has no expression", checking(
        {"name": "a"}, {"name": "default"})),
    ("MissingLoopInputNode", "Loop", looping(without(BODY, "Begin"))),
    ("MissingLoopControllerNode", "Loop", looping(without(BODY, "Last"))),
    ("MultipleLoopInputNodes", "Loop", looping(flow(BEGIN, changed(BEGIN, name="Two"), LAST))),
    ("MultipleLoopControllerNodes", "Loop", looping(flow(BEGIN, LAST, changed(LAST, name="Two")))),
    ("LoopIncompatibleNodeType", "Loop Iterator Each", looping(flow(BEGIN, LAST, EACH))),
    ("InvalidLoopBoundary", "StartdocumentToLasttext Start Last", looping(flow(
        BEGIN, LAST, data("Start.document", "Last.text")))),
    ("Unspecified", "", flow(start(), start(name="Two"), end())),
    ("Unspecified", "", flow(start(), start(), end())),
    ("Unspecified", "", flow(start(), end(), BEGIN)),
    ("Unspecified", "", flow(start(), end(), ALL)),
]  # fmt: skip


@pytest.mark.parametrize(("type", "names", "definition"), WRONG)
def test_what_is_wrong_has_bedrocks_type(type: str, names: str, definition: dict[str, Any]) -> None:
    assert (type, names) in find(definition)


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("txt == 'a'", "there is no input 'txt'; a text constant stands in quotation marks"),
        ("text > 3", "the input 'text' is of the type String, and no Number"),
        ("not text", "the input 'text' is of the type String, and no Boolean"),
    ],
)
def test_a_condition_that_cannot_be_used_says_why(expression: str, cause: str) -> None:
    wrong = checking({"name": "a", "expression": expression}, {"name": "default"})
    assert ("MalformedConditionExpression", f"Check a {cause}") in find(wrong)


def test_conditions_that_exclude_each_other_never_give_anything() -> None:
    both = prompt("Both", "{{one}} {{two}}", ("one", "String"), ("two", "String"))
    graph = flow(
        start(),
        CHECK,
        data("Start.document", "Check.text"),
        *(prompt(name, "{{text}}", ("text", "String")) for name in ("Cat", "Other")),
        data("Start.document", "Cat.text"),
        data("Start.document", "Other.text"),
        when("Check.cats", "Cat"),
        when("Check.default", "Other"),
        both,
        data("Cat.modelCompletion", "Both.one"),
        data("Other.modelCompletion", "Both.two"),
        end(),
        data("Both.modelCompletion", "End.document"),
    )
    assert find(graph) == {("UnsatisfiedConnectionConditions", "OthermodelCompletionToBothtwo")}


def test_items_of_two_iterators_cannot_be_joined() -> None:
    other = changed(EACH, name="Other")
    joins = prompt("Join", "{{one}} {{two}}", ("one", "String"), ("two", "String"))
    graph = flow(
        start("Array"),
        EACH,
        other,
        joins,
        end(),
        data("Start.document", "Each.array"),
        data("Start.document", "Other.array"),
        data("Each.arrayItem", "Join.one"),
        data("Other.arrayItem", "Join.two"),
        data("Join.modelCompletion", "End.document"),
    )
    assert find(graph) == {("Unspecified", "")}


@pytest.mark.parametrize("definition", [GOOD, sizes(), looping(BODY)])
def test_nothing_is_wrong_with_a_good_flow(definition: dict[str, Any]) -> None:
    assert find(definition) == set()


def test_the_types_are_those_of_bedrocks_service_model() -> None:
    model = botocore.session.get_session().get_service_model("bedrock-agent")
    known = set(model.shape_for("FlowValidationType").enum)
    # These two are in the next test.
    tested = {type for type, *_ in WRONG} | {"UnsatisfiedConnectionConditions"}
    assert known - tested == {"MalformedNodeInputExpression", "UnknownConnectionTarget"}


def test_expressions_and_targets_that_are_wrong_are_found() -> None:
    graph = flow(start(), end(expression="data"), data("Start.document", "Nowhere.text"))
    assert {type for type, _ in find(graph)} == {
        "MalformedNodeInputExpression",
        "UnknownConnectionTarget",
        "UnfulfilledNodeInput",
        "UnreachableNode",
    }


def test_too_much_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(ValidationError, match="10,000 nodes and 0 connections; the most are 200"):
        read_definition(flow(*(start(name=f"N{count}") for count in range(10_000))))
    deep = looping(BODY)
    for _ in range(6):
        deep = looping(deep)
    with pytest.raises(ValidationError, match="loops in more than 5 levels"):
        read_definition(deep)


def test_a_dense_graph_is_checked_at_once() -> None:
    nodes = [prompt(f"N{count}", "a", ("text", "String")) for count in range(200)]
    connections = [
        changed(data(f"N{a}.modelCompletion", f"N{b}.text"), name=f"C{a}x{b}")
        for a in range(200)
        for b in range(a + 1, min(a + 6, 200))
    ]
    found = validate_definition(read_definition(flow(*nodes, *connections[:1_000])))
    assert len(found) == 100


# Random graphs


@given(st.data())
def test_every_flow_of_prompts_runs_each_node_once(draw: st.DataObject) -> None:
    size = draw.draw(st.integers(1, 6))
    names = [f"Ask{count}" for count in range(size)]
    sources = ["Start", *names]
    asks, wires = [], []
    for place, name in enumerate(names):
        inputs = draw.draw(st.lists(st.sampled_from(sources[: place + 1]), min_size=1, max_size=3))
        ports = [f"in{count}" for count in range(len(inputs))]
        text = " ".join(f"{{{{{port}}}}}" for port in ports)
        asks.append(prompt(name, text, *((port, "String") for port in ports)))
        for source, port in zip(inputs, ports, strict=True):
            output = "document" if source == "Start" else "modelCompletion"
            wires.append(data(f"{source}.{output}", f"{name}.{port}"))
    ends = [end(name=f"End{count}") for count in range(size)]
    wires += [data(f"Ask{it}.modelCompletion", f"End{it}.document") for it in range(size)]
    definition = read_definition(flow(start(), *asks, *ends, *wires))
    assert validate_definition(definition) == []
    model = Answering(lambda request: "x")
    events: list[Any] = []
    run = FlowRun(definition, Only(model), FlowIdentity("flow", "alias", "e"), events.append)
    assert run.run(RunState("a"))
    assert len(model.requests) == size
    found = [members for name, members in events if name == "flowOutputEvent"]
    assert sorted(it["nodeName"] for it in found) == sorted(it["name"] for it in ends)


NAMES = ["A", "B", "C", "D", "E"]
KINDS = ["Input", "Output", "Condition", "Prompt", "Iterator", "Collector", "InlineCode", "Loop"]
PORTS = ["document", "text", "array", "arrayItem", "arraySize", "collectedArray", "response"]
TYPES = ["String", "Number", "Boolean", "Object", "Array"]
ports = st.lists(
    st.tuples(st.sampled_from(PORTS), st.sampled_from(TYPES)),
    max_size=3,
    unique_by=lambda it: it[0],
)
connections = st.builds(
    lambda kind, a, b, x, y: data(f"{a}.{x}", f"{b}.{y}") if kind else when(f"{a}.default", b),
    st.booleans(),
    *[st.sampled_from(NAMES)] * 2,
    *[st.sampled_from(PORTS)] * 2,
)


def configured(type: str) -> dict[str, Any]:
    if type == "Condition":
        conditions = [{"name": "a", "expression": "text == 'a'"}, {"name": "default"}]
        return {"conditions": conditions}
    if type == "Prompt":
        return dict(ASK["configuration"]["prompt"])
    return {"code": "1", "definition": BODY}


nodes = st.builds(
    lambda name, type, ins, outs: node(name, type, ins, outs, **configured(type)),
    st.sampled_from(NAMES),
    st.sampled_from(KINDS),
    ports,
    ports,
)
graphs = st.builds(
    lambda nodes, connections: flow(*nodes, *connections),
    st.lists(nodes, max_size=7),
    st.lists(connections, max_size=12),
)


@given(graphs, st.sampled_from(["a", 1, True, {"a": "b"}, ["a", "b"], []]))
def test_every_graph_is_refused_or_runs_to_an_end(graph: dict[str, Any], document: Any) -> None:
    definition = read_definition(graph)
    found = validate_definition(definition)
    assert all(it.message and json.dumps(it.to_api()) for it in found)
    if any(it.severity == "Error" for it in found):
        return
    events: list[Any] = []
    run = FlowRun(definition, Nothing(), FlowIdentity("flow", "alias", "e"), events.append)
    try:
        assert run.run(RunState(document))
    except OrchestratorError as error:
        assert "the node '" in error.message


class Only:
    """Services that have a model."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def find_model(self, model_id: str) -> Any:
        return self.model


class Nothing:
    """Services that have nothing."""

    def find_model(self, model_id: str) -> Any:
        raise ValidationError("there is no model")

    def code_interpreter(self) -> Any:
        raise ValidationError("there is no sandbox")
