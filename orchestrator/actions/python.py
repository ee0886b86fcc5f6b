"""Python functions as actions: `@action`, their operations, and the executor that calls them."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

from orchestrator.actions.base import ActionResult, Call, CallContext, Operation, Reprompt
from orchestrator.actions.results import as_text, build_failure
from orchestrator.actions.signatures import Compiled, compile_function
from orchestrator.errors import DependencyFailed
from orchestrator.support.threads import in_thread
from orchestrator.support.user_code import place_in_function

P = ParamSpec("P")
R = TypeVar("R")


class Action(Generic[P, R]):
    """A typed Python function that an agent may call; it can still be called as the function.

    Attributes:
        function: The function.
        name: Its name for the model.
        require_confirmation: Whether the user must confirm a call.
        idempotent: Whether a call may be run again when its outcome is unknown.
    """

    def __init__(
        self,
        function: Callable[P, R],
        name: str = "",
        require_confirmation: bool = False,
        idempotent: bool = False,
    ) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "")
        self.require_confirmation = require_confirmation
        self.idempotent = idempotent
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Action[..., R]:
        """An action defined in a class becomes the bound method's action."""
        if instance is None:
            return self
        bound = types.MethodType(self.function, instance)
        return Action(bound, self.name, self.require_confirmation, self.idempotent)

    def __repr__(self) -> str:
        return f"Action({self.name!r})"


@overload
def action(function: Callable[P, R], /) -> Action[P, R]: ...
@overload
def action(
    *, name: str = "", require_confirmation: bool = False, idempotent: bool = False
) -> Callable[[Callable[P, R]], Action[P, R]]: ...
def action(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    require_confirmation: bool = False,
    idempotent: bool = False,
) -> Any:
    """Makes a Python function an action.

    The model sees the function's name, its docstring (Google style: the text before the first
    section, and the `Args` section), and a schema made from its type hints: `str`, `int`,
    `float`, `bool`, `list`, `dict`, `Literal`, enums, `Optional`, dates, dataclasses, pydantic
    models. A parameter with a default, or whose type allows `None`, is optional; one without
    annotation has its default's type, else it is a text. A parameter annotated `CallContext`
    gets the call's context (session, attributes) and is invisible to the model.

    What the function returns becomes the text that the model reads: a `str` as it is, `None` as
    the empty text, anything else as JSON; an `ActionResult` is taken as it is. It may raise
    `Reprompt` to talk to the model. Any other exception ends the turn with `DependencyFailed`.

    Args:
        function: The function; sync or async.
        name: Its name for the model, when it is not the function's own.
        require_confirmation: Whether the user must confirm each call.
        idempotent: Whether a call may be run again when its outcome is unknown.
    """

    def decorate(function: Callable[..., Any]) -> Action[..., Any]:
        return Action(function, name, require_confirmation, idempotent)

    return decorate if function is None else decorate(function)


def python_group(
    group: str, actions: Sequence[Action[..., Any] | Callable[..., Any]]
) -> tuple[tuple[Operation, ...], PythonExecutor]:
    """The operations of Python functions, and the executor that calls them.

    Raises:
        DefinitionError: A function's name, parameter or type cannot be given to a model.
    """
    made = [
        compile_function(
            group,
            one.name,
            one.function,
            require_confirmation=one.require_confirmation,
            idempotent=one.idempotent,
        )
        for one in (one if isinstance(one, Action) else Action(one) for one in actions)
    ]
    executor = AsyncPythonExecutor if any(one.is_async for _, one in made) else PythonExecutor
    return tuple(operation for operation, _ in made), executor({o.name: c for o, c in made})


class PythonExecutor:
    """Calls Python functions.

    Attributes:
        folder: Places in the functions' files are relative to it, such as the agent's folder.
    """

    folder: Path | None = None

    def __init__(self, actions: Mapping[str, Compiled]) -> None:
        self._actions = actions

    def _handle_error(self, call: Call, error: Exception) -> ActionResult:
        if isinstance(error, Reprompt):
            return ActionResult(str(error), "REPROMPT")
        if isinstance(error, DependencyFailed):
            raise error
        function = self._actions[call.operation.name].function
        place = place_in_function(error, function, self.folder)
        raise build_failure(call.operation, error, place) from error

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the function; an async one runs in an event loop of its own.

        Raises:
            DependencyFailed: The function raised, or returned what cannot become a text.
        """
        compiled = self._actions[call.operation.name]
        try:
            returned = compiled.function(**compiled.arguments(call, context))
            if compiled.is_async:
                returned = wait_for(returned)
        except Exception as error:
            return self._handle_error(call, error)
        return _result(call.operation, returned)


class AsyncPythonExecutor(PythonExecutor):
    """The same for groups with at least one async function."""

    async def acall(self, call: Call, context: CallContext) -> ActionResult:
        """Awaits an async function; a sync one of the same group runs in a thread of its own.

        Raises:
            DependencyFailed: The function raised, or returned what cannot become a text.
        """
        compiled = self._actions[call.operation.name]
        if not compiled.is_async:
            import asyncio

            return await asyncio.wrap_future(in_thread(partial(self.call, call, context)))
        try:
            returned = await compiled.function(**compiled.arguments(call, context))
        except Exception as error:
            return self._handle_error(call, error)
        return _result(call.operation, returned)


def wait_for(awaitable: Awaitable[Any]) -> Any:
    """The awaitable's result, from synchronous code."""
    import asyncio

    async def wait() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # This thread runs a loop already, so the function gets one in a thread of its own.
    return in_thread(lambda: asyncio.run(wait())).result()


def _result(operation: Operation, returned: Any) -> ActionResult:
    if type(returned) is str:
        return ActionResult(returned)
    if isinstance(returned, ActionResult):
        return returned
    try:
        return ActionResult(as_text(returned))
    except (TypeError, ValueError, RecursionError) as error:
        raise DependencyFailed(
            f"the action {operation.xml_name!r} returned a {type(returned).__name__} that cannot "
            "become JSON; return a text, a dict, a list, a dataclass or a pydantic model",
            resource=operation.xml_name,
        ) from error
