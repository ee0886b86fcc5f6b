"""What every executor's result goes through: values become text, and size has a bound."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from collections.abc import Mapping, Set
from typing import Any, Literal

from orchestrator.actions.base import ActionResult, Call, CallContext, Executor, Operation
from orchestrator.errors import DependencyFailed, OrchestratorError
from orchestrator.message import clean, make_json_encoder
from orchestrator.support.user_code import describe_exception, is_own_failure, place_in_function


def as_text(value: object) -> str:
    """A returned value as the text that the model reads.

    A text stays as it is, `None` is the empty text, everything else becomes JSON (not ASCII-only);
    dataclasses, pydantic models, enums, dates, decimals, sets and bytes (base64 unless UTF-8)
    included.

    Raises:
        TypeError: Something in the value has no JSON form.
        ValueError: The value contains itself.
        RecursionError: The value is nested too deeply.
    """
    if type(value) is str:
        return value
    if value is None:
        return ""
    try:
        return _encode(value)
    except RecursionError:
        return _encode_checked(value)  # which knows a value that contains itself


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    import datetime
    import decimal

    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            return str(value)
        return int(value) if value == value.to_integral_value() else float(value)
    return _plain_container(value)


def _plain_container(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=str)
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if type(value).__module__ in ("uuid", "pathlib", "datetime"):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encode = make_json_encoder(_plain)
_encode_checked = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def build_failure(
    operation: Operation, error: BaseException, place: str = "", advice: str = ""
) -> DependencyFailed:
    """The error of an action that raised; it names the type and the place, never the payload."""
    name = operation.xml_name
    text = f"the action {name!r} {describe_exception(error, place)}"
    return DependencyFailed(f"{text}; {advice}" if advice else text, resource=name)


def _check_result(call: Call, result: object) -> None:
    if not hasattr(result, "text"):
        name = call.operation.xml_name
        raise DependencyFailed(
            f"the executor of {name!r} returned an object of the class {type(result).__name__!r}; "
            "its `call` has to return an ActionResult, such as ActionResult('a text')",
            resource=name,
        )


def limit_size(result: ActionResult, max_bytes: int, *, repeatable: bool) -> ActionResult:
    """`result`, or a text that replaces one of more than `max_bytes`.

    A larger result is not cut: half of a JSON text, or of a list, reads like the whole. One of an
    action that is not `repeatable` stays a success: what was done is not to be done again for it.
    """
    text = result.text
    if text.isascii():
        size = len(text)
    else:
        result.text = clean(text)
        size = len(result.text.encode())
    if size <= max_bytes:
        return result
    done = not (repeatable or result.state)
    result.text = (
        ("The action was carried out: do not repeat it if it changes something. " if done else "")
        + f"The result has {size} bytes and is not shown: at most {max_bytes} bytes can be. "
        "Ask for less, for example with a narrower filter, a smaller page or a single item."
    )
    # The model can ask for less; a failure stays one.
    if not done and result.state != "FAILURE":
        result.state = "REPROMPT"
    result.notes = (*result.notes, f"the result of {size} bytes was over the limit")
    return result


class GuardedExecutor:
    """An executor whose results are bounded and whose errors are all of this package's tree."""

    __slots__ = ("executor",)

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Carries `call` out; raises `DependencyFailed` when the executor raises anything."""
        try:
            result = self.executor.call(call, context)
            if type(result) is not ActionResult:
                _check_result(call, result)
            return limit_size(result, context.max_bytes, repeatable=call.operation.idempotent)
        except OrchestratorError:
            raise
        except BaseException as error:
            if not is_own_failure(error):
                raise
            place = place_in_function(error, self.executor.call)
            raise build_failure(call.operation, error, place) from error

    def find_outcome(self, call: Call, max_bytes: int) -> ActionResult | Literal[False] | None:
        """What the executor's `status` says of a call whose process stopped; `None` without one."""
        status = getattr(self.executor, "status", None)
        if status is None:
            return None
        name = call.operation.xml_name
        try:
            found = status(call.key)
        except BaseException as error:  # whoever cannot tell knows nothing
            if not is_own_failure(error):
                raise
            _warn("what became of a call of %r is not known: %s", name, type(error).__name__)
            return None
        if found is None or found is False:
            return found
        if isinstance(found, ActionResult):
            return limit_size(found, max_bytes, repeatable=call.operation.idempotent)
        _warn(
            "the status of a call of %r must be an ActionResult, False or None, not %s",
            name,
            type(found).__name__,
        )
        return None


def _warn(text: str, *values: object) -> None:
    from orchestrator.support.logs import get_logger  # seldom needed, and not light

    get_logger("orchestrator.actions").warning(text, *values)


class _AsyncGuardedExecutor(GuardedExecutor):
    __slots__ = ()

    async def acall(self, call: Call, context: CallContext) -> ActionResult:
        executor: Any = self.executor
        try:
            result = await executor.acall(call, context)
            if type(result) is not ActionResult:
                _check_result(call, result)
            return limit_size(result, context.max_bytes, repeatable=call.operation.idempotent)
        except OrchestratorError:
            raise
        except BaseException as error:
            if not is_own_failure(error):
                raise
            place = place_in_function(error, executor.acall)
            raise build_failure(call.operation, error, place) from error


def guard_executor(executor: Executor) -> GuardedExecutor:
    """`executor` behind the bounds that hold for every executor; `acall` only if it has one."""
    return (_AsyncGuardedExecutor if hasattr(executor, "acall") else GuardedExecutor)(executor)
