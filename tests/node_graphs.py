"""What tests of Bedrock's flows share: definitions in short, and a flow's events to compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ROLE = "arn:aws:iam::123456789012:role/FlowRole"

Part = dict[str, Any]


def node(
    name: str,
    type: str,
    inputs: Iterable[Sequence[str]] = (),
    outputs: Iterable[Sequence[str]] = (),
    **configuration: Any,
) -> Part:
    """A node; inputs are `(name, type[, expression[, category]])`, outputs `(name, type)`."""
    members = ("name", "type", "expression", "category")
    return {
        "name": name,
        "type": type,
        "configuration": {type[0].lower() + type[1:]: configuration},
        "inputs": [
            {"expression": "$.data", **dict(zip(members, one, strict=False))} for one in inputs
        ],
        "outputs": [dict(zip(members, one, strict=False)) for one in outputs],
    }


def data(source: str, target: str) -> Part:
    """A connection of data, such as `data("Start.document", "Ask.topic")`."""
    (start, output), (end, input) = source.split("."), target.split(".")
    return {
        "name": f"{start}{output}To{end}{input}",
        "type": "Data",
        "source": start,
        "target": end,
        "configuration": {"data": {"sourceOutput": output, "targetInput": input}},
    }


def when(source: str, target: str) -> Part:
    """A connection of a condition, such as `when("Check.large", "Ask")`."""
    start, condition = source.split(".")
    return {
        "name": f"{start}{condition}To{target}",
        "type": "Conditional",
        "source": start,
        "target": target,
        "configuration": {"conditional": {"condition": condition}},
    }


def start(type: str = "String", name: str = "Start") -> Part:
    return node(name, "Input", outputs=[("document", type)])


def end(type: str = "String", name: str = "End", expression: str = "$.data") -> Part:
    return node(name, "Output", [("document", type, expression)])


def prompt(name: str, text: str, *inputs: Sequence[str], **members: Any) -> Part:
    inline = {
        "modelId": CLAUDE,
        "templateType": "TEXT",
        "templateConfiguration": {"text": {"text": text}},
        **members,
    }
    return node(
        name,
        "Prompt",
        inputs,
        [("modelCompletion", "String")],
        sourceConfiguration={"inline": inline},
    )


def flow(*parts: Part) -> Part:
    """A definition of nodes and connections, in any order."""
    return {
        "nodes": [it for it in parts if "source" not in it],
        "connections": [it for it in parts if "source" in it],
    }


def chain(middle: Part, input: str, output: str, **types: str) -> Part:
    """A flow of one node between its ends."""
    return flow(
        start(types.get("start", "String")),
        middle,
        end(types.get("end", "String")),
        data("Start.document", f"{middle['name']}.{input}"),
        data(f"{middle['name']}.{output}", "End.document"),
    )


def told(events: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Events without what differs from run to run, a trace by its kind."""
    found = []
    for event in events:
        ((name, members),) = event.items()
        if name == "flowTraceEvent":
            ((name, members),) = members["trace"].items()
        found.append({name: _fixed(members)})
    return found


def _fixed(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: it for key, it in members.items() if key not in ("timestamp", "requestId")}


def outputs(events: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """What the Output nodes gave."""
    found = [event["flowOutputEvent"] for event in events if "flowOutputEvent" in event]
    return [(it["nodeName"], it["content"]["document"]) for it in found]


def story(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Events and traces in lines; one for each field of a node's inputs and outputs."""
    return [
        line
        for event in told(events)
        for name, members in event.items()
        for line in _lines(name, members)
    ]


def _lines(name: str, members: Mapping[str, Any]) -> list[str]:
    if name == "flowCompletionEvent":
        return [f"the end: {members['completionReason']}"]
    node = members["nodeName"]
    if name == "flowOutputEvent":
        return [f"{node} outputs {members['content']['document']!r}"]
    if name == "flowMultiTurnInputRequestEvent":
        return [f"{node} asks {members['content']['document']!r}"]
    if name == "conditionNodeResultTrace":
        return [f"{node} holds {[it['conditionName'] for it in members['satisfiedConditions']]}"]
    if name == "nodeInputTrace":
        return [f"{node} takes {_taken(it)}" for it in members["fields"]]
    if name == "nodeOutputTrace":
        return [f"{node} {line}" for it in members["fields"] for line in _given(it)]
    if name == "nodeActionTrace":
        return [f"{node} has {members['operationName']}"]
    (part,) = members["traceElements"]["agentTraces"]
    ((kind, steps),) = part["trace"].items()
    return [f"{node} has {kind} {sorted(steps.keys() - {'traceId'})}"]


def _taken(field: Mapping[str, Any]) -> str:
    chain = field.get("executionChain", ())
    rounds = "".join(f" in {it['nodeName']}[{it['index']}]" for it in chain)
    category = f" as {field['category']}" if "category" in field else ""
    source, document = field["source"], field["content"]["document"]
    part = source["expression"].removeprefix("$.data")
    way = f"{source['nodeName']}.{source['outputFieldName']}{part and ' ' + part}"
    return f"{field['nodeInputName']}={document!r}{category} <- {way}{rounds}"


def _given(field: Mapping[str, Any]) -> list[str]:
    given = f"gives {field['nodeOutputName']}={field['content']['document']!r}"
    return [given, *(f"  -> {it['nodeName']}.{it['inputFieldName']}" for it in field["next"])]


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
