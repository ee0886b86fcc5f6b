"""Python functions as actions: `@action`, their operations, and the executor that calls them."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

from orchestrator.actions.base import (
    ActionResult,
    Call,
    CallContext,
    Operation,
    Parameter,
    Reprompt,
)
from orchestrator.actions.functions import object_schema
from orchestrator.actions.names import check_name, check_text
from orchestrator.actions.results import as_text, build_failure
from orchestrator.actions.schemas import SchemaReader, Where, kind_of
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.support.threads import in_thread, wait_for
from orchestrator.support.user_code import is_own_failure, place_in_function


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compiled:
    """A function, and how to make its arguments out of a call's."""

    function: Callable[..., Any]
    is_async: bool
    context: str
    absent: Mapping[str, None]
    converters: Mapping[str, Callable[[Any], Any]]

    # Whether a call's arguments are the function's, as they are
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        """Finds how the function takes its arguments."""
        is_plain = not (self.absent or self.converters or self.context)
        object.__setattr__(self, "is_plain", is_plain)

    def arguments(self, call: Call, context: CallContext) -> dict[str, Any]:
        """Keyword arguments for the function; `Reprompt` when one does not fit its Python type."""
        if self.is_plain:
            return call.arguments
        values = {**self.absent, **call.arguments}
        for name, convert in self.converters.items():
            if values.get(name) is not None:
                try:
                    values[name] = convert(values[name])
                except ValueError as error:
                    raise Reprompt(_conversion_problem(call.operation, name, error)) from error
        if self.context:
            values[self.context] = context
        return values


def _conversion_problem(operation: Operation, name: str, error: ValueError) -> str:
    parts = []
    if hasattr(error, "errors"):  # pydantic's
        for one in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
            place = ".".join(str(step) for step in one["loc"])
            parts.append(f"{place}: {one['msg']}" if place else one["msg"])
    return (
        f"The argument {name} in the {operation.name} function call is wrong"
        f"{': ' if parts else ''}{'; '.join(parts)}. Please correct it and try again."
    )


_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
}
_ALLOWED = (
    "str, int, float, bool, list, dict, Literal, Enum, Optional, datetime, dataclasses and "
    "pydantic models"
)


def compile_function(group: str, action: Action[..., Any]) -> tuple[Operation, Compiled]:
    """The operation that a Python function is, and how to call it; raises as `python_group`."""
    name, function = action.name, action.function
    check_name(name, "function")
    what = f"the function '{group}::{name}'"
    description, texts = read_docstring(getattr(function, "__doc__", ""))
    parameters: list[Parameter] = []
    converters: dict[str, Callable[[Any], Any]] = {}
    absent: dict[str, None] = {}
    context = ""
    for param in _signature(function, what):
        kind = _annotation(function, param, what)
        if kind is CallContext:
            context = param.name
            continue
        parameter, convert = _parameter(param, kind, texts.get(param.name, ""), what)
        parameters.append(parameter)
        if convert is not None:
            converters[param.name] = convert
        if param.default is param.empty and not parameter.required:
            absent[param.name] = None
    operation = Operation(
        group=group,
        name=name,
        description=check_text(description, f"the docstring of {what}"),
        parameters=tuple(parameters),
        require_confirmation=action.require_confirmation is True,
        confirmation_waived=action.require_confirmation is False,
        idempotent=action.idempotent,
        schema=object_schema(parameters),
    )
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  a callable object with async call
    )
    return operation, Compiled(function, is_async, context, absent, converters)


def _signature(function: Callable[..., Any], what: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{what} has no signature that can be read: {error}") from error
    for one in parameters:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise DefinitionError(
                f"{what} has the {one.kind.description} parameter {one.name!r}; a model gives each "
                "argument by name, so name every parameter and allow it as a keyword"
            )
        check_name(one.name, f"parameter of {what},")
    return parameters


def _annotation(function: Callable[..., Any], param: inspect.Parameter, what: str) -> Any:
    kind = param.annotation
    if kind is param.empty:
        default = type(param.default)
        return default if param.default is not param.empty and default in _SIMPLE else str
    if not isinstance(kind, str):
        return kind
    if kind.split(".")[-1].strip("'\"") == CallContext.__name__:
        return CallContext  # may only be imported for type checkers
    plain = inspect.unwrap(getattr(function, "__func__", function))
    names = getattr(plain, "__globals__", {})
    holder: Any = types.SimpleNamespace(__annotations__={param.name: kind})
    try:
        local = inspect.getclosurevars(plain).nonlocals
        return typing.get_type_hints(holder, names, dict(local), include_extras=True)[param.name]
    except (NameError, TypeError, SyntaxError, AttributeError, ValueError) as error:
        raise DefinitionError(
            f"the type {kind!r} of the parameter {param.name!r} of {what} is not known where the "
            f"function is defined ({error})"
        ) from error


def _parameter(
    param: inspect.Parameter, kind: Any, text: str, what: str
) -> tuple[Parameter, Callable[[Any], Any] | None]:
    place = f"the parameter {param.name!r} of {what}"
    convert: Callable[[Any], Any] | None = None
    try:
        schema = dict(_SIMPLE[kind])
    except (KeyError, TypeError):  # another type, or an annotation that cannot be hashed
        schema, convert = _pydantic(kind, place)
    # `Annotated[int, "The year."]` describes a parameter, too.
    notes = typing.get_args(kind)[1:] if typing.get_origin(kind) is typing.Annotated else ()
    note = next((note for note in notes if isinstance(note, str)), "")
    text = check_text(text or note or schema.get("description", ""), place)
    if text:
        schema["description"] = text
    if isinstance(param.default, str | int | float):
        schema["default"] = param.default
    required = param.default is param.empty and not _allows_none(kind)
    return Parameter(param.name, kind_of(schema), text, required, schema=schema), convert


def _allows_none(kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if kind is None or kind is type(None):
        return True
    unions = (typing.Union, types.UnionType)
    return typing.get_origin(kind) in unions and any(map(_allows_none, typing.get_args(kind)))


def _pydantic(kind: Any, place: str) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    def fail(message: str, where: Where) -> DefinitionError:
        return DefinitionError(f"{place} has a type that a model cannot be given: {message}")

    try:
        adapter = TypeAdapter(kind)
        document = adapter.json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        name = kind.__qualname__ if isinstance(kind, type) else str(kind)
        raise DefinitionError(
            f"{place} has the type {name!r}, which has no JSON form; allowed are {_ALLOWED}, and "
            "lists, dicts and unions of them"
        ) from error
    return SchemaReader(document, fail).schema(document, ()), adapter.validate_python


_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Attributes|Examples?|Notes?|See Also|"
    r"Warnings?|Todo|References):\s*"
)
_ARGUMENTS = ("Args", "Arguments", "Parameters")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the description before the first section, and the arguments' descriptions."""
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    arguments: list[str] = []
    target: list[str] | None = description
    for line in lines:
        section = _SECTION.fullmatch(line)
        if section:
            target = arguments if section[1] in _ARGUMENTS else None
        elif target is arguments and line and not line.startswith((" ", "\t")):
            target = None
        elif target is not None:
            target.append(line)
    return _paragraphs(description), _arguments(arguments)


def _paragraphs(lines: list[str]) -> str:
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n".join(" ".join(part.split()) for part in paragraphs if part.strip())


def _arguments(lines: list[str]) -> dict[str, str]:
    filled = [line for line in lines if line.strip()]
    if not filled:
        return {}
    margin = min(len(line) - len(line.lstrip()) for line in filled)
    found: dict[str, str] = {}
    name = ""
    for line in filled:
        start = _ARGUMENT.fullmatch(line[margin:])
        if start:
            name = start[1]
            found[name] = start[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


P = ParamSpec("P")
R = TypeVar("R")


class Action(Generic[P, R]):
    """A typed Python function that an agent may call; it can still be called as the function.

    Attributes:
        function: The function.
        name: Its name for the model.
        require_confirmation: Whether the user must confirm a call; `None` leaves it to the dialect.
        idempotent: Whether a call may be run again when its outcome is unknown.
    """

    def __init__(
        self,
        function: Callable[P, R],
        name: str = "",
        require_confirmation: bool | None = None,
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
    *, name: str = "", require_confirmation: bool | None = None, idempotent: bool = False
) -> Callable[[Callable[P, R]], Action[P, R]]: ...
def action(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    require_confirmation: bool | None = None,
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
    `Reprompt` to talk to the model. Any other exception, and `sys.exit`, ends the turn with
    `DependencyFailed`.

    Args:
        function: The function; sync or async.
        name: Its name for the model, when it is not the function's own.
        require_confirmation: Whether the user must confirm each call. Left out, the embedded
            model asks the user before calls that change something.
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
        DefinitionError: They are no list of functions, or a model cannot use a function's name, a
            parameter or a type.
    """
    made = [
        compile_function(group, one if isinstance(one, Action) else Action(one))
        for one in _list_functions(group, actions)
    ]
    executor = AsyncPythonExecutor if any(one.is_async for _, one in made) else PythonExecutor
    return tuple(operation for operation, _ in made), executor({o.name: c for o, c in made})


def _list_functions(group: str, actions: Any) -> list[Any]:
    is_list = isinstance(actions, Iterable) and not isinstance(actions, str)
    functions = list(actions) if is_list else [actions]
    wrong = [one for one in functions if not callable(one)] if is_list else functions
    if wrong:
        what = f"an object of the class {type(wrong[0]).__name__!r}"
        raise DefinitionError(
            f"actions= of the action group {group!r} is a list of functions, "
            f"{'and has' if is_list else 'not'} {what}; write actions=[function]"
        )
    return functions


class PythonExecutor:
    """Calls Python functions; messages name their files relative to `folder`, if there is one."""

    folder: Path | None = None

    def __init__(self, actions: Mapping[str, Compiled]) -> None:
        self._actions = actions

    def _handle_error(self, call: Call, error: BaseException) -> ActionResult:
        if isinstance(error, Reprompt):
            return ActionResult(str(error), "REPROMPT")
        if isinstance(error, DependencyFailed) or not is_own_failure(error):
            raise error
        function = self._actions[call.operation.name].function
        place = place_in_function(error, function, self.folder)
        raise build_failure(call.operation, error, place) from error

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the function; an async one runs in an event loop of its own."""
        compiled = self._actions[call.operation.name]
        try:
            returned = compiled.function(**compiled.arguments(call, context))
            if compiled.is_async:
                returned = wait_for(returned)
        except BaseException as error:
            return self._handle_error(call, error)
        return _result(call.operation, returned)


class AsyncPythonExecutor(PythonExecutor):
    """The same for groups with at least one async function."""

    async def acall(self, call: Call, context: CallContext) -> ActionResult:
        """Awaits an async function, or runs a sync one in its own thread; raises as `call` does."""
        compiled = self._actions[call.operation.name]
        if not compiled.is_async:
            import asyncio

            return await asyncio.wrap_future(in_thread(partial(self.call, call, context)))
        try:
            given = call.arguments if compiled.is_plain else compiled.arguments(call, context)
            returned = await compiled.function(**given)
        except BaseException as error:
            return self._handle_error(call, error)
        return _result(call.operation, returned)


def _result(operation: Operation, returned: Any) -> ActionResult:
    if type(returned) is str:
        return ActionResult(returned)
    if isinstance(returned, ActionResult):
        return returned
    try:
        return ActionResult(as_text(returned))
    except (TypeError, ValueError, RecursionError) as error:
        name = operation.xml_name
        why = (
            f"the action {name!r} returned a {type(returned).__name__} that cannot become JSON; "
            "return a text, a dict, a list, a dataclass or a pydantic model"
        )
        if operation.idempotent:
            raise DependencyFailed(why, resource=name) from error
        # It has taken effect: a failure would have it done again.
        text = "The action was carried out: do not repeat it. Its result cannot be shown."
        return ActionResult(text, notes=(why,))
