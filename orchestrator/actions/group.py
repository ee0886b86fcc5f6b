"""Action groups: operations, and who carries them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.actions.base import Executor, Operation
from orchestrator.actions.names import check_name, check_text
from orchestrator.actions.python import Action, python_group
from orchestrator.errors import DefinitionError
from orchestrator.support.signatures import CallShape
from orchestrator.support.spelling import did_you_mean

# Signature of the built-in group that lets the model ask the user (Bedrock: `UserInput`).
USER_INPUT = "AMAZON.UserInput"

# Signature of the built-in group that lets the model run Python (Bedrock: code interpretation).
CODE_INTERPRETER = "AMAZON.CodeInterpreter"


class ReturnControl:
    """The executor that hands calls to the caller (Bedrock: `customControl: RETURN_CONTROL`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ReturnControl()"


class ActionGroup:
    """Operations under one name, and their executor.

    Attributes:
        name: The group's name, Bedrock's `actionGroupName`.
        description: For people and the model.
        operations: The compiled operations.
        executor: Who carries them out; `None` only for `AMAZON.UserInput`, and for a code
            interpreter that is disabled.
        signature: `"AMAZON.UserInput"` or `"AMAZON.CodeInterpreter"` for a built-in group, else
            empty.
        enabled: Whether the agent uses it.
    """

    __slots__ = ("description", "enabled", "executor", "name", "operations", "signature")

    def __init__(
        self,
        name: str,
        actions: Sequence[Action[..., Any] | Callable[..., Any]] = (),
        executor: Executor | ReturnControl | None = None,
        *,
        description: str = "",
        functions: Iterable[Mapping[str, Any]] | None = None,
        api_schema: Mapping[str, Any] | str | Path | None = None,
        signature: str = "",
        state: str = "ENABLED",
    ) -> None:
        """Makes the group; exactly one of `actions`, `functions`, `api_schema` or `signature`.

        Args:
            name: Its name.
            actions: `@action` functions, or plain ones.
            executor: Who carries the operations out; without one, Python functions are called.
                One that brings its own operations, such as `MCPServer`, needs nothing else.
            description: For people and the model.
            functions: Bedrock's function schema, a list of functions.
            api_schema: An OpenAPI document as a mapping, as JSON or YAML text, or its `Path`.
            signature: Bedrock's `parentActionGroupSignature`: `AMAZON.UserInput`, or
                `AMAZON.CodeInterpreter`, whose executor may be a `CodeInterpreter` with settings
                of its own, or anything else that runs the code.
            state: `"ENABLED"` or `"DISABLED"`.

        Raises:
            DefinitionError: Something of this is wrong; the message names it.
        """
        self.name = check_name(name, "action group")
        self.description = check_text(description, f"the description of the action group {name!r}")
        self.signature = signature
        self.enabled = _is_enabled(name, state)
        possible = {
            "actions": actions or None,
            "functions": functions,
            "api_schema": api_schema,
            "signature": signature or None,
        }
        sources = [key for key, value in possible.items() if value is not None]
        brings = getattr(executor, "operations", None)
        if len(sources) != (0 if brings else 1):
            if brings:
                raise DefinitionError(
                    f"the executor of the action group {name!r} brings its own operations; leave "
                    f"{sources[0]} out"
                )
            raise DefinitionError(
                f"the action group {name!r} needs exactly one of actions, functions, api_schema "
                f"or signature; it has {' and '.join(sources) or 'none'}"
            )
        own: Executor | None = None
        if brings:  # a server that nobody uses is not started
            self.operations: tuple[Operation, ...] = tuple(brings(name)) if self.enabled else ()
        elif actions:
            self.operations, own = python_group(name, actions)
        else:
            self.operations = _operations(name, functions, api_schema, signature)
            if signature == CODE_INTERPRETER and self.enabled and executor is None:
                from orchestrator.actions.code_interpreter import CodeInterpreter

                own = CodeInterpreter()
        self.executor = executor if executor is not None else own
        _check_executor(self)
        _check_operations(self)
        prepare = getattr(self.executor, "prepare", None)
        if prepare is not None:
            self.operations = tuple(prepare(self.operations))

    def __repr__(self) -> str:
        names = ", ".join(operation.name for operation in self.operations)
        return f"ActionGroup({self.name!r}: {names or self.signature})"


def _operations(
    name: str,
    functions: Iterable[Mapping[str, Any]] | None,
    api_schema: Mapping[str, Any] | str | Path | None,
    signature: str,
) -> tuple[Operation, ...]:
    if functions is not None:
        from orchestrator.actions.functions import function_operations

        return function_operations(name, functions)
    if api_schema is not None:
        from orchestrator.actions.openapi import api_operations

        return api_operations(name, api_schema)
    if signature == CODE_INTERPRETER:
        from orchestrator.actions.code_interpreter import code_operation

        return (code_operation(),)
    if signature != USER_INPUT:
        known = (USER_INPUT, CODE_INTERPRETER)
        raise DefinitionError(
            f"the action group {name!r} has the signature {signature!r}; only {USER_INPUT!r} and "
            f"{CODE_INTERPRETER!r} are supported{did_you_mean(signature, known)}"
        )
    return ()


def _is_enabled(name: str, state: str) -> bool:
    if state not in ("ENABLED", "DISABLED"):
        raise DefinitionError(
            f"the action group {name!r} has the state {state!r}; it may be ENABLED or DISABLED"
        )
    return state == "ENABLED"


def _check_executor(group: ActionGroup) -> None:
    executor = group.executor
    if group.signature == USER_INPUT:
        if executor is not None:
            raise DefinitionError(f"the built-in action group {group.name!r} takes no executor")
    elif executor is None:
        if group.enabled or not group.signature:
            raise DefinitionError(
                f"the action group {group.name!r} has no executor; give it a LambdaHandler(...), "
                "ReturnControl() or an object with `call(call, context)`"
            )
    elif not isinstance(executor, ReturnControl | Executor):
        raise DefinitionError(
            f"the executor of the action group {group.name!r} is a {type(executor).__name__} "
            "without `call(call, context)`"
        )
    elif isinstance(executor, Executor):
        shape = CallShape(f"{type(executor).__name__} method", ("call", "context"))
        for method in ("call", "acall"):
            if hasattr(executor, method):
                shape.check(getattr(executor, method))


def _check_operations(group: ActionGroup) -> None:
    for name, count in Counter(one.name for one in group.operations).items():
        if count > 1:
            raise DefinitionError(
                f"the action group {group.name!r} has two functions {name!r}; rename one"
            )
    if not group.operations and not group.signature and group.enabled:
        raise DefinitionError(f"the action group {group.name!r} has no functions")
