"""A definition's action groups → `ActionGroup`s with their executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from orchestrator.actions.base import Executor
from orchestrator.actions.group import CODE_INTERPRETER, USER_INPUT, ActionGroup, ReturnControl
from orchestrator.actions.handler_modules import HandlerModule
from orchestrator.actions.handlers import LambdaHandler
from orchestrator.actions.python import Action, PythonExecutor
from orchestrator.definition.action_group import (
    ActionGroupDefinition,
    ActionGroupExecutor,
    HttpApi,
    McpServer,
    S3Identifier,
)
from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.dump import as_data
from orchestrator.definition.files import handler_of, is_arn, locate
from orchestrator.errors import DefinitionError, DependencyFailed, OrchestratorError
from orchestrator.support.documents import Keys
from orchestrator.support.load_errors import build_load_failure

T = TypeVar("T")


# The text of a schema, by its bucket and key; `None` for one that is in Amazon S3.
FindSchema = Callable[[str, str], str | None]


def build_action_groups(
    definition: AgentDefinition,
    folder: str | Path | None = None,
    find_schema: FindSchema = lambda bucket, key: None,
) -> list[ActionGroup]:
    """The action groups of an agent, ready to be called; disabled ones are left out.

    The Python files that groups name with `python` are run here, each as a separate module.
    `folder` is the agent's; by default the one that the definition was read from. `find_schema` is
    asked for schemas in buckets before Amazon S3 is.

    Raises:
        DefinitionError: A schema, file or executor is wrong, missing or not supported yet.
    """
    root = Path(folder) if folder is not None else definition.source.folder
    return [
        _Builder(definition, group, ("actionGroups", index), root, find_schema).build()
        for index, group in enumerate(definition.action_groups)
        if group.is_enabled
    ]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes one group, and knows where in the definition it stands."""

    definition: AgentDefinition
    group: ActionGroupDefinition
    keys: Keys
    folder: Path | None
    find_schema: FindSchema

    def build(self) -> ActionGroup:
        try:
            group = ActionGroup(
                self.group.action_group_name,
                description=self.group.description or "",
                **self.content(),
            )
        except DefinitionError as error:
            if error.file is not None:
                raise
            inside = f"line {error.line} of the payload: " if error.line else ""
            raise self.fail(f"{inside}{error.reason}", *self.subject()) from error
        except DependencyFailed as error:  # an MCP server that does not start
            raise self.fail(error.message, *self.subject()) from error
        if isinstance(group.executor, PythonExecutor) and self.folder is not None:
            group.executor.folder = self.folder.resolve()
        return group

    def subject(self) -> tuple[str, ...]:
        executor = self.group.action_group_executor
        if executor is not None and executor.mcp is not None:
            return "actionGroupExecutor", "mcp"
        return ("apiSchema",) if self.group.api_schema else ("actionGroupName",)

    def fail(self, message: str, *keys: str) -> DefinitionError:
        return self.definition.source.error(message, *self.keys, *keys)

    def content(self) -> dict[str, Any]:
        signature = self.group.parent_action_group_signature
        if signature is not None:
            return self.build_built_in(signature)
        executor = self.group.action_group_executor
        if executor is None:
            raise self.fail(
                f"the action group {self.group.action_group_name!r} has no executor; "
                "add actionGroupExecutor: {lambda: <handler.py>} or {customControl: RETURN_CONTROL}"
            )
        if executor.python is not None:
            return {"actions": self.python_actions(executor.python)}
        if executor.mcp is not None:
            return {"executor": self.mcp_server(executor.mcp)}
        return {**self.schema(), "executor": self.executor(executor)}

    def build_built_in(self, signature: str) -> dict[str, Any]:
        if signature == CODE_INTERPRETER:
            return {"signature": signature, "executor": self.code_interpreter()}
        if signature != USER_INPUT:
            raise self.fail(
                f"the built-in action group {signature!r} is not supported yet; "
                "set actionGroupState: DISABLED or leave the group out",
                "parentActionGroupSignature",
            )
        return {"signature": signature}

    def code_interpreter(self) -> Executor:
        from orchestrator.actions.code_interpreter import CodeInterpreter, CodeInterpreterSettings

        member = "parentActionGroupSignature"
        params = self.group.parent_action_group_signature_params or {}
        settings = self.make(CodeInterpreterSettings.from_texts, f"{member}Params", texts=params)
        return self.make(CodeInterpreter, member, settings=settings)

    # A Lambda function does not say what it takes: its group needs a schema.
    def schema(self) -> dict[str, Any]:
        if self.group.function_schema is not None:
            return {"functions": as_data(self.group.function_schema)["functions"]}
        api = self.group.api_schema
        if api is None:
            name = self.group.action_group_name
            raise self.fail(f"the action group {name!r} has neither apiSchema nor functionSchema")
        if api.s3 is not None:
            return {"api_schema": self.schema_in_s3(api.s3)}
        if api.payload is not None:
            return {"api_schema": api.payload}
        return {"api_schema": self.file(str(api.file), "apiSchema", "file")}

    # Read now, as Bedrock reads it when the group is made.
    def schema_in_s3(self, place: S3Identifier) -> str:
        from orchestrator.actions.openapi import read_s3_schema

        keys = ("apiSchema", "s3")
        if place.s3_bucket_name is None or place.s3_object_key is None:
            raise self.fail("a schema in Amazon S3 has an s3BucketName and an s3ObjectKey", *keys)
        bucket, key = place.s3_bucket_name, place.s3_object_key
        try:
            found = self.find_schema(bucket, key)
            return read_s3_schema(bucket, key) if found is None else found
        except OrchestratorError as error:
            reason = error.reason if isinstance(error, DefinitionError) else error.message
            raise self.fail(reason, *keys) from error

    def executor(self, executor: ActionGroupExecutor) -> Executor | ReturnControl:
        if executor.http is not None:
            return self.http_api(executor.http)
        if executor.lambda_ is None:
            return ReturnControl()
        keys = ("actionGroupExecutor", "lambda")
        if is_arn(executor.lambda_):
            from orchestrator.actions.lambda_arn import LambdaArn

            return self.make(LambdaArn, *keys, arn=executor.lambda_)
        name, function = handler_of(executor.lambda_)
        file = self.file(name, *keys)
        kind: type[LambdaHandler] = LambdaHandler
        if self.group.isolation is not None:
            from orchestrator.actions.lambda_process import LambdaProcess

            kind = LambdaProcess
        return kind(file, function, environment=self.group.environment, root=self.folder)

    def http_api(self, api: HttpApi) -> Executor:
        from orchestrator.actions.http_executor import HttpExecutor

        return self.make(
            HttpExecutor,
            "actionGroupExecutor",
            "http",
            base_url=api.base_url or "",
            headers=api.headers,
            allow_private=api.allow_private,
            **({"timeout": api.timeout_seconds} if api.timeout_seconds else {}),
        )

    def mcp_server(self, server: McpServer) -> Executor:
        from orchestrator.actions.mcp_server import MCPServer

        keys = ("actionGroupExecutor", "mcp")
        lock_file = self.file(server.lock_file, *keys, "lockFile") if server.lock_file else None
        return self.make(
            MCPServer,
            *keys,
            command=server.command,
            url=server.url,
            environment=self.group.environment if server.command else None,
            headers=server.headers,
            allow_private=server.allow_private,
            folder=self.folder,
            tools=server.tools,
            require_confirmation=server.require_confirmation,
            lock_file=lock_file,
            **({"timeout": server.timeout_seconds} if server.timeout_seconds else {}),
        )

    # An executor's complaints are about its member of the definition.
    def make(self, kind: Callable[..., T], *keys: str, **settings: Any) -> T:
        try:
            return kind(**settings)
        except DefinitionError as error:
            raise self.fail(error.reason, *keys) from error

    def python_actions(self, name: str) -> list[Action[..., Any]]:
        keys = ("actionGroupExecutor", "python")
        module = _run(self.file(name, *keys))
        bound = (it for key, it in vars(module).items() if not key.startswith("_"))
        actions = list(dict.fromkeys(it for it in bound if isinstance(it, Action)))
        if not actions:
            raise self.fail(f"the file {name!r} has no @action function; decorate one", *keys)
        return actions

    def file(self, name: str, *keys: str) -> Path:
        return locate(self.definition, name, (*self.keys, *keys), self.folder)


# Files beside it can be imported, as beside any program.
def _run(file: Path) -> ModuleType:
    try:
        return HandlerModule(file).load()
    except DefinitionError:
        raise
    except (Exception, SystemExit) as error:
        raise build_load_failure(error, file) from error
