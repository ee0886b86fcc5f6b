"""`actionGroups`: what an agent can do (Bedrock: CreateAgentActionGroup)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, StringConstraints, model_validator

from orchestrator.definition.fields import (
    VARIABLE_PATTERN,
    Many,
    Name,
    Part,
    State,
    Text,
    find_duplicate,
    mistake,
)

Signature = Literal[
    "AMAZON.UserInput",
    "AMAZON.CodeInterpreter",
    "ANTHROPIC.Computer",
    "ANTHROPIC.Bash",
    "ANTHROPIC.TextEditor",
]

VariableName = Annotated[str, StringConstraints(pattern=VARIABLE_PATTERN)]


class OneOf(Part):
    """A part with exactly one member (Bedrock: a union)."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        fields = type(self).model_fields
        present = [name for name in fields if getattr(self, name) is not None]
        if len(present) != 1:
            choices = [str(field.alias) for field in fields.values()]
            names = f"{', '.join(choices[:-1])} or {choices[-1]}"
            have = f", not {len(present)} of them" if present else ""
            raise mistake(f"give exactly one of {names}{have}")
        return self


class S3Identifier(Part):
    """A file in Amazon S3.

    Attributes:
        s3_bucket_name: The bucket.
        s3_object_key: The object's key.
    """

    s3_bucket_name: Annotated[str, Field(min_length=3, max_length=63)] | None = None
    s3_object_key: Annotated[str, Field(min_length=1, max_length=1024)] | None = None


class ApiSchema(OneOf):
    """An OpenAPI 3 document: its text, or where it is.

    Attributes:
        payload: The document itself, as JSON or YAML text.
        file: The document as a file, relative to the agent's folder.
        s3: The document in Amazon S3.
    """

    payload: str | None = None
    file: str | None = None
    s3: S3Identifier | None = None


class ParameterDetail(Part):
    """One parameter of a function.

    Attributes:
        type: The type of its values.
        description: What it means, for the model.
        required: Whether a call must have it.
    """

    type: Literal["string", "number", "integer", "boolean", "array"]
    description: Text | None = None
    required: bool | None = None


class Function(Part):
    """One function of an action group.

    Attributes:
        name: Its name.
        description: What it does and when to call it, for the model.
        parameters: Its parameters by name.
        require_confirmation: `ENABLED` asks the user before every call.
    """

    name: Name
    description: Text | None = None
    parameters: dict[Name, ParameterDetail] | None = None
    require_confirmation: State | None = None


class FunctionSchema(Part):
    """The functions of an action group.

    Attributes:
        functions: The functions; at least one.
    """

    functions: Annotated[Many[Function], Field(json_schema_extra={"minItems": 1})]

    @model_validator(mode="after")
    def _check_unique_names(self) -> FunctionSchema:
        if not self.functions:
            raise mistake("there is no function; add one", "functions")
        if found := find_duplicate(function.name for function in self.functions):
            index, name = found
            raise mistake(
                f"there is a second function {name!r}; rename one of them",
                *("functions", index, "name"),
            )
        return self


class HttpApi(Part):
    """An API that is called over HTTP, as its OpenAPI document says.

    Attributes:
        base_url: Where the API is, instead of the document's `servers`.
        headers: Headers of every request. In a value, `${env:NAME}` stands for an environment
            variable and `${session:NAME}` for a session attribute.
        timeout_seconds: Wall-clock time of one call; 30 by default.
        allow_private: Hosts that may have private addresses, such as `localhost`.
    """

    base_url: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    headers: dict[str, str] | None = Field(default=None, repr=False)
    timeout_seconds: Annotated[float, Field(gt=0)] | None = None
    allow_private: Many[str] = ()


class McpServer(Part):
    """A server of the Model Context Protocol, whose tools are the group.

    Attributes:
        command: The program and its arguments; it runs in the agent's folder, with the group's
            `environment`.
        url: The address of a server that speaks streamable HTTP, instead.
        headers: Headers of every request to `url`; `${env:NAME}` in a value stands for an
            environment variable.
        allow_private: Hosts of a `url` that may have private addresses, such as `localhost`.
        tools: The only tools that the agent has; all of them when left out.
        require_confirmation: Tools that the user must confirm.
        lock_file: A file of the agent's folder with the tools as they were reviewed.
        timeout_seconds: Wall-clock time of the start and of one call; 30 by default.
    """

    command: Annotated[Many[str], Field(min_length=1)] | None = None
    url: Annotated[str, Field(pattern="^https?://")] | None = None
    headers: dict[str, str] | None = Field(default=None, repr=False)
    allow_private: Many[str] = ()
    tools: Many[str] | None = None
    require_confirmation: Many[str] = ()
    lock_file: str | None = None
    timeout_seconds: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check_transport(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise mistake("give exactly one of command or url")
        if self.headers and self.url is None:
            raise mistake("a command has no headers; leave them out", "headers")
        return self


class ActionGroupExecutor(OneOf):
    """What carries an action group's calls out.

    Attributes:
        lambda_: A Lambda handler file relative to the agent's folder, `handler.py` or
            `handler.py:function`, which runs in this process, or with the group's `isolation` in
            one of its own; or a Lambda function's ARN.
        custom_control: `RETURN_CONTROL` hands the calls to whoever invoked the agent.
        python: A Python file relative to the agent's folder; its `@action` functions are the group.
        http: The API of the group's `apiSchema`, called over HTTP.
        mcp: A server of the Model Context Protocol; its tools are the group.
    """

    lambda_: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, alias="lambda"
    )
    custom_control: Literal["RETURN_CONTROL"] | None = None
    python: Annotated[str, Field(min_length=1)] | None = None
    http: HttpApi | None = None
    mcp: McpServer | None = None

    @property
    def brings_functions(self) -> str:
        """The member of the executor that brings functions, for messages; else empty."""
        return "a python file" if self.python else "an MCP server" if self.mcp else ""


class ActionGroupDefinition(Part):
    """A group of actions with one schema and one executor.

    Attributes:
        action_group_name: Its name; tool names begin with it.
        description: What the group is for, for people; models read the functions' descriptions.
        action_group_state: `DISABLED` leaves the group out.
        parent_action_group_signature: A built-in group instead: `AMAZON.UserInput` lets the agent
            ask the user for what it does not know. It needs no schema and no executor.
        parent_action_group_signature_params: Settings of the built-in group.
        api_schema: The operations as an OpenAPI document.
        function_schema: The operations as a list of functions.
        action_group_executor: What carries the calls out.
        environment: Environment variables of a handler file, or of an MCP server's command; there
            `${env:NAME}` in a value stands for one of this process.
        isolation: `PROCESS` runs a handler file in processes of its own, in the folder of its code.
    """

    READ_ONLY: ClassVar[frozenset[str]] = frozenset(
        ("agentId", "agentVersion", "actionGroupId", "clientToken", "createdAt", "updatedAt")
    )

    action_group_name: Name
    description: Text | None = None
    action_group_state: State | None = None
    # Bedrock asks for the longer name and answers with the shorter one.
    parent_action_group_signature: Signature | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "parentActionGroupSignature", "parentActionSignature", "parent_action_signature"
        ),
    )
    parent_action_group_signature_params: dict[str, str] | None = None
    api_schema: ApiSchema | None = None
    function_schema: FunctionSchema | None = None
    action_group_executor: ActionGroupExecutor | None = None
    environment: dict[VariableName, str] | None = None
    isolation: Literal["PROCESS"] | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether the agent has the group."""
        return self.action_group_state != "DISABLED"

    @model_validator(mode="after")
    def _check_consistency(self) -> ActionGroupDefinition:
        members = {"apiSchema": self.api_schema, "functionSchema": self.function_schema}
        schemas = [name for name, value in members.items() if value is not None]
        executor = self.action_group_executor
        if self.parent_action_group_signature:
            extra = [*schemas, *(["actionGroupExecutor"] if executor else [])]
            # AWS: a group with a parentActionGroupSignature has no description, schema or executor.
            if extra:
                name = self.parent_action_group_signature
                raise mistake(f"{name} is built in; leave {extra[0]} out", extra[0])
        elif len(schemas) > 1:
            raise mistake("give either apiSchema or functionSchema, not both", "functionSchema")
        elif schemas and executor and executor.brings_functions:
            raise mistake(
                f"{executor.brings_functions} brings its own functions; leave {schemas[0]} out",
                schemas[0],
            )
        # A function has neither a path nor a verb; only an OpenAPI document says how to call an
        # API.
        elif executor and executor.http is not None and self.function_schema:
            raise mistake("an API over HTTP needs an apiSchema, not functions", "functionSchema")
        if self.isolation is not None:
            handler = executor.lambda_ if executor else None
            if handler is None or handler.startswith("arn:"):
                raise mistake("only a handler file (lambda: handler.py) is isolated", "isolation")
        return self
