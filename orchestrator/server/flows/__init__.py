"""Amazon Bedrock Flows: flows, their versions and aliases; they are invoked and executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.server.operations import Handler, Operations

if TYPE_CHECKING:
    from orchestrator.server.flows.service import FlowService


def operations_of(flows: FlowService) -> Operations:
    """The operations of both agents' services on flows."""
    from functools import partial

    from orchestrator.server.flows import executions, flow_handlers, versions
    from orchestrator.server.flows.invoke import invoke

    control = {**flow_handlers.HANDLERS, **versions.HANDLERS}
    runtime: dict[str, Handler] = {
        **{name: partial(it, flows) for name, it in executions.HANDLERS.items()},
        "InvokeFlow": partial(invoke, flows),
    }
    return {
        "bedrock-agent": {name: partial(it, flows.store) for name, it in control.items()},
        "bedrock-agent-runtime": runtime,
    }
