"""What goes wrong in a flow: errors say which node, and what to do about it."""

from __future__ import annotations

import gc
import re
import threading
from asyncio import CancelledError
from pathlib import Path
from typing import Any

import pytest
from bedrock_flow_support import create, invoke, model, prepare, ready, run
from botocore.exceptions import EventStreamError
from control_support import LAMBDA, Served, refused, served
from node_graphs import (
    chain,
    data,
    end,
    flow,
    node,
    outputs,
    prompt,
    sizes,
    start,
    when,
)
from server_requests import ID, SECRET, write_keys
from waiting import until

from orchestrator.flows.node_graph import FlowRun


@pytest.mark.parametrize("failure", [KeyError, SystemExit, CancelledError])
def test_a_node_that_fails_ends_the_stream_with_its_exception(
    failure: type[BaseException],
) -> None:
    def fail(event: Any, context: Any) -> Any:
        raise failure("secret")

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
        f"the node 'Call' failed: the function '{LAMBDA}' raised {failure.__name__} at "
        r"test_flow_failures.py:\d+; its own message is kept out of this one, .*",
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


def asks_stored(arn: str) -> Any:
    """A Prompt node that asks with a stored prompt."""
    return node(
        "Ask",
        "Prompt",
        [("text", "String")],
        [("modelCompletion", "String")],
        sourceConfiguration={"resource": {"promptArn": arn}},
    )


@pytest.mark.parametrize(("version", "text"), [(":1", "<Stored: a>"), ("", "<Later: a>")])
def test_a_stored_prompt_is_asked_with_in_the_version_that_the_node_names(
    server: Served, version: str, text: str
) -> None:
    inline = prompt("Ask", "Stored: {{text}}")["configuration"]["prompt"]["sourceConfiguration"]
    variant = {"name": "only", **inline["inline"]}
    made = server.control.create_prompt(name="p", variants=[variant], defaultVariant="only")
    server.control.create_prompt_version(promptIdentifier=made["id"])
    later = {**variant, "templateConfiguration": {"text": {"text": "Later: {{text}}"}}}
    server.control.update_prompt(
        promptIdentifier=made["id"], name="p", variants=[later], defaultVariant="only"
    )
    graph = chain(asks_stored(made["arn"] + version), "text", "modelCompletion")
    assert outputs(run(server, graph, "a")) == [("End", text)]


def test_a_stored_prompt_that_is_not_there_says_so(server: Served) -> None:
    arn = "arn:aws:bedrock:us-east-1:000000000000:prompt/ABCDEFGHIJ"
    with pytest.raises(
        EventStreamError, match="the node 'Ask' failed: there is no prompt 'ABCDEFGHIJ'"
    ):
        run(server, chain(asks_stored(arn), "text", "modelCompletion"), "a")


def test_a_stored_prompt_without_a_model_says_so(server: Served) -> None:
    text = {"templateType": "TEXT", "templateConfiguration": {"text": {"text": "Hi"}}}
    variants = [{"name": "only", **text}]
    made = server.control.create_prompt(name="p", variants=variants, defaultVariant="only")
    with pytest.raises(EventStreamError, match="names no model; give its variant a modelId"):
        run(server, chain(asks_stored(made["arn"]), "text", "modelCompletion"), "a")


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
    (said,) = found["validations"]
    assert (found["status"], said["type"]) == ("Failed", "Unspecified")
    assert said["message"] == (
        "the node 'Bot' is of the type Lex, which is not run here: use a LambdaFunction node that "
        "asks the bot, or a Prompt node that names the intent"
    )


def test_a_run_ends_when_it_has_used_its_budget(server: Served) -> None:
    graph = flow(
        start("Array"),
        node("Each", "Iterator", [("array", "Array")], [("arrayItem", "Number")]),
        end("Number"),
        data("Start.document", "Each.array"),
        data("Each.arrayItem", "End.document"),
    )
    id = ready(server.control, graph)
    with pytest.raises(EventStreamError, match="used all of its 1,000 runs of its nodes") as found:
        invoke(server.runtime, id, list(range(2_000)))
    assert found.value.response["Error"]["Code"] == "serviceQuotaExceededException"


def test_a_collector_that_misses_an_item_is_an_error(server: Served) -> None:
    checks = node(
        "Check",
        "Condition",
        [("text", "String")],
        conditions=[{"name": "cats", "expression": "text == 'cat'"}, {"name": "default"}],
    )
    graph = flow(
        start("Array"),
        node(
            "Each",
            "Iterator",
            [("array", "Array")],
            [("arrayItem", "String"), ("arraySize", "Number")],
        ),
        checks,
        prompt("Ask", "{{text}}", ("text", "String")),
        node(
            "All",
            "Collector",
            [("arrayItem", "String"), ("arraySize", "Number")],
            [("collectedArray", "Array")],
        ),
        end("Array"),
        data("Start.document", "Each.array"),
        data("Each.arrayItem", "Check.text"),
        data("Each.arrayItem", "Ask.text"),
        when("Check.cats", "Ask"),
        data("Ask.modelCompletion", "All.arrayItem"),
        data("Each.arraySize", "All.arraySize"),
        data("All.collectedArray", "End.document"),
    )
    id = ready(server.control, graph)
    assert outputs(invoke(server.runtime, id, ["cat"])) == [("End", ["<cat>"])]
    assert outputs(invoke(server.runtime, id, [])) == [("End", [])]
    with pytest.raises(EventStreamError, match="the node 'All' failed: 1 of 2 items reached it"):
        invoke(server.runtime, id, ["cat", "dog"])


def test_nodes_use_what_the_caller_may_use(tmp_path: Path) -> None:
    def read(bucket: str) -> dict[str, Any]:
        s3 = {"serviceConfiguration": {"s3": {"bucketName": bucket}}}
        reads = node(
            "Read", "Retrieval", [("objectKey", "String")], [("s3Content", "String")], **s3
        )
        return chain(reads, "objectKey", "s3Content")

    calls = node(
        "Call",
        "LambdaFunction",
        [("codeHookInput", "String")],
        [("functionResponse", "String")],
        lambdaArn=LAMBDA,
    )
    forbidden = [read("letters"), chain(calls, "codeHookInput", "functionResponse")]
    (tmp_path / "one.txt").write_text("Dear Ada")
    settings: dict[str, Any] = {
        "keys": write_keys(tmp_path),
        "buckets": {"claims": tmp_path, "letters": tmp_path},
        "lambdas": {LAMBDA: lambda event, context: "no"},
    }
    with served(model=model(), **settings) as server:
        control, runtime = server.control_as(ID, SECRET), server.runtime_as(ID, SECRET)
        allowed = ready(control, read("claims"), "allowed")
        assert outputs(invoke(runtime, allowed, "one.txt")) == [("End", "Dear Ada")]
        for count, definition in enumerate(forbidden):
            id = ready(control, definition, f"forbidden{count}")
            with pytest.raises(EventStreamError, match="this access key may not use") as found:
                invoke(runtime, id, "one.txt")
            assert found.value.response["Error"]["Code"] == "accessDeniedException"


def find_runs() -> list[FlowRun]:
    return [it for it in gc.get_objects() if isinstance(it, FlowRun)]


def test_a_client_that_goes_ends_the_flow_before_its_next_node() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def wait(text: str) -> str:
        begun.set()
        goes_on.wait(60)
        return text

    answers = model(wait)
    graph = flow(
        start(),
        prompt("Ask", "{{text}}", ("text", "String")),
        prompt("Again", "{{text}}", ("text", "String")),
        end(),
        data("Start.document", "Ask.text"),
        data("Ask.modelCompletion", "Again.text"),
        data("Again.modelCompletion", "End.document"),
    )
    with served(model=answers) as server:
        id = ready(server.control, graph)
        given = {"nodeName": "Start", "content": {"document": "a"}}
        earlier = find_runs()  # of other tests
        answered = server.runtime.invoke_flow(
            flowIdentifier=id, flowAliasIdentifier="TSTALIASID", inputs=[given], enableTrace=True
        )
        assert begun.wait(60)
        (run,) = [it for it in find_runs() if not any(it is one for one in earlier)]
        answered["responseStream"].close()
        until(lambda: run._is_over)
        goes_on.set()
    assert len(answers.requests) == 1
