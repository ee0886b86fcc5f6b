"""Operations, calls of them, and the executor seam.

An *operation* is one function or one API operation of an action group, compiled from its schema.
A *call* is what a model asked for, after validation. An *executor* carries a call out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

_LONGEST_NAME = 64  # (Bedrock: `ToolName` of Converse)


def _shorten_name(name: str) -> str:
    import hashlib

    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation."""

    name: str
    type: str  # `string`, `number`, `integer`, `boolean`, `array` or `object`
    description: str = ""  # for the model
    required: bool = False  # whether a call must have it
    location: str = ""  # `path`, `query`, `header`, `body` for API operations; empty for functions
    schema: Mapping[str, Any] = field(default_factory=dict)  # JSON Schema, `$ref`s resolved
    # How an API parameter is written (OpenAPI: `style`), or `json` for one with `content`; empty
    # for its place's usual style
    style: str = ""
    # Whether lists and objects are written as several values (OpenAPI: `explode`); `None` for the
    # style's usual way
    explode: bool | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One callable operation of an action group."""

    group: str  # the action group's name
    name: str  # the function's name, or the API operation's `operationId`
    description: str = ""  # for the model
    # Path, query, header and body parameters, in the schema's order
    parameters: tuple[Parameter, ...] = ()
    verb: str = ""  # HTTP verb in upper case for an API operation, else empty
    path: str = ""  # the API path with its `{braces}`, else empty
    content_type: str = ""  # media type of the request body, else empty
    require_confirmation: bool = False  # whether the user must confirm a call
    confirmation_waived: bool = False  # whether the author says that he need not
    idempotent: bool = False  # whether a call may be run again when its outcome is unknown
    # JSON Schema of all parameters together (`type: object`)
    schema: Mapping[str, Any] = field(default_factory=dict)
    # Where an API operation is (OpenAPI: `servers`, the first one, its variables filled with their
    # defaults); empty when the document does not say
    server: str = ""
    # Type and description of what a successful call returns, when the schema says
    returns: tuple[str, str] | None = None
    # Reads the JSON Schema of what a successful call returns; `{}` where the document has none.
    # Only whoever makes a form of it needs it, so that it is not read before
    read_result_schema: Callable[[], Mapping[str, Any]] = field(
        default=dict, compare=False, repr=False
    )

    # `VERB__group__operationId` or `group__function` (Bedrock: models with native tools). A longer
    # name than Converse takes (64 characters) is cut and ends in a hash of the whole;
    # `Catalog.find` understands it.
    tool_use_name: str = field(init=False, compare=False)
    # `VERB::group::/path` or `group::function` (Bedrock: XML models)
    xml_name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        verb, group, name = self.verb, self.group, self.name
        native = f"{verb}__{group}__{name}" if verb else f"{group}__{name}"
        short = native if len(native) <= _LONGEST_NAME else _shorten_name(native)
        written = f"{verb}::{group}::{self.path}" if verb else f"{group}::{name}"
        object.__setattr__(self, "tool_use_name", short)
        object.__setattr__(self, "xml_name", written)


@dataclass(slots=True)
class Call:
    """One validated call."""

    id: str  # names the call; unique in the turn
    operation: Operation  # what is called
    arguments: dict[str, Any]  # values by parameter name, coerced to the schema's types
    key: str = ""  # idempotency key: the same when the same call is carried out after a crash


class CallContext(NamedTuple):
    """What an executor may know of the invocation besides the call; a turn's calls may share it.

    Attributes are read-only: an action changes them by returning an `ActionResult` with others.
    """

    agent: Mapping[str, str]  # `name`, `id`, `alias`, `version`, as in Bedrock's Lambda event
    session_id: str
    input_text: str  # the user's input of this turn
    session_attributes: Mapping[str, str]  # attributes that live as long as the session
    prompt_session_attributes: Mapping[str, str]  # attributes of this turn
    max_bytes: int  # size limit of the result's text, in UTF-8 bytes
    seconds: float | None = None  # time that the action has, or `None` for no limit
    # Files that the user gave for the code interpreter (Bedrock: `InputFile`, with `name`, `type`
    # and `bytes`)
    files: Sequence[Mapping[str, Any]] = ()
    # Stands for whose session it is, where an agent serves several tenants: their session ids may
    # be the same. Empty without one.
    tenant: str = ""


@dataclass(slots=True)
class ActionResult:
    """What an executor returns."""

    text: str  # the body, as the model will read it
    # Empty, `"REPROMPT"` (the text says what the model can do better) or `"FAILURE"` (the turn ends
    # with `DependencyFailed`)
    state: str = ""
    # The session's attributes from now on, or `None` for no change. When several calls of one reply
    # change them, each call's changes are applied, in the calls' order.
    session_attributes: dict[str, str] | None = None
    prompt_session_attributes: dict[str, str] | None = None  # the same for the turn's attributes
    http_status: int | None = None  # HTTP status of an API operation
    notes: tuple[str, ...] = ()  # leniencies that were needed to understand it, for the trace
    # Files that the action made (Bedrock: `OutputFile`, with `name`, `type`, `bytes`)
    files: Sequence[Mapping[str, Any]] = ()
    # What the trace has of a built-in action besides its text, as JSON data: for the code
    # interpreter `executionOutput`, `executionError`, `executionTimeout`
    details: Mapping[str, Any] | None = None
    # How the turn's later searches are made, by knowledge base id (Bedrock:
    # `retrievalConfiguration` of the response's `knowledgeBasesConfiguration`)
    knowledge_bases: Mapping[str, Mapping[str, Any]] | None = None


class Reprompt(Exception):
    """Raised by a Python action to ask the model for something better; the model reads its text."""


@runtime_checkable
class Executor(Protocol):
    """Carries calls out. `call` may block; the driver gives it a thread and a time limit.

    An executor may also have `async def acall(call, context)`: the asynchronous driver then awaits
    it instead of using a thread, and the synchronous one runs it in an event loop of its own.

    `status(key)` may say what became of a call after its process has stopped, by its idempotency
    key: its `ActionResult` if it took effect, `False` if it did not, and then it is carried out;
    `None` if that is not known. Without it nobody knows; see `ActionOutcomeUnknown`.

    Two more methods are asked for when a group is made. `operations(group)` gives the group its
    operations, in place of a schema; `prepare(operations)` returns those of the schema as the
    executor can carry them out. Both may raise `DefinitionError`.
    """

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Carries `call` out.

        Raises:
            DependencyFailed: The action failed in a way that the model cannot mend.
        """
        ...
