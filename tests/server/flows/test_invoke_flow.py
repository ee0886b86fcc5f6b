"""InvokeFlow with boto3: each type of node, whole event lists, errors by the node's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bedrock_flow_support import invoke, model, ready, run
from botocore.exceptions import EventStreamError
from control_support import BASE, LAMBDA, Served, says, served
from inline_snapshot import snapshot
from node_graphs import (
    CLAUDE,
    chain,
    data,
    end,
    flow,
    node,
    outputs,
    prompt,
    sizes,
    start,
    story,
    told,
    when,
)

from orchestrator.actions.code_interpreter.process import check_platform


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
    document = {"words": ["Hi {{about}}"], "about": {"is": "cat"}}
    assert told(run(server, graph, document, enableTrace=True)) == snapshot(
        [
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {
                                "document": {"words": ["Hi {{about}}"], "about": {"is": "cat"}}
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
                            "content": {"document": "Hi {{about}}"},
                            "nodeInputName": "greeting",
                            "source": {
                                "expression": "$.data.words[0]",
                                "nodeName": "Start",
                                "outputFieldName": "document",
                            },
                            "type": "String",
                        },
                        {
                            "content": {"document": {"is": "cat"}},
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
                                "content": [{"text": 'Hi {{about}}! {"is": "cat"} {"is": "cat"}'}],
                            }
                        ],
                        "inferenceConfig": {"maxTokens": 20, "temperature": 0.5},
                        "additionalModelRequestFields": {},
                    },
                    "operationResponse": {
                        "output": {
                            "message": {
                                "role": "assistant",
                                "content": [
                                    {"text": '<Hi {{about}}! {"is": "cat"} {"is": "cat"}>'}
                                ],
                            }
                        },
                        "stopReason": "end_turn",
                        "usage": {"inputTokens": 0, "outputTokens": 10, "totalTokens": 10},
                    },
                    "serviceName": "bedrock",
                }
            },
            {
                "nodeOutputTrace": {
                    "fields": [
                        {
                            "content": {"document": '<Hi {{about}}! {"is": "cat"} {"is": "cat"}>'},
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
                            "content": {"document": '<Hi {{about}}! {"is": "cat"} {"is": "cat"}>'},
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
                    "content": {"document": '<Hi {{about}}! {"is": "cat"} {"is": "cat"}>'},
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
                    "content": [{"text": 'Hi {{about}}! {"is": "cat"} {"is": "cat"}'}],
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
    assert story(events) == snapshot(
        [
            "Start gives document={'size': 1, 'name': 'cat'}",
            "Start   -> Check.size",
            "Start   -> Check.name",
            "Start   -> Ishuge.document",
            "Start   -> Islarge.document",
            "Start   -> Isdefault.document",
            "Check takes size=1 <- Start.document .size",
            "Check takes name='cat' <- Start.document .name",
            "Check holds ['default']",
            "Isdefault takes document='cat' <- Start.document .name",
            "Isdefault outputs 'cat'",
            "the end: SUCCESS",
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
    assert story(run(server, graph, document, enableTrace=True)) == snapshot(
        [
            "Start gives document=[{'name': 'cat'}, {'name': 'dog'}]",
            "Start   -> Each.array",
            "Each takes array=[{'name': 'cat'}, {'name': 'dog'}] <- Start.document",
            "Each gives arrayItem={'name': 'cat'}",
            "Each   -> Ask.name",
            "Each gives arraySize=2",
            "Each   -> All.arraySize",
            "Ask takes name='cat' <- Each.arrayItem .name in Each[0]",
            "Ask has Converse",
            "Ask gives modelCompletion='<cat>'",
            "Ask   -> All.arrayItem",
            "Each gives arrayItem={'name': 'dog'}",
            "Each   -> Ask.name",
            "Each gives arraySize=2",
            "Each   -> All.arraySize",
            "Ask takes name='dog' <- Each.arrayItem .name in Each[1]",
            "Ask has Converse",
            "Ask gives modelCompletion='<dog>'",
            "Ask   -> All.arrayItem",
            "All takes arrayItem=['<cat>', '<dog>'] <- Ask.modelCompletion",
            "All takes arraySize=2 <- Each.arraySize",
            "All gives collectedArray=['<cat>', '<dog>']",
            "All   -> End.document",
            "End takes document=['<cat>', '<dog>'] <- All.collectedArray",
            "End outputs ['<cat>', '<dog>']",
            "the end: SUCCESS",
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
            "Last",
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
        data("Ask.modelCompletion", "Last.last"),
        data("Ask.modelCompletion", "Last.text"),
        data("Ask.modelCompletion", "Last.result"),
    )
    loop = node("Grow", "Loop", [("text", "String")], [("result", "String")], definition=body)
    return chain(loop, "text", "result")


def test_a_loop_goes_on_while_its_condition_holds(server: Served) -> None:
    events = run(server, counting("last != '<<a>>'"), "a", enableTrace=True)
    assert story(events) == snapshot(
        [
            "Start gives document='a'",
            "Start   -> Grow.text",
            "Grow takes text='a' <- Start.document",
            "Begin gives text='a'",
            "Begin   -> Ask.text",
            "Ask takes text='a' <- Begin.text in Grow[0]",
            "Ask has Converse",
            "Ask gives modelCompletion='<a>'",
            "Ask   -> Last.last",
            "Ask   -> Last.text",
            "Ask   -> Last.result",
            "Last takes last='<a>' as LoopCondition <- Ask.modelCompletion in Grow[0]",
            "Last takes text='<a>' as ReturnValueToLoopStart <- Ask.modelCompletion in Grow[0]",
            "Last takes result='<a>' as ExitLoop <- Ask.modelCompletion in Grow[0]",
            "Last holds ['more']",
            "Begin gives text='<a>'",
            "Begin   -> Ask.text",
            "Ask takes text='<a>' <- Begin.text in Grow[1]",
            "Ask has Converse",
            "Ask gives modelCompletion='<<a>>'",
            "Ask   -> Last.last",
            "Ask   -> Last.text",
            "Ask   -> Last.result",
            "Last takes last='<<a>>' as LoopCondition <- Ask.modelCompletion in Grow[1]",
            "Last takes text='<<a>>' as ReturnValueToLoopStart <- Ask.modelCompletion in Grow[1]",
            "Last takes result='<<a>>' as ExitLoop <- Ask.modelCompletion in Grow[1]",
            "Grow gives result='<<a>>'",
            "Grow   -> End.document",
            "End takes document='<<a>>' <- Grow.result",
            "End outputs '<<a>>'",
            "the end: SUCCESS",
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
        events = run(server, graph, [1, 2.5], enableTrace=True)
    assert outputs(events) == [("End", {"twice": 5})]
    (action,) = [it["nodeActionTrace"] for it in told(events) if "nodeActionTrace" in it]
    assert (action["serviceName"], action["operationName"]) == ("lambda", "Invoke")
    assert action["operationRequest"] == {"FunctionName": LAMBDA, "Payload": seen[0]}
    assert action["operationResponse"]["Payload"] == {"twice": 5}
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
                with pytest.raises(EventStreamError, match="there is no object"):
                    invoke(server.runtime, id, key)


@pytest.mark.skipif(bool(check_platform()), reason="there is no sandbox for this platform")
def test_inline_code_gives_the_value_of_its_last_line(server: Served) -> None:
    lines = ("import math", "print('no')", "found = [*map(math.sqrt, numbers)]", "{'roots': found}")
    runs = node(
        "Roots",
        "InlineCode",
        [("numbers", "Array")],
        [("response", "Object")],
        code="\n".join(lines),
        language="Python_3",
    )
    graph = chain(runs, "numbers", "response", start="Array", end="Object")
    id = ready(server.control, graph)
    assert outputs(invoke(server.runtime, id, [4, 9])) == [("End", {"roots": [2.0, 3.0]})]
    with pytest.raises(EventStreamError, match=r"the node 'Roots' failed: its code.*ValueError"):
        invoke(server.runtime, id, [-1])


def test_independent_nodes_run_at_the_same_time() -> None:
    import threading

    both = threading.Barrier(2, timeout=60)

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
