"""InvokeFlow with boto3: each type of node, whole event lists, errors by the node's name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bedrock_flow_support import create, invoke, model, prepare, ready
from botocore.exceptions import EventStreamError
from control_support import BASE, LAMBDA, Served, by_caller, refused, says, served
from inline_snapshot import snapshot
from node_graphs import CLAUDE, chain, data, end, flow, node, outputs, prompt, start, told, when

from orchestrator.actions.code_interpreter.process import check_platform


@pytest.fixture
def server() -> Iterator[Served]:
    """A server whose model says what it was asked, in angle brackets."""
    with served(model=model()) as running:
        yield running


def run(server: Served, definition: dict[str, Any], document: Any, **params: Any) -> list[Any]:
    id = ready(server.control, definition)
    return invoke(server.runtime, id, document, **params)


def test_a_prompt_node_fills_its_variables_and_asks_a_model(server: Served) -> None:
    asks = prompt(
        "Ask",
        "{{greeting}}! {{ about }} {{about}}",
        ("greeting", "String", "$.data.words[0]"),
        ("about", "Object", "$.data.about"),
        inferenceConfiguration={"text": {"maxTokens": 20, "temperature": 0.5}},
    )
    graph = flow(
        start("Object"),
        asks,
        end(),
        data("Start.document", "Ask.greeting"),
        data("Start.document", "Ask.about"),
        data("Ask.modelCompletion", "End.document"),
    )
    # A value that looks like a variable stays what it is.
    document = {"words": ["Hello {{about}}"], "about": {"animal": "cat"}}
    assert told(run(server, graph, document, enableTrace=True)) == snapshot(
        [
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {
                                "document": {
                                    "words": ["Hello {{about}}"],
                                    "about": {"animal": "cat"},
                                }
                            },
                            "next": [
                                {"inputFieldName": "greeting", "nodeName": "Ask"},
                                {"inputFieldName": "about", "nodeName": "Ask"},
                            ],
                            "nodeOutputName": "document",
                            "type": "Object",
                        }
                    ],
                    "nodeName": "Start",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "Hello {{about}}"},
                            "nodeInputName": "greeting",
                            "source": {
                                "expression": "$.data.words[0]",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "String",
                        },
                        {
                            "content": {"document": {"animal": "cat"}},
                            "nodeInputName": "about",
                            "source": {
                                "expression": "$.data.about",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "Object",
                        },
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeActionTrace": {
                    "nodeName": "Ask",
                    "operationName": "Converse",
                    "operationRequest": {
                        "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                        "system": [],
                        "messages": [
                            {
                                "role": "user",
                                "content": [
                                    {"text": 'Hello {{about}}! {"animal": "cat"} {"animal": "cat"}'}
                                ],
                            }
                        ],
                        "inferenceConfig": {"maximumLength": 20, "temperature": 0.5},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {
                            "message": {
                                "role": "assistant",
                                "content": [
                                    {
                                        "text": '<Hello {{about}}! {"animal": "cat"} {"animal": "cat"}>'
                                    }
                                ],
                            }
                        },
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 13, "totalTokens": 13},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {
                                "document": '<Hello {{about}}! {"animal": "cat"} {"animal": "cat"}>'
                            },
                            "next": [{"inputFieldName": "document", "nodeName": "End"}],
                            "nodeOutputName": "modelCompletion",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {
                                "document": '<Hello {{about}}! {"animal": "cat"} {"animal": "cat"}>'
                            },
                            "nodeInputName": "document",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "End",
                }
            },
            {
                "flowOutputEvent": {
                    "content": {
                        "document": '<Hello {{about}}! {"animal": "cat"} {"animal": "cat"}>'
                    },
                    "nodeName": "End",
                    "nodeType": "FlowOutputNode",
                }
            },
            {"flowCompletionEvent": {"completionReason": "SUCCESS"}},
        ]
    )
    (request,) = server.model.requests
    assert (request.messages, request.inference) == snapshot(
        (
            [
                {
                    "role": "user",
                    "content": [{"text": 'Hello {{about}}! {"animal": "cat"} {"animal": "cat"}'}],
                }
            ],
            {"maximumLength": 20, "temperature": 0.5},
        )
    )


def test_a_chat_prompt_has_messages_and_a_system(server: Served) -> None:
    chat = {
        "system": [{"text": "You speak {{language}}."}],
        "messages": [
            {"role": "user", "content": [{"text": "Hello."}]},
            {"role": "assistant", "content": [{"text": "Hello!"}]},
            {"role": "user", "content": [{"text": "Greet in {{language}}."}]},
        ],
    }
    asks = prompt(
        "Ask",
        "",
        ("language", "String"),
        templateType="CHAT",
        templateConfiguration={"chat": chat},
    )
    events = run(server, chain(asks, "language", "modelCompletion"), "Danish")
    assert outputs(events) == [("End", "<Greet in Danish.>")]
    (request,) = server.model.requests
    assert (request.system, [it["role"] for it in request.messages]) == (
        "You speak Danish.",
        ["user", "assistant", "user"],
    )


def sizes() -> dict[str, Any]:
    """A flow that says how large a number is."""
    checks = node(
        "Check",
        "Condition",
        [("size", "Number", "$.data.size"), ("name", "String", "$.data.name")],
        conditions=[
            {"name": "huge", "expression": "size >= 100 and not (name == 'mouse')"},
            {"name": "large", "expression": "size > 10"},
            {"name": "default"},
        ],
    )
    return flow(
        start("Object"),
        checks,
        data("Start.document", "Check.size"),
        data("Start.document", "Check.name"),
        *(
            part
            for name in ("huge", "large", "default")
            for part in (
                end(name=f"Is{name}", expression="$.data.name"),
                data("Start.document", f"Is{name}.document"),
                when(f"Check.{name}", f"Is{name}"),
            )
        ),
    )


@pytest.mark.parametrize(
    ("document", "node"),
    [
        ({"size": 100, "name": "whale"}, "Ishuge"),
        ({"size": 100, "name": "mouse"}, "Islarge"),
        ({"size": 11.5, "name": "dog"}, "Islarge"),
        ({"size": 10, "name": "cat"}, "Isdefault"),
    ],
)
def test_the_first_condition_that_holds_says_where_a_flow_goes(
    server: Served, document: dict[str, Any], node: str
) -> None:
    assert outputs(run(server, sizes(), document)) == [(node, document["name"])]


def test_a_condition_node_tells_which_condition_holds(server: Served) -> None:
    events = run(server, sizes(), {"size": 1, "name": "cat"}, enableTrace=True)
    assert told(events) == snapshot(
        [
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": {"size": 1, "name": "cat"}},
                            "next": [
                                {"inputFieldName": "size", "nodeName": "Check"},
                                {"inputFieldName": "name", "nodeName": "Check"},
                                {"inputFieldName": "document", "nodeName": "Ishuge"},
                                {"inputFieldName": "document", "nodeName": "Islarge"},
                                {"inputFieldName": "document", "nodeName": "Isdefault"},
                            ],
                            "nodeOutputName": "document",
                            "type": "Object",
                        }
                    ],
                    "nodeName": "Start",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": 1},
                            "nodeInputName": "size",
                            "source": {
                                "expression": "$.data.size",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "Number",
                        },
                        {
                            "content": {"document": "cat"},
                            "nodeInputName": "name",
                            "source": {
                                "expression": "$.data.name",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "String",
                        },
                    ],
                    "nodeName": "Check",
                }
            },
            {
                "conditionNodeResultTrace": {
                    "nodeName": "Check",
                    "satisfiedConditions": [{"conditionName": "default"}],
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "cat"},
                            "nodeInputName": "document",
                            "source": {
                                "expression": "$.data.name",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Isdefault",
                }
            },
            {
                "flowOutputEvent": {
                    "content": {"document": "cat"},
                    "nodeName": "Isdefault",
                    "nodeType": "FlowOutputNode",
                }
            },
            {"flowCompletionEvent": {"completionReason": "SUCCESS"}},
        ]
    )


def test_what_follows_a_condition_that_does_not_hold_is_left_out(server: Served) -> None:
    checks = node(
        "Check",
        "Condition",
        [("text", "String")],
        conditions=[{"name": "short", "expression": 'text == "hi"'}, {"name": "default"}],
    )
    graph = flow(
        start(),
        checks,
        prompt("Ask", "{{text}}", ("text", "String")),
        prompt("Again", "{{text}}", ("text", "String")),
        end(name="Answer"),
        end(name="Echo"),
        data("Start.document", "Check.text"),
        data("Start.document", "Ask.text"),
        when("Check.short", "Ask"),
        data("Ask.modelCompletion", "Again.text"),
        data("Again.modelCompletion", "Answer.document"),
        data("Start.document", "Echo.document"),
        when("Check.default", "Echo"),
    )
    id = ready(server.control, graph)
    assert outputs(invoke(server.runtime, id, "hi")) == [("Answer", "<<hi>>")]
    assert outputs(invoke(server.runtime, id, "hello")) == [("Echo", "hello")]


def test_an_iterator_runs_what_follows_it_for_each_item_up_to_a_collector(server: Served) -> None:
    graph = flow(
        start("Array"),
        node(
            "Each",
            "Iterator",
            [("array", "Array")],
            [("arrayItem", "Object"), ("arraySize", "Number")],
        ),
        prompt("Ask", "{{name}}", ("name", "String", "$.data.name")),
        node(
            "All",
            "Collector",
            [("arrayItem", "String"), ("arraySize", "Number")],
            [("collectedArray", "Array")],
        ),
        end("Array"),
        data("Start.document", "Each.array"),
        data("Each.arrayItem", "Ask.name"),
        data("Ask.modelCompletion", "All.arrayItem"),
        data("Each.arraySize", "All.arraySize"),
        data("All.collectedArray", "End.document"),
    )
    document = [{"name": "cat"}, {"name": "dog"}]
    assert told(run(server, graph, document, enableTrace=True)) == snapshot(
        [
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": [{"name": "cat"}, {"name": "dog"}]},
                            "next": [{"inputFieldName": "array", "nodeName": "Each"}],
                            "nodeOutputName": "document",
                            "type": "Array",
                        }
                    ],
                    "nodeName": "Start",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": [{"name": "cat"}, {"name": "dog"}]},
                            "nodeInputName": "array",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "Array",
                        }
                    ],
                    "nodeName": "Each",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": {"name": "cat"}},
                            "next": [{"inputFieldName": "name", "nodeName": "Ask"}],
                            "nodeOutputName": "arrayItem",
                            "type": "Object",
                        },
                        {
                            "content": {"document": 2},
                            "next": [{"inputFieldName": "arraySize", "nodeName": "All"}],
                            "nodeOutputName": "arraySize",
                            "type": "Number",
                        },
                    ],
                    "nodeName": "Each",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "cat"},
                            "executionChain": [
                                {"index": 0, "nodeName": "Each", "type": "Iterator"}
                            ],
                            "nodeInputName": "name",
                            "source": {
                                "expression": "$.data.name",
                                "nodeName": "Each",
                                "outputFieldName": "arrayItem",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeActionTrace": {
                    "nodeName": "Ask",
                    "operationName": "Converse",
                    "operationRequest": {
                        "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                        "system": [],
                        "messages": [{"role": "user", "content": [{"text": "cat"}]}],
                        "inferenceConfig": {},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {
                            "message": {"role": "assistant", "content": [{"text": "<cat>"}]}
                        },
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 1, "totalTokens": 1},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<cat>"},
                            "next": [{"inputFieldName": "arrayItem", "nodeName": "All"}],
                            "nodeOutputName": "modelCompletion",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": {"name": "dog"}},
                            "next": [{"inputFieldName": "name", "nodeName": "Ask"}],
                            "nodeOutputName": "arrayItem",
                            "type": "Object",
                        },
                        {
                            "content": {"document": 2},
                            "next": [{"inputFieldName": "arraySize", "nodeName": "All"}],
                            "nodeOutputName": "arraySize",
                            "type": "Number",
                        },
                    ],
                    "nodeName": "Each",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "dog"},
                            "executionChain": [
                                {"index": 1, "nodeName": "Each", "type": "Iterator"}
                            ],
                            "nodeInputName": "name",
                            "source": {
                                "expression": "$.data.name",
                                "nodeName": "Each",
                                "outputFieldName": "arrayItem",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeActionTrace": {
                    "nodeName": "Ask",
                    "operationName": "Converse",
                    "operationRequest": {
                        "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                        "system": [],
                        "messages": [{"role": "user", "content": [{"text": "dog"}]}],
                        "inferenceConfig": {},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {
                            "message": {"role": "assistant", "content": [{"text": "<dog>"}]}
                        },
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 1, "totalTokens": 1},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<dog>"},
                            "next": [{"inputFieldName": "arrayItem", "nodeName": "All"}],
                            "nodeOutputName": "modelCompletion",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": ["<cat>", "<dog>"]},
                            "nodeInputName": "arrayItem",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                        {
                            "content": {"document": 2},
                            "nodeInputName": "arraySize",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Each",
                                "outputFieldName": "arraySize",
                            },
                            "type": "Number",
                        },
                    ],
                    "nodeName": "All",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": ["<cat>", "<dog>"]},
                            "next": [{"inputFieldName": "document", "nodeName": "End"}],
                            "nodeOutputName": "collectedArray",
                            "type": "Array",
                        }
                    ],
                    "nodeName": "All",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": ["<cat>", "<dog>"]},
                            "nodeInputName": "document",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "All",
                                "outputFieldName": "collectedArray",
                            },
                            "type": "Array",
                        }
                    ],
                    "nodeName": "End",
                }
            },
            {
                "flowOutputEvent": {
                    "content": {"document": ["<cat>", "<dog>"]},
                    "nodeName": "End",
                    "nodeType": "FlowOutputNode",
                }
            },
            {"flowCompletionEvent": {"completionReason": "SUCCESS"}},
        ]
    )


def test_without_a_collector_each_item_is_an_output_of_its_own(server: Served) -> None:
    graph = flow(
        start("Array"),
        node("Each", "Iterator", [("array", "Array")], [("arrayItem", "Number")]),
        end("Number"),
        data("Start.document", "Each.array"),
        data("Each.arrayItem", "End.document"),
    )
    assert outputs(run(server, graph, [1, 2, 3])) == [("End", 1), ("End", 2), ("End", 3)]


def counting(expression: str, most: int | None = None) -> dict[str, Any]:
    """A flow whose loop adds to a text by a model, while a condition holds."""
    limit = {} if most is None else {"maxIterations": most}
    body = flow(
        node("Begin", "LoopInput", outputs=[("text", "String")]),
        prompt("Ask", "{{text}}", ("text", "String")),
        node(
            "Decide",
            "LoopController",
            [
                ("last", "String", "$.data", "LoopCondition"),
                ("text", "String", "$.data", "ReturnValueToLoopStart"),
                ("result", "String", "$.data", "ExitLoop"),
            ],
            continueCondition={"name": "more", "expression": expression},
            **limit,
        ),
        data("Begin.text", "Ask.text"),
        data("Ask.modelCompletion", "Decide.last"),
        data("Ask.modelCompletion", "Decide.text"),
        data("Ask.modelCompletion", "Decide.result"),
    )
    loop = node("Grow", "Loop", [("text", "String")], [("result", "String")], definition=body)
    return chain(loop, "text", "result")


def test_a_loop_goes_on_while_its_condition_holds(server: Served) -> None:
    events = run(server, counting("last != '<<a>>'"), "a", enableTrace=True)
    assert told(events) == snapshot(
        [
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "a"},
                            "next": [{"inputFieldName": "text", "nodeName": "Grow"}],
                            "nodeOutputName": "document",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Start",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "a"},
                            "nodeInputName": "text",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Grow",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "a"},
                            "next": [{"inputFieldName": "text", "nodeName": "Ask"}],
                            "nodeOutputName": "text",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Begin",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "a"},
                            "executionChain": [{"index": 0, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "text",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Begin",
                                "outputFieldName": "text",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeActionTrace": {
                    "nodeName": "Ask",
                    "operationName": "Converse",
                    "operationRequest": {
                        "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                        "system": [],
                        "messages": [{"role": "user", "content": [{"text": "a"}]}],
                        "inferenceConfig": {},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {"message": {"role": "assistant", "content": [{"text": "<a>"}]}},
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 1, "totalTokens": 1},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<a>"},
                            "next": [
                                {"inputFieldName": "last", "nodeName": "Decide"},
                                {"inputFieldName": "text", "nodeName": "Decide"},
                                {"inputFieldName": "result", "nodeName": "Decide"},
                            ],
                            "nodeOutputName": "modelCompletion",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "category": "LoopCondition",
                            "content": {"document": "<a>"},
                            "executionChain": [{"index": 0, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "last",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                        {
                            "category": "ReturnValueToLoopStart",
                            "content": {"document": "<a>"},
                            "executionChain": [{"index": 0, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "text",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                        {
                            "category": "ExitLoop",
                            "content": {"document": "<a>"},
                            "executionChain": [{"index": 0, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "result",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                    ],
                    "nodeName": "Decide",
                }
            },
            {
                "conditionNodeResultTrace": {
                    "nodeName": "Decide",
                    "satisfiedConditions": [{"conditionName": "more"}],
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<a>"},
                            "next": [{"inputFieldName": "text", "nodeName": "Ask"}],
                            "nodeOutputName": "text",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Begin",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<a>"},
                            "executionChain": [{"index": 1, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "text",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Begin",
                                "outputFieldName": "text",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeActionTrace": {
                    "nodeName": "Ask",
                    "operationName": "Converse",
                    "operationRequest": {
                        "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                        "system": [],
                        "messages": [{"role": "user", "content": [{"text": "<a>"}]}],
                        "inferenceConfig": {},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {
                            "message": {"role": "assistant", "content": [{"text": "<<a>>"}]}
                        },
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 1, "totalTokens": 1},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<<a>>"},
                            "next": [
                                {"inputFieldName": "last", "nodeName": "Decide"},
                                {"inputFieldName": "text", "nodeName": "Decide"},
                                {"inputFieldName": "result", "nodeName": "Decide"},
                            ],
                            "nodeOutputName": "modelCompletion",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Ask",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "category": "LoopCondition",
                            "content": {"document": "<<a>>"},
                            "executionChain": [{"index": 1, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "last",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                        {
                            "category": "ReturnValueToLoopStart",
                            "content": {"document": "<<a>>"},
                            "executionChain": [{"index": 1, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "text",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                        {
                            "category": "ExitLoop",
                            "content": {"document": "<<a>>"},
                            "executionChain": [{"index": 1, "nodeName": "Grow", "type": "Loop"}],
                            "nodeInputName": "result",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Ask",
                                "outputFieldName": "modelCompletion",
                            },
                            "type": "String",
                        },
                    ],
                    "nodeName": "Decide",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<<a>>"},
                            "next": [{"inputFieldName": "document", "nodeName": "End"}],
                            "nodeOutputName": "result",
                            "type": "String",
                        }
                    ],
                    "nodeName": "Grow",
                }
            },
            {
                "nodeInputTrace": {
                    "fields": [
                        {
                            "content": {"document": "<<a>>"},
                            "nodeInputName": "document",
                            "source": {
                                "expression": "$.data",
                                "nodeName": "Grow",
                                "outputFieldName": "result",
                            },
                            "type": "String",
                        }
                    ],
                    "nodeName": "End",
                }
            },
            {
                "flowOutputEvent": {
                    "content": {"document": "<<a>>"},
                    "nodeName": "End",
                    "nodeType": "FlowOutputNode",
                }
            },
            {"flowCompletionEvent": {"completionReason": "SUCCESS"}},
        ]
    )


@pytest.mark.parametrize(("most", "rounds"), [(None, 10), (3, 3)])
def test_a_loop_ends_after_its_most_rounds(server: Served, most: int | None, rounds: int) -> None:
    events = run(server, counting("last != 'never'", most), "a")
    assert outputs(events) == [("End", "<" * rounds + "a" + ">" * rounds)]


def test_a_lambda_function_gets_bedrocks_event() -> None:
    seen: list[Any] = []

    def double(event: dict[str, Any], context: Any) -> Any:
        seen.append(event)
        return {"twice": 2 * event["node"]["inputs"][0]["value"]}

    asks = node(
        "Double",
        "LambdaFunction",
        [("codeHookInput", "Number", "$.data[1]")],
        [("functionResponse", "Object")],
        lambdaArn=LAMBDA,
    )
    graph = chain(asks, "codeHookInput", "functionResponse", start="Array", end="Object")
    with served(model=model(), lambdas={LAMBDA: double}) as server:
        events = run(server, graph, [1, 2.5])
    assert outputs(events) == [("End", {"twice": 5})]
    arn = seen[0]["flow"]["flowArn"]
    assert json.loads(json.dumps(seen).replace(arn, "<flow>")) == snapshot(
        [
            {
                "messageVersion": "1.0",
                "flow": {"flowArn": "<flow>", "flowAliasArn": "<flow>/alias/TSTALIASID"},
                "node": {
                    "name": "Double",
                    "inputs": [
                        {
                            "name": "codeHookInput",
                            "type": "Number",
                            "expression": "$.data[1]",
                            "value": 2.5,
                        }
                    ],
                },
            }
        ]
    )


def test_an_agent_node_asks_an_agent_with_attributes() -> None:
    with served(lambda request: says("Twelve days.")) as server:
        agent = server.ready()
        arn = server.world.agents.store.arns.alias(agent, "TSTALIASID")
        asks = node(
            "Ask",
            "Agent",
            [
                ("agentInputText", "String", "$.data.question"),
                ("sessionAttributes", "Object", "$.data.who"),
            ],
            [("agentResponse", "String")],
            agentAliasArn=arn,
        )
        graph = chain(asks, "agentInputText", "agentResponse", start="Object")
        graph["connections"].append(data("Start.document", "Ask.sessionAttributes"))
        document = {"question": "How many?", "who": {"name": "Ada"}}
        events = run(server, graph, document, enableTrace=True)
    assert outputs(events) == [("End", "Twelve days.")]
    traces = [it["nodeDependencyTrace"] for it in told(events) if "nodeDependencyTrace" in it]
    assert [it["nodeName"] for it in traces] == ["Ask"] * len(traces)
    parts = [part for it in traces for part in it["traceElements"]["agentTraces"]]
    assert [list(part["trace"]["orchestrationTrace"]) for part in parts] == snapshot(
        [["modelInvocationInput"], ["modelInvocationOutput"], ["rationale"], ["observation"]]
    )


def test_a_knowledge_base_node_searches_or_has_a_model_answer(tmp_path: Path) -> None:
    (tmp_path / "cats.md").write_text("# Cats\n\nA cat sleeps for sixteen hours a day.\n")
    answers = model(lambda text: "<answer>Sixteen hours.</answer>")
    with served(model=answers, buckets={"docs": tmp_path}) as server:
        control = server.control
        base = control.create_knowledge_base(**BASE)["knowledgeBase"]["knowledgeBaseId"]
        fill(control, base)

        def ask(output: str, type: str, **members: Any) -> list[Any]:
            asks = node(
                "Search",
                "KnowledgeBase",
                [("retrievalQuery", "String")],
                [(output, type)],
                knowledgeBaseId=base,
                **members,
            )
            graph = chain(asks, "retrievalQuery", output, end=type)
            id = ready(control, graph, output)
            return outputs(invoke(server.runtime, id, "How long do cats sleep?"))

        ((_, found),) = ask("retrievalResults", "Array", numberOfResults=1)
        assert [it["content"]["text"] for it in found] == snapshot(
            [
                """\
Cats

A cat sleeps for sixteen hours a day.\
"""
            ]
        )
        assert ask("outputText", "String", modelId=CLAUDE) == [("End", "Sixteen hours.")]


def fill(control: Any, base: str) -> None:
    """Has a knowledge base read the bucket `docs`."""
    from waiting import until

    location = {"type": "S3", "s3Configuration": {"bucketArn": "arn:aws:s3:::docs"}}
    source = control.create_data_source(
        knowledgeBaseId=base, name="docs", dataSourceConfiguration=location
    )["dataSource"]["dataSourceId"]
    place = {"knowledgeBaseId": base, "dataSourceId": source}
    job = control.start_ingestion_job(**place)["ingestionJob"]["ingestionJobId"]
    until(
        lambda: (
            control.get_ingestion_job(**place, ingestionJobId=job)["ingestionJob"]["status"]
            == "COMPLETE"
        )
    )


def test_storage_and_retrieval_nodes_use_a_bucket(tmp_path: Path) -> None:
    s3 = {"serviceConfiguration": {"s3": {"bucketName": "letters"}}}
    stores = node(
        "Store",
        "Storage",
        [("content", "Object", "$.data.content"), ("objectKey", "String", "$.data.key")],
        [("s3Uri", "String")],
        **s3,
    )
    stored = flow(
        start("Object"),
        stores,
        end(),
        data("Start.document", "Store.content"),
        data("Start.document", "Store.objectKey"),
        data("Store.s3Uri", "End.document"),
    )
    reads = [
        node("Read", "Retrieval", [("objectKey", "String")], [("s3Content", type)], **s3)
        for type in ("String", "Object")
    ]
    with served(model=model(), buckets={"letters": tmp_path}) as server:
        document = {"content": {"a": "é"}, "key": "new/one.json"}
        assert outputs(run(server, stored, document)) == [("End", "s3://letters/new/one.json")]
        assert (tmp_path / "new" / "one.json").read_text() == '{"a": "é"}'
        for read, content in zip(reads, ('{"a": "é"}', {"a": "é"}), strict=True):
            type = read["outputs"][0]["type"]
            id = ready(server.control, chain(read, "objectKey", "s3Content", end=type), type)
            assert outputs(invoke(server.runtime, id, "new/one.json")) == [("End", content)]
            for key in ("../keys.json", "nothing.json"):
                with pytest.raises(EventStreamError, match="ResourceNotFound|no object"):
                    invoke(server.runtime, id, key)


@pytest.mark.skipif(bool(check_platform()), reason="there is no sandbox for this platform")
def test_inline_code_gives_the_value_of_its_last_line(server: Served) -> None:
    code = "import math\nprint('not this')\nroots = [math.sqrt(it) for it in numbers]\n{'roots': roots}"
    runs = node(
        "Roots",
        "InlineCode",
        [("numbers", "Array")],
        [("response", "Object")],
        code=code,
        language="Python_3",
    )
    graph = chain(runs, "numbers", "response", start="Array", end="Object")
    id = ready(server.control, graph)
    assert outputs(invoke(server.runtime, id, [4, 9])) == [("End", {"roots": [2.0, 3.0]})]
    with pytest.raises(EventStreamError, match="the node 'Roots' failed: its code.*ValueError"):
        invoke(server.runtime, id, [-1])


def test_independent_nodes_run_at_the_same_time() -> None:
    import threading

    both = threading.Barrier(2, timeout=30)

    def meet(text: str) -> str:
        both.wait()
        return text

    graph = flow(
        start(),
        *(prompt(name, f"{name} {{{{text}}}}", ("text", "String")) for name in ("One", "Two")),
        end(name="First"),
        end(name="Second"),
        data("Start.document", "One.text"),
        data("Start.document", "Two.text"),
        data("One.modelCompletion", "First.document"),
        data("Two.modelCompletion", "Second.document"),
    )
    with served(model=model(meet)) as server:
        found = outputs(run(server, graph, "a"))
    assert sorted(found) == [("First", "One a"), ("Second", "Two a")]


# What goes wrong


def test_a_node_that_fails_ends_the_stream_with_its_exception() -> None:
    def fail(event: Any, context: Any) -> Any:
        raise KeyError("secret")

    asks = node(
        "Call",
        "LambdaFunction",
        [("codeHookInput", "String")],
        [("functionResponse", "String")],
        lambdaArn=LAMBDA,
    )
    with served(model=model(), lambdas={LAMBDA: fail}) as server:
        with pytest.raises(EventStreamError) as found:
            run(server, chain(asks, "codeHookInput", "functionResponse"), "a")
    error = found.value.response["Error"]
    assert error["Code"] == "dependencyFailedException"
    assert re.fullmatch(
        f"the node 'Call' failed: the function '{LAMBDA}' raised KeyError at "
        r"test_invoke_flow.py:\d+; its own message is kept out of this one, .*",
        error["Message"],
    )


@pytest.mark.parametrize(
    ("expression", "type", "document", "message"),
    [
        ("$.data.a", "String", {"b": 1}, "is $.data.a, and the input has no such part"),
        ("$.data.a", "String", {"a": 1}, "is of the type Number, and the flow says String"),
        ("$.data.a", "String", {"a": None}, "is of the type null, and the flow says String"),
        ("$.data", "Object", "text", "is of the type String, and the flow says Object"),
    ],
)
def test_a_value_of_another_type_is_an_error(
    server: Served, expression: str, type: str, document: Any, message: str
) -> None:
    graph = flow(
        start("Object"), end(type, expression=expression), data("Start.document", "End.document")
    )
    with pytest.raises(EventStreamError) as found:
        run(server, graph, document)
    error = found.value.response["Error"]
    assert error["Code"] == "validationException"
    assert message in error["Message"], error


def test_a_prompt_without_a_value_for_a_variable_says_which(server: Served) -> None:
    graph = chain(prompt("Ask", "{{what}}", ("text", "String")), "text", "modelCompletion")
    with pytest.raises(EventStreamError, match="has a variable 'what', and the node no input"):
        run(server, graph, "a")


def test_a_stored_prompt_is_not_there_yet(server: Served) -> None:
    arn = "arn:aws:bedrock:us-east-1:000000000000:prompt/ABCDEFGHIJ"
    asks = node(
        "Ask",
        "Prompt",
        [("text", "String")],
        [("modelCompletion", "String")],
        sourceConfiguration={"resource": {"promptArn": arn}},
    )
    with pytest.raises(EventStreamError, match="this server stores no prompts; write it into"):
        run(server, chain(asks, "text", "modelCompletion"), "a")


def test_a_stored_prompt_comes_from_whoever_has_them(server: Served) -> None:
    arn = "arn:aws:bedrock:us-east-1:000000000000:prompt/ABCDEFGHIJ:1"
    asks = node(
        "Ask",
        "Prompt",
        [("text", "String")],
        [("modelCompletion", "String")],
        sourceConfiguration={"resource": {"promptArn": arn}},
    )
    inline = prompt("Ask", "Stored: {{text}}")["configuration"]["prompt"]["sourceConfiguration"]
    seen = []

    class Prompts:
        def find_prompt(self, arn: str) -> Any:
            seen.append(arn)
            return inline["inline"]

    server.world.flows.find_prompts = lambda caller: Prompts()
    events = run(server, chain(asks, "text", "modelCompletion"), "a")
    assert (outputs(events), seen) == ([("End", "<Stored: a>")], [arn])


def test_an_input_goes_to_the_input_node(server: Served) -> None:
    id = ready(server.control, sizes())
    common = {"flowIdentifier": id, "flowAliasIdentifier": "TSTALIASID"}
    content = {"content": {"document": {}}}
    with refused("ValidationException", "a flow begins at its Input node 'Start', and not at 'X'"):
        server.runtime.invoke_flow(**common, inputs=[{"nodeName": "X", **content}])
    with refused("ValidationException", "has the output 'document', and no 'other'"):
        given = {"nodeName": "Start", "nodeOutputName": "other", **content}
        server.runtime.invoke_flow(**common, inputs=[given])


def test_a_lex_node_is_refused_by_name_with_a_way_out(server: Served) -> None:
    lex = node(
        "Bot",
        "Lex",
        [("inputText", "String")],
        [("predictedIntent", "String")],
        botAliasArn="arn:aws:lex:us-east-1:123456789012:bot-alias/A/B",
        localeId="en_US",
    )
    id = create(server.control, chain(lex, "inputText", "predictedIntent"))
    found = prepare(server.control, id)
    assert (found["status"], found["validations"]) == snapshot(
        (
            "Failed",
            [
                {
                    "message": "the node 'Bot' is of the type Lex, which is not run here: use a LambdaFunction node that asks the bot, or a Prompt node that names the intent",
                    "severity": "Error",
                    "details": {"unspecified": {}},
                    "type": "Unspecified",
                }
            ],
        )
    )
