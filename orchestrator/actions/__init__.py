"""Action groups: what an agent may do, and who does it.

Schemas (Python functions, Bedrock function schemas, OpenAPI documents) become `Operation`s, a
`Catalog` of them checks what models ask for, and executors carry the calls out.
"""

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
from orchestrator.actions.lambda_handler import LambdaHandler
from orchestrator.actions.python import Action, action

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
    "LambdaHandler",
    "Operation",
    "Parameter",
    "Reprompt",
    "ReturnControl",
    "action",
]
