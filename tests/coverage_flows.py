"""Rows of COVERAGE.md: the types of nodes that Bedrock's flows have, each looked at in a flow."""

from __future__ import annotations

from collections.abc import Iterator

import botocore.session

from orchestrator.flows.node_graph import read_definition, validate_definition

Row = tuple[str, ...]


def node_types() -> Iterator[Row]:
    """What becomes of each type when a flow that has it is prepared."""
    model = botocore.session.get_session().get_service_model("bedrock-agent")
    for type in model.shape_for("FlowNodeType").enum:
        node = {"name": "Node", "type": type, "configuration": {}, "inputs": [], "outputs": []}
        found = validate_definition(read_definition({"nodes": [node]}))
        refused = any("is not run here" in it.message for it in found)
        yield f"`{type}`", "refused" if refused else "works"
