"""All operations of an agent, compiled once: finding, describing, checking and writing calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

from orchestrator.actions.arguments import Check, compile_check
from orchestrator.actions.base import Executor, Operation, Parameter
from orchestrator.actions.group import CODE_INTERPRETER, USER_INPUT, ActionGroup, ReturnControl
from orchestrator.actions.results import GuardedExecutor, guard_executor
from orchestrator.errors import DefinitionError

_ASK_USER = {"tool_use": "user__askuser", "xml": "user::askuser"}  # (Bedrock: both recorded)
_ASK_USER_TEXT = (
    "Ask the user one question. Use it when the value of a required parameter, or what the user "
    "wants, cannot be known from the conversation."
)
_ASK_USER_PARAMETER = {
    "name": "question",
    "type": "string",
    "description": "The question, as the user will read it.",
    "required": True,
}
# Bedrock names its own tools so (recorded): a group of that name would shadow one. A group of the
# code interpreter may have that name: the console gives it.
_RESERVED_GROUPS = ("x_amz_knowledgebase_", "AgentCommunication", "codeinterpreteraction")


class Catalog:
    """The enabled operations of an agent.

    Attributes:
        operations: All that models see, in the groups' order.
        ask_user: Whether the built-in user-input group is there.
        code_interpreter: Whether the built-in code interpreter is there.
        tools: All that may be called, by the exact names of native tools; `find` understands more.
    """

    def __init__(self, groups: Sequence[ActionGroup], unseen: Sequence[ActionGroup] = ()) -> None:
        """Compiles the groups; `unseen` ones can be called, and no model sees them.

        Raises:
            DefinitionError: Two groups, or two tools, have the same name.
        """
        _check_groups([*groups, *unseen])
        enabled = [group for group in groups if group.enabled]
        self.ask_user = any(group.signature == USER_INPUT for group in enabled)
        self.code_interpreter = any(group.signature == CODE_INTERPRETER for group in enabled)
        self.operations = tuple(one for group in enabled for one in group.operations)
        self._compiled = {
            id(operation): _compile(operation, group.executor)
            for group in (*enabled, *unseen)
            for operation in group.operations
        }
        known = (*self.operations, *(one for group in unseen for one in group.operations))
        self._exact, self._loose = _index(known)
        self._parts = {(one.verb, one.group, one.name): one for one in known}
        self._parts |= {(one.verb, one.group, one.path): one for one in known if one.path}
        self.tools = {one.tool_use_name: one for one in known}
        self._code_groups = {
            group.name: group.operations[0].group
            for group in (*enabled, *unseen)
            if group.signature == CODE_INTERPRETER
        }
        # Both forms are made once: a request refers to them, and copies nothing.
        self._specs = {ask: self._tool_specs(ask) for ask in (False, True)}

    def find(self, group: str, name: str = "", verb: str = "", path: str = "") -> Operation | None:
        """The operation that a call means, or `None`.

        `group` may be all that the model wrote. Besides the exact names this understands: an API
        operation by `operationId` or path, with or without its verb; a function with a verb in
        front, as Claude 2 writes all calls; the code interpreter by its group's own name; a bare
        name that only one operation has; a shortened tool name; other upper and lower case, where
        that is not ambiguous.
        """
        known = self._parts.get((verb, group, name or path))
        if known is not None:
            return known
        group = self._code_groups.get(group, group)
        part = name or path
        written = f"{verb}::{group}::{part}" if verb else f"{group}::{part}"
        found = self._exact.get(written)
        if found is not None:
            return found
        if name and path and (known := self.find(group, "", verb, path)) is not None:
            return known
        parts = [part for part in (verb, group, part) if part]
        for written in ("::".join(parts), "__".join(parts)):
            found = self._exact.get(written) or self._loose.get(written.strip().casefold())
            if found is not None:
                return found
        # Only an API operation has a verb: before a function it says nothing.
        function = self.find(group, name, path=path) if verb else None
        return function if function is not None and not function.verb else None

    def find_invocation(self, item: Mapping[str, Any]) -> Operation | None:
        """The operation that a member of a parser's `actionGroupInvocations` means, or `None`.

        Published parsers write `functionName` beside `verb` and `apiName`: the first says which
        function of a function group is meant, the others which operation of an API.
        """
        group, function = item.get("actionGroupName") or "", item.get("functionName") or ""
        found = self.find(group, function) if function else None
        if found is not None and not found.verb:
            return found
        if api := item.get("apiName"):
            return self.find(group, api, item.get("verb") or "", api) or found
        return found

    def unknown(self, written: str, protocol: str = "") -> str:
        """The text for a model that called something that does not exist.

        Suggestions have the names of the dialect's `protocol`; by default, of what was written.
        """
        protocol = protocol or ("xml" if "::" in written else "tool_use")
        known = [_name(operation, protocol) for operation in self.operations]
        from difflib import get_close_matches  # only mistakes need it

        close = get_close_matches(written, known, n=3, cutoff=0.5)
        advice = f" Did you mean {' or '.join(close)}?" if close else ""
        return (
            f"{written[:200]} is not a valid function.{advice} Please only use the functions you "
            "have been provided with."
        )

    def executor(self, operation: Operation) -> GuardedExecutor:
        """Who carries `operation` out: the results are bounded, the errors typed.

        Raises:
            DefinitionError: The agent has no such operation.
            KeyError: Its calls wait for the caller (`waits`).
        """
        found = (self._compiled.get(id(operation)) or self._find_own(operation)).executor
        if found is None:
            raise KeyError(operation.xml_name)
        return found

    def with_executors(self, change: Callable[[Executor], Executor]) -> Catalog:
        """The same operations, carried out by what `change` makes of who carries them out."""
        catalog = copy(self)
        catalog._compiled = {
            key: one._replace(executor=guard_executor(change(one.executor.executor)))
            if one.executor is not None
            else one
            for key, one in self._compiled.items()
        }
        return catalog

    def waits(self, operation: Operation) -> str:
        """How a call waits for the caller: Bedrock's `actionInvocationType`; empty: not at all."""
        return self.find_compiled(operation).waits

    def find_compiled(self, operation: Operation) -> CompiledOperation:
        """How calls of `operation` are checked, waited for and carried out.

        Raises:
            DefinitionError: The agent has no such operation.
        """
        return self._compiled.get(id(operation)) or self._find_own(operation)

    def _find_own(self, operation: Operation) -> CompiledOperation:
        # An equal operation of another catalog has this catalog's own object.
        own = self._exact.get(operation.xml_name)
        if own is None:
            raise DefinitionError(f"the agent has no operation {operation.xml_name!r}")
        return self._compiled[id(own)]

    def tool_specs(self, ask_user: bool | None = None) -> tuple[dict[str, Any], ...]:
        """Converse's tool specifications; the same object for every call.

        `ask_user` says whether `user__askuser` is one of them; by default, whether the agent has
        it.
        """
        return self._specs[self.ask_user if ask_user is None else ask_user]

    def _tool_specs(self, ask_user: bool) -> tuple[dict[str, Any], ...]:
        specs = [
            _tool_spec(one.tool_use_name, one.description, one.schema) for one in self.operations
        ]
        if ask_user:
            question = {key: _ASK_USER_PARAMETER[key] for key in ("type", "description")}
            schema = {
                "type": "object",
                "properties": {"question": question},
                "required": ["question"],
            }
            specs.append(_tool_spec(_ASK_USER["tool_use"], _ASK_USER_TEXT, schema))
        return tuple(specs)

    def descriptions(self, protocol: str, ask_user: bool | None = None) -> list[dict[str, Any]]:
        """The operations for a template's `tools` partial, with names for `protocol`.

        Each is `{"name", "description", "parameters": [{"name", "type", "description",
        "required"}]}`, with `"returns": {"type", "description"}` where it is known. Allowed values,
        and the members of objects, are in the parameter's description: the XML form has no other
        place for them. `ask_user` is as for `tool_specs`.
        """
        described: list[dict[str, Any]] = []
        for operation in self.operations:
            entry: dict[str, Any] = {
                "name": _name(operation, protocol),
                "description": operation.description,
                "parameters": [_describe_parameter(one) for one in operation.parameters],
            }
            if operation.returns is not None:
                kind, text = operation.returns
                entry["returns"] = {"type": kind, "description": text}
            described.append(entry)
        if self.ask_user if ask_user is None else ask_user:
            described.append(
                {
                    "name": _ASK_USER["tool_use" if protocol == "tool_use" else "xml"],
                    "description": _ASK_USER_TEXT,
                    "parameters": [dict(_ASK_USER_PARAMETER)],
                }
            )
        return described

    def validate(
        self, operation: Operation, arguments: Mapping[str, Any], protocol: str = "tool_use"
    ) -> tuple[dict[str, Any], list[str]]:
        """Makes a model's arguments fit the operation's schema. Never raises on any arguments.

        Returns:
            The arguments in the schema's types, and the problems, each a text for the model, which
            has the operation's name in the dialect's `protocol`.
        """
        return self.find_compiled(operation).check(arguments, protocol)


class CompiledOperation(NamedTuple):
    """How calls of an operation are checked, waited for and carried out."""

    check: Check  # see `Catalog.validate`
    waits: str  # see `Catalog.waits`
    executor: GuardedExecutor | None  # `None` when calls wait for the caller


def _compile(operation: Operation, executor: Executor | ReturnControl | None) -> CompiledOperation:
    check = compile_check(operation)
    confirmed = operation.require_confirmation
    if isinstance(executor, ReturnControl):
        waits = "USER_CONFIRMATION_AND_RESULT" if confirmed else "RESULT"
        return CompiledOperation(check, waits, None)
    guarded = guard_executor(executor) if executor is not None else None
    return CompiledOperation(check, "USER_CONFIRMATION" if confirmed else "", guarded)


def _check_groups(groups: Sequence[ActionGroup]) -> None:
    seen: set[str] = set()
    for group in groups:
        if group.name in seen:
            raise DefinitionError(f"there are two action groups {group.name!r}; rename one")
        if group.name.startswith(_RESERVED_GROUPS) and group.signature != CODE_INTERPRETER:
            raise DefinitionError(
                f"the action group name {group.name!r} is reserved for Bedrock's own tools"
            )
        seen.add(group.name)


# Exact names first: a lenient name that two operations have is ambiguous, and means neither.
def _index(
    operations: Sequence[Operation],
) -> tuple[dict[str, Operation], dict[str, Operation | None]]:
    exact: dict[str, Operation] = {}
    loose: dict[str, Operation | None] = {}
    for operation in operations:
        for name in _exact_names(operation):
            if exact.setdefault(name, operation) is not operation or name in _ASK_USER.values():
                raise DefinitionError(
                    f"the tool name {name!r} is not unique; rename {operation.xml_name!r}"
                )
        for name in _loose_names(operation):
            key = name.casefold()
            loose[key] = operation if loose.get(key, operation) is operation else None
    return exact, loose


def _exact_names(operation: Operation) -> list[str]:
    names = [operation.tool_use_name, operation.xml_name]
    if operation.verb:
        names.append(f"{operation.verb}::{operation.group}::{operation.name}")
    return names


def _loose_names(operation: Operation) -> set[str]:
    group, name, path = operation.group, operation.name, operation.path
    names = {*_exact_names(operation), name, f"{group}::{name}", f"{group}__{name}"}
    if operation.verb:
        for one in {path, path.strip("/")} - {""}:
            names |= {one, f"{group}::{one}", f"{operation.verb}::{group}::{one}"}
    return names


def _name(operation: Operation, protocol: str) -> str:
    return operation.tool_use_name if protocol == "tool_use" else operation.xml_name


def _tool_spec(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    # Amazon Nova takes only these three members at the top of a tool's schema.
    top = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
    spec: dict[str, Any] = {"name": name, "inputSchema": {"json": top}}
    if description:
        spec["description"] = description
    return {"toolSpec": spec}


def _describe_parameter(parameter: Parameter) -> dict[str, Any]:
    text, schema = parameter.description, parameter.schema
    if "enum" in schema:
        values = ", ".join(str(value) for value in schema["enum"])
        text = f"{text} One of: {values}.".strip()
    elif "properties" in schema or "items" in schema:
        shape = {key: value for key, value in schema.items() if key != "description"}
        text = f"{text} As JSON: {json.dumps(shape, ensure_ascii=False)}".strip()
    return {
        "name": parameter.name,
        "type": parameter.type,
        "description": text,
        "required": parameter.required,
    }
