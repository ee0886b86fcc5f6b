"""The types of nodes: which inputs and outputs each has (AWS: "Node types for your flow")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.flows.node_graph.definition import FlowNode


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output whose name is fixed."""

    name: str
    type: str = ""  # empty for any
    required: bool = True


@dataclass(frozen=True, slots=True)
class NodeKind:
    """A type of nodes."""

    # Its inputs and outputs; `None` when it may have any
    inputs: tuple[Port, ...] | None
    outputs: tuple[Port, ...] | None
    # Members of its configuration that may not be empty, by their way into it
    needs: tuple[tuple[str, ...], ...] = ()


_DOCUMENT = (Port("document"),)
_KEY = Port("objectKey", "String")
_S3 = ("serviceConfiguration", "s3", "bucketName")

_KINDS: Mapping[str, NodeKind] = {
    "Input": NodeKind((), _DOCUMENT),
    "Output": NodeKind(_DOCUMENT, ()),
    "Condition": NodeKind(None, (), (("conditions",),)),
    "Prompt": NodeKind(None, (Port("modelCompletion", "String"),), (("sourceConfiguration",),)),
    "Agent": NodeKind(
        (
            Port("agentInputText", "String"),
            Port("promptAttributes", "Object", required=False),
            Port("sessionAttributes", "Object", required=False),
        ),
        (Port("agentResponse", "String"),),
        (("agentAliasArn",),),
    ),
    "KnowledgeBase": NodeKind(
        (Port("retrievalQuery", "String"),),
        (Port("retrievalResults", "Array"),),
        (("knowledgeBaseId",),),
    ),
    "LambdaFunction": NodeKind(None, (Port("functionResponse"),), (("lambdaArn",),)),
    "Storage": NodeKind((Port("content"), _KEY), (Port("s3Uri", "String"),), (_S3,)),
    "Retrieval": NodeKind((_KEY,), (Port("s3Content"),), (_S3,)),
    "InlineCode": NodeKind(None, (Port("response"),), (("code",),)),
    "Iterator": NodeKind(
        (Port("array", "Array"),),
        (Port("arrayItem"), Port("arraySize", "Number", required=False)),
    ),
    "Collector": NodeKind(
        (Port("arrayItem"), Port("arraySize", "Number")), (Port("collectedArray", "Array"),)
    ),
    "Lex": NodeKind(None, None),
    "Loop": NodeKind(None, None, (("definition",),)),
    "LoopInput": NodeKind((), None),
    "LoopController": NodeKind(None, (), (("continueCondition",),)),
}
# A knowledge base that generates answers in words.
_GENERATING = (Port("outputText", "String"),)


def get_kind(node: FlowNode) -> NodeKind:
    """The kind of a node."""
    kind = _KINDS[node.type]
    if node.type == "KnowledgeBase" and (node.configuration or {}).get("modelId"):
        return NodeKind(kind.inputs, _GENERATING, kind.needs)
    return kind


def find_empty_member(node: FlowNode) -> str:
    """The member that a node's configuration lacks, such as `s3.bucketName`; empty for none."""
    for way in get_kind(node).needs:
        value: Any = node.configuration
        for name in way:
            value = value.get(name) if isinstance(value, Mapping) else None
        if not value:
            return ".".join(way)
    return _find_empty_prompt_member(node) if node.type == "Prompt" else ""


def _find_empty_prompt_member(node: FlowNode) -> str:
    source = (node.configuration or {})["sourceConfiguration"]
    if "resource" in source:
        return "" if source["resource"]["promptArn"] else "sourceConfiguration.resource.promptArn"
    return "" if source["inline"]["modelId"] else "sourceConfiguration.inline.modelId"
