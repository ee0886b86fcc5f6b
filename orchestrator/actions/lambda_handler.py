"""An AWS Lambda handler file as an executor, run in this process."""

from __future__ import annotations

import inspect
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.actions.handlers import HandlerModule, Variables, check_function, handler_file
from orchestrator.actions.lambda_contract import lambda_event, read_response
from orchestrator.actions.python import wait_for
from orchestrator.actions.results import build_failure
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.support.user_code import place_in_folder, place_in_function

LONGEST_SECONDS = 900.0  # (AWS: the longest that a Lambda function may run)


class LambdaContext:
    """The second argument of a Lambda handler (AWS: "Lambda context object in Python")."""

    function_version = "$LATEST"
    memory_limit_in_mb = "128"
    identity = None
    client_context = None

    def __init__(self, function_name: str, request_id: str, seconds: float | None) -> None:
        self.function_name = function_name
        self.aws_request_id = request_id
        self.invoked_function_arn = (
            f"arn:aws:lambda:us-east-1:000000000000:function:{function_name}"
        )
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = "orchestrator"
        self._deadline = time.monotonic() + (LONGEST_SECONDS if seconds is None else seconds)

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds that the action still has."""
        return max(int((self._deadline - time.monotonic()) * 1000), 0)


class LambdaFunction:
    """Calls a function with Bedrock's event and a Lambda context, and reads its response.

    What `LambdaHandler` is for a file, for a function that is there already.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function

    def __repr__(self) -> str:
        return f"LambdaFunction({self.name})"

    def find_function(self, resource: str) -> Callable[..., Any]:
        """The function; `resource` is for errors."""
        return self._function

    def place(self, error: BaseException) -> str:
        """`file:line` of what the function raised; may be empty."""
        return place_in_function(error, self._function)

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the function; an async one runs in an event loop of its own.

        Raises:
            DependencyFailed: The function raised; the message has the exception's type and place.
        """
        operation = call.operation
        event = lambda_event(call, context)
        request_id = call.key or str(uuid.uuid4())
        about = LambdaContext(f"{operation.group}-{self.name}", request_id, context.seconds)
        try:
            returned = run_function(self.find_function(operation.xml_name), event, about)
        except DependencyFailed:
            raise
        # A handler that calls `sys.exit` ends its call, and not this process.
        except (Exception, SystemExit) as error:
            raise build_failure(operation, error, self.place(error)) from error
        return read_response(returned, operation)


def run_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; an async one runs in an event loop of its own."""
    returned = function(*arguments)
    return wait_for(returned) if inspect.isawaitable(returned) else returned


class LambdaHandler(LambdaFunction):
    """Runs a Lambda handler file in this process, with Bedrock's event and response.

    The file is checked when the handler is made and run at the first call. It has its own module
    namespace and, with `environment`, its own environment variables (see
    `orchestrator.actions.handlers`).
    """

    def __init__(
        self,
        path: str | Path,
        function: str = "lambda_handler",
        *,
        environment: Mapping[str, str] | None = None,
        root: str | Path | None = None,
    ) -> None:
        """Makes the executor.

        Args:
            path: The handler's file; relative paths are relative to `root`, or else to the
                current folder.
            function: The handler function in it.
            environment: Its environment variables, besides those of the process.
            root: The folder that the file must be in, after links are resolved.

        Raises:
            DefinitionError: There is no such file or function, the file is outside `root`, it
                has a syntax error, or a variable is not a text.
        """
        self.file = handler_file(path, root, "handler")
        self.function = self.name = function
        check_function(self.file, function)
        self._variables = Variables(_check_environment(environment)) if environment else None
        self._module = HandlerModule(self.file)
        self._root = None if root is None else Path(root).resolve()
        weakref.finalize(self, self._module.unload).atexit = False

    def __repr__(self) -> str:
        return f"LambdaHandler({self.file.name!r}, {self.function!r})"

    def find_function(self, resource: str) -> Callable[..., Any]:
        """The function; its file runs when it is asked for first, and may raise anything."""
        found: Callable[..., Any] | None = getattr(self._module.load(), self.function, None)
        if callable(found):
            return found
        raise DependencyFailed(
            f"{self.file.name!r} has no function {self.function!r} after it ran", resource=resource
        )

    def place(self, error: BaseException) -> str:
        """`file:line` of what the file's code raised; may be empty."""
        return place_in_folder(error, self.file.parent, self._root)

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the handler, with its environment variables, as `LambdaFunction` does."""
        with self._variables.active() if self._variables else nullcontext():
            return super().call(call, context)


def _check_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in environment.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise DefinitionError(
                f"the environment variable {name!r} must have a name without '=' and a text as "
                f"value, not {type(value).__name__}; quote it"
            )
    return environment
