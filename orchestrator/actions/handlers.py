"""AWS Lambda handlers, run in this process.

Limits: the working directory is the process's, and only `open` looks beside the code; files that
change process-wide state change it for everyone; several calls may run at once in one handler,
which Lambda's containers never do; there is no memory limit. `lambda_process` has none of these but
the last. `handler_modules` says how a handler's files are imported.
"""

from __future__ import annotations

import inspect
import os
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.actions.handler_files import HANDLER, check_handler, handler_file
from orchestrator.actions.handler_modules import HandlerModule, find_beside
from orchestrator.actions.lambda_contract import lambda_event, read_response
from orchestrator.actions.lambda_environment import (
    LambdaContext,
    Variables,
    check_environment,
    lambda_variables,
)
from orchestrator.actions.results import build_failure
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.load_errors import (
    find_load_error,
    report_load_error,
    reports_load_errors,
)
from orchestrator.support.signatures import CallShape, accepts
from orchestrator.support.threads import wait_for
from orchestrator.support.user_code import is_own_failure, place_in_folder, place_in_function

_lock = ForkSafeLock()


class LambdaFunction:
    """Calls a function with Bedrock's event and a Lambda context, and reads its response.

    What `LambdaHandler` is for a file, for a function that is there already.

    Attributes:
        stands_for: The ARN of the Lambda function in whose place it is called, for its context;
            empty where there is none.
    """

    stands_for = ""

    def __init__(self, function: Callable[..., Any], *, shape: CallShape = HANDLER) -> None:
        """Makes the executor; the `shape` says what the function is called with.

        Raises:
            DefinitionError: The function takes other arguments.
        """
        shape.check(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._shape = shape

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
        name = f"{operation.group}-{self.name}"
        about = LambdaContext(name, request_id, context.seconds, self.stands_for)
        try:
            returned = self.invoke(event, about, resource=operation.xml_name)
        except DependencyFailed:
            raise
        # A handler that calls `sys.exit` ends its call, and not this process.
        except BaseException as error:
            if not is_own_failure(error):
                raise
            raise build_failure(operation, error, self.place(error), self.advise(error)) from error
        return read_response(returned, operation)

    def invoke(
        self,
        event: dict[str, Any],
        about: LambdaContext,
        *,
        resource: str = "",
    ) -> Any:
        """What the function returns for any event; an async one runs in an event loop of its own.

        It raises what the function raises. `resource` is for errors; by default, its name.
        """
        function = self.find_function(resource or self.name)
        if self._shape.optional and not accepts(function, 2):
            return run_function(function, event)
        try:
            return run_function(function, event, about)
        except TypeError as error:
            # A decorated or imported function is known only now.
            self._check_shape(function, resource or self.name, error)
            raise

    def _check_shape(self, function: Callable[..., Any], resource: str, error: TypeError) -> None:
        try:
            self._shape.check(function)
        except DefinitionError as wrong:
            place = f"{Path(wrong.file).name}:{wrong.line}: " if wrong.file else ""
            raise DependencyFailed(f"{place}{wrong.reason}", resource=resource) from error

    def advise(self, error: BaseException) -> str:
        """What to do about what the function raised; may be empty."""
        return ""


def run_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; an async one runs in an event loop of its own."""
    returned = function(*arguments)
    return wait_for(returned) if inspect.isawaitable(returned) else returned


class LambdaHandler(LambdaFunction):
    """Runs a Lambda handler file in this process, with Bedrock's event and response.

    The file is checked when the handler is made and run at the first call. It has its own module
    namespace and its own environment variables; the module's docstring says how, and what the
    limits are. `LambdaProcess` has none of them.
    """

    def __init__(
        self,
        path: str | Path,
        function: str = "lambda_handler",
        *,
        environment: Mapping[str, str] | None = None,
        root: str | Path | None = None,
        shape: CallShape = HANDLER,
    ) -> None:
        """Makes the executor.

        Args:
            path: The handler's file; relative paths are relative to `root`, or else to the
                current folder.
            function: The handler function in it.
            environment: Its environment variables, besides those of the process.
            root: The folder that the file must be in, after links are resolved.
            shape: What the function is called with.

        Raises:
            DefinitionError: There is no such file or function, the file is outside `root`, it
                has a syntax error, the function takes other arguments, or a variable is not a text.
        """
        self.file = handler_file(path, root, "handler")
        self.function = self.name = function
        check_handler(self.file, function, shape)
        self._shape = shape
        self._environment = dict(check_environment(environment or {}))
        self._variables: Variables | None = None
        self._module = HandlerModule(self.file)
        self._root = None if root is None else Path(root).resolve()
        weakref.finalize(self, self._module.unload).atexit = False

    def __repr__(self) -> str:
        return f"LambdaHandler({self.file.name!r}, {self.function!r})"

    def find_function(self, resource: str) -> Callable[..., Any]:
        """The function; its file runs when it is asked for first, and may raise anything."""
        try:
            module = self._module.load()
        except (Exception, SystemExit) as error:
            if reports_load_errors():
                report_load_error(find_load_error(error, self.file, self._environment))
            raise
        found: Callable[..., Any] | None = getattr(module, self.function, None)
        if callable(found):
            return found
        raise DependencyFailed(
            f"{self.file.name!r} has no function {self.function!r} after it ran", resource=resource
        )

    def place(self, error: BaseException) -> str:
        """`file:line` of what the file's code raised; may be empty."""
        return place_in_folder(error, self.file.parent, self._root)

    def invoke(
        self,
        event: dict[str, Any],
        about: LambdaContext,
        *,
        resource: str = "",
    ) -> Any:
        """What the handler returns, run with its environment variables; see `LambdaFunction`."""
        with self._get_variables(about).active():
            return super().invoke(event, about, resource=resource)

    # Once: what a handler changes in `os.environ` is there at its next call, as in Lambda.
    def _get_variables(self, about: LambdaContext) -> Variables:
        with _lock:
            if self._variables is None:
                own = self._environment
                variables = lambda_variables(self.file, self.function, about, own)
                self._variables = Variables(variables)
            return self._variables

    def advise(self, error: BaseException) -> str:
        """What to do when something beside the code was not there."""
        name = ""
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
            name = os.path.relpath(error.filename)  # from the working directory
        elif isinstance(error, ModuleNotFoundError) and error.name:
            top = error.name.partition(".")[0]
            name = next((it for it in (f"{top}.py", top) if find_beside(it, self.file.parent)), "")
        if not name or find_beside(name, self.file.parent) is None:
            return ""
        return (
            f"{name!r} is in the folder of the code, where it is found with `isolation: PROCESS`, "
            "which makes that the working directory"
        )
