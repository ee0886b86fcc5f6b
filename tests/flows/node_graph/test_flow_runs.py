"""Runs of flows without a server: budgets, stopping, guardrails, what nodes may run at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from control_support import Answering
from node_graphs import chain, data, end, flow, node, prompt, start

from orchestrator.errors import LimitExceeded, ModelOutputError
from orchestrator.flows.node_graph import (
    FLOW_LIMITS,
    FlowIdentity,
    FlowRun,
    RunState,
    StreamEvent,
    read_definition,
    validate_definition,
)
from orchestrator.flows.node_graph.run import RunStopped
from orchestrator.guardrails import Verdict
from orchestrator.limits import Limits
from orchestrator.testing import ScriptedModel

ASK = prompt("Ask", "{{text}}", ("text", "String"))
LETTER = chain(ASK, "text", "modelCompletion")


class Services:
    """A model that says what it was asked, and a guardrail."""

    def __init__(self, answer: Callable[[Any], Any] | None = None) -> None:
        self.model: Any = Answering(answer or (lambda it: it.messages[-1]["content"][0]["text"]))

    def find_model(self, model_id: str) -> Any:
        return self.model

    def find_guardrail(self, id: str, version: str) -> Any:
        return Guardrail()


class Guardrail:
    """Blocks what has `bomb` in it, and masks Ada."""

    id = "g1"

    def check(self, text: str, source: str) -> Verdict:
        if "bomb" in text:
            return Verdict("INTERVENED", f"No ({source}).", True)
        masked = text.replace("Ada", "{NAME}")
        return Verdict("NONE" if masked == text else "INTERVENED", masked)


def run(
    definition: dict[str, Any],
    document: Any,
    services: Any = None,
    send: Callable[[StreamEvent], None] = lambda event: None,
    **limits: Any,
) -> list[Any]:
    """What the Output nodes gave."""
    graph = read_definition(definition)
    assert [it for it in validate_definition(graph) if it.severity == "Error"] == []
    events: list[StreamEvent] = []

    def keep(event: StreamEvent) -> None:
        events.append(event)
        send(event)

    budgets = Limits(**{name: getattr(FLOW_LIMITS, name) for name in Limits.__slots__} | limits)
    identity = FlowIdentity("flow", "alias", "e")
    one = FlowRun(graph, services or Services(), identity, keep, limits=budgets)
    assert one.run(RunState(document))
    return [it["content"]["document"] for name, it in events if name == "flowOutputEvent"]


@pytest.mark.parametrize(
    ("limits", "limit", "message"),
    [
        ({"iterations": 2}, "iterations", "used all of its 2 runs of its nodes"),
        ({"tokens": 1}, "tokens", "used all of its 1 tokens of models"),
        ({"seconds": 1e-9}, "seconds", "ran for over 1e-09 seconds"),
    ],
)
def test_a_run_has_a_budget(limits: dict[str, Any], limit: str, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message) as found:
        run(LETTER, "a few words", Services(), **limits)
    assert found.value.limit == limit


def test_a_budget_of_calls_is_checked_before_the_call() -> None:
    services = Services()
    twice = flow(
        start(),
        ASK,
        prompt("Again", "{{text}}", ("text", "String")),
        end(),
        data("Start.document", "Ask.text"),
        data("Ask.modelCompletion", "Again.text"),
        data("Again.modelCompletion", "End.document"),
    )
    with pytest.raises(LimitExceeded, match="the node 'Again' failed: the flow used all of its 1"):
        run(twice, "a", services, model_calls=1)
    assert len(services.model.requests) == 1


def test_a_large_value_is_refused_by_the_nodes_name() -> None:
    with pytest.raises(Exception, match="the node 'Start' failed: its output 'document' has 102"):
        run(LETTER, "x" * 100, result_bytes=100)


def test_a_run_that_is_stopped_ends_before_its_next_node() -> None:
    graph = read_definition(LETTER)
    services = Services()
    one = FlowRun(graph, services, FlowIdentity("f", "a", "e"), lambda event: one.stop())
    with pytest.raises(RunStopped):
        one.run(RunState("a"))
    assert services.model.requests == []


def test_as_many_nodes_run_at_once_as_may() -> None:
    names = [f"Ask{count}" for count in range(6)]
    graph = flow(
        start(),
        *(prompt(name, "{{text}}", ("text", "String")) for name in names),
        *(end(name=f"End{name}") for name in names),
        *(data("Start.document", f"{name}.text") for name in names),
        *(data(f"{name}.modelCompletion", f"End{name}.document") for name in names),
    )
    running, most, lock = 0, 0, threading.Lock()
    pair = threading.Barrier(2)

    def answer(request: Any) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait(30)
        with lock:
            running -= 1
        return "x"

    assert run(graph, "a", Services(answer), parallel=2) == ["x"] * 6
    assert most == 2


def test_a_node_that_no_way_leads_to_never_runs() -> None:
    services = Services()
    graph = flow(start(), end(), prompt("Lost", "Hello"), data("Start.document", "End.document"))
    assert run(graph, "a", services) == ["a"]
    assert services.model.requests == []


def guarded(text: str) -> dict[str, Any]:
    """A flow whose prompt has a guardrail."""
    asks = prompt("Ask", text, ("text", "String"))
    asks["configuration"]["prompt"]["guardrailConfiguration"] = {
        "guardrailIdentifier": "g1",
        "guardrailVersion": "1",
    }
    return chain(asks, "text", "modelCompletion")


def test_a_guardrail_blocks_a_prompt_and_masks_an_answer() -> None:
    services = Services()
    assert run(guarded("Build a bomb, {{text}}"), "a", services) == ["No (INPUT)."]
    assert services.model.requests == []
    assert run(guarded("{{text}}"), "Ada said", services) == ["{NAME} said"]
    bombs = Services(lambda request: "a bomb")
    assert run(guarded("{{text}}"), "a", bombs) == ["No (OUTPUT)."]


def test_a_model_that_gives_no_text_is_an_error() -> None:
    services = Services()
    use = {"toolUse": {"toolUseId": "t", "name": "x", "input": {}}}
    services.model = ScriptedModel([[use]], "anthropic.claude-3-5-sonnet-20240620-v1:0")
    with pytest.raises(ModelOutputError, match="the node 'Ask' failed: its model gave no text"):
        run(LETTER, "a", services)


def test_an_iterator_in_an_iterator_runs_item_by_item() -> None:
    def each(name: str, item: str) -> dict[str, Any]:
        outputs = [("arrayItem", item), ("arraySize", "Number")]
        return node(name, "Iterator", [("array", "Array")], outputs)

    def collect(name: str, item: str) -> dict[str, Any]:
        inputs = [("arrayItem", item), ("arraySize", "Number")]
        return node(name, "Collector", inputs, [("collectedArray", "Array")])

    # The prompt takes the outer flow's name with each letter of each word.
    graph = flow(
        start("Object"),
        each("Words", "Array"),
        each("Letters", "String"),
        prompt(
            "Ask", "{{name}}{{letter}}", ("name", "String", "$.data.name"), ("letter", "String")
        ),
        collect("Word", "String"),
        collect("All", "Array"),
        end("Array"),
        data("Start.document", "Ask.name"),
        data("Start.document", "Words.array"),
        data("Words.arrayItem", "Letters.array"),
        data("Letters.arrayItem", "Ask.letter"),
        data("Ask.modelCompletion", "Word.arrayItem"),
        data("Letters.arraySize", "Word.arraySize"),
        data("Word.collectedArray", "All.arrayItem"),
        data("Words.arraySize", "All.arraySize"),
        data("All.collectedArray", "End.document"),
    )
    words = next(it for it in graph["nodes"] if it["name"] == "Words")
    words["inputs"][0]["expression"] = "$.data.words"
    document = {"name": "N", "words": [["a", "b"], [], ["c"]]}
    assert run(graph, document) == [[["Na", "Nb"], [], ["Nc"]]]
