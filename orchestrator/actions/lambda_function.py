"""A function of this program, called as an AWS Lambda handler is."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.actions.lambda_event import lambda_event
from orchestrator.actions.lambda_handler import LambdaContext
from orchestrator.actions.lambda_response import read_response
from orchestrator.actions.python import wait_for
from orchestrator.actions.results import build_failure
from orchestrator.errors import DependencyFailed
from orchestrator.support.user_code import place_in_function

__all__ = ["LambdaFunction"]


class LambdaFunction:
    """Calls a function with Bedrock's event and a Lambda context, and reads its response.

    What `LambdaHandler` is for a file, for a function that is there already.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"LambdaFunction({_name(self.function)})"

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the function; an async one runs in an event loop of its own.

        Raises:
            DependencyFailed: The function raised; the message has the exception's type and place.
        """
        operation = call.operation
        name = f"{operation.group}-{_name(self.function)}"
        about = LambdaContext(name, call.key or str(uuid.uuid4()), context.seconds)
        try:
            returned = self.function(lambda_event(call, context), about)
            if inspect.isawaitable(returned):
                returned = wait_for(returned)
        except DependencyFailed:
            raise
        except (Exception, SystemExit) as error:
            raise build_failure(
                operation, error, place_in_function(error, self.function)
            ) from error
        return read_response(returned, operation)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
