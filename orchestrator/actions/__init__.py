"""Action groups: what an agent may do, and what executes it.

Schemas (Python functions, Bedrock function schemas, OpenAPI documents) become `Operation`s, a
`Catalog` of them checks what models ask for, and executors carry the calls out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.actions.base import (
    ActionResult,
    Call,
    CallContext,
    Executor,
    Operation,
    Parameter,
    Reprompt,
)
from orchestrator.actions.catalog import Catalog
from orchestrator.actions.group import CODE_INTERPRETER, USER_INPUT, ActionGroup, ReturnControl
from orchestrator.actions.python import Action, action
from orchestrator.support.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from orchestrator.actions.handlers import LambdaHandler
    from orchestrator.actions.http_executor import HttpExecutor
    from orchestrator.actions.lambda_arn import LambdaArn
    from orchestrator.actions.lambda_process import LambdaProcess
    from orchestrator.actions.mcp_server import MCPServer

__all__ = [
    "CODE_INTERPRETER",
    "USER_INPUT",
    "Action",
    "ActionGroup",
    "ActionResult",
    "Call",
    "CallContext",
    "Catalog",
    "Executor",
    "HttpExecutor",
    "LambdaArn",
    "LambdaHandler",
    "LambdaProcess",
    "MCPServer",
    "Operation",
    "Parameter",
    "Reprompt",
    "ReturnControl",
    "action",
]

# Imported when first used: most agents have none of them.
_HOMES = {
    "HttpExecutor": "http_executor",
    "LambdaArn": "lambda_arn",
    "LambdaHandler": "handlers",
    "LambdaProcess": "lambda_process",
    "MCPServer": "mcp_server",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
