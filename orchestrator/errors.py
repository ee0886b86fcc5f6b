"""The error tree: split by who must act.

```
OrchestratorError
├── DefinitionError            the developer: an agent's definition is wrong (file, line, column)
│   ├── TemplateError          the developer: a prompt template is wrong
│   └── FlowError              the developer: a script is wrong, or failed while it ran
├── ValidationError            the caller: an argument of a call is wrong
│   └── ResourceNotFound       the caller: the thing that was named does not exist
├── SessionConflict            the caller: results were answered twice, or the agent was changed
│   └── SessionBusy            the caller: another invocation has the session; try again later
├── LimitExceeded              a budget of `Limits` was used up
├── ModelOutputError           the model: its replies could not be understood
└── DependencyFailed           a dependency: a model, an action, a knowledge base failed
    ├── AccessDenied           ... because of missing or refused credentials
    ├── ThrottlingError        ... because of its rate limit
    ├── ModelNotReady          ... because the model is not loaded or not downloaded
    ├── EncryptionError        ... because what a store has cannot be decrypted
    └── ActionOutcomeUnknown   ... and nobody knows whether the action took effect
```

Each class names the one exception of Amazon Bedrock's runtime API that it maps to
(`bedrock_name`). Messages name the thing with `!r` and say what to do; they never carry payloads,
credentials or session attributes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.diagnostics import Diagnostic

__all__ = [
    "AccessDenied",
    "ActionOutcomeUnknown",
    "DefinitionError",
    "DependencyFailed",
    "EncryptionError",
    "FlowError",
    "LimitExceeded",
    "ModelNotReady",
    "ModelOutputError",
    "OrchestratorError",
    "ResourceNotFound",
    "SessionBusy",
    "SessionConflict",
    "TemplateError",
    "ThrottlingError",
    "TurnLeft",
    "ValidationError",
]


class OrchestratorError(Exception):
    """Base of every error that this package raises.

    Attributes:
        bedrock_name: The exception of Bedrock's runtime API that this class maps to.
        message: What went wrong and what to do about it.
        reply: What the turn had done when it failed, with its trace, when it had begun.
    """

    bedrock_name: ClassVar[str] = "InternalServerException"
    # A `Reply`: its type is not named here, because the room that has it needs the errors.
    reply: Any = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class DefinitionError(OrchestratorError):
    """An agent's definition is wrong.

    Attributes:
        file: The file that is wrong, when there is one.
        line: The line in it, from 1.
        column: The column in that line, from 1.
        diagnostics: All mistakes, when several were found at once; the first is the one above.
    """

    bedrock_name = "ValidationException"

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
        diagnostics: Sequence[Diagnostic] = (),
    ) -> None:
        self.diagnostics = tuple(diagnostics)
        self.file = str(file) if file is not None else None
        self.line = line
        self.column = column
        super().__init__(f"{self.place}: {message}" if self.place else message)
        self.reason = message

    @property
    def place(self) -> str:
        """`file:line:column`, as far as known; empty when nothing is known."""
        if self.file is None and self.line is None:
            return ""
        parts = [self.file or "<text>", self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)


class TemplateError(DefinitionError):
    """A prompt template is wrong: broken JSON, an impossible structure, too large."""


class FlowError(DefinitionError):
    """A script is wrong, or what it asked for failed while it ran.

    Attributes:
        statement: The first line of the statement that is wrong or failed, as it is written.
        message_zh: The same in Chinese, where the script's language has Chinese users.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
        statement: str = "",
        message_zh: str = "",
    ) -> None:
        super().__init__(message, file=file, line=line, column=column)
        self.statement = statement
        self.message_zh = message_zh


class ValidationError(OrchestratorError):
    """An argument of a call is wrong."""

    bedrock_name = "ValidationException"


class ResourceNotFound(ValidationError):
    """The agent, session, model or file that was named does not exist."""

    bedrock_name = "ResourceNotFoundException"


class SessionConflict(OrchestratorError):
    """The session is being used by another invocation, or was changed by one."""

    bedrock_name = "ConflictException"


class SessionBusy(SessionConflict):
    """Another invocation has the session, or has just written to it: later it may be free."""


class LimitExceeded(OrchestratorError):
    """A budget of `Limits` was used up; nothing more was spent.

    Attributes:
        limit: The field of `Limits` that was reached.
    """

    bedrock_name = "ServiceQuotaExceededException"

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class ModelOutputError(OrchestratorError):
    """The model's replies could not be understood, or were cut, blocked or empty.

    Attributes:
        code: The parser's reason code, or Converse's stop reason.
        raw: The reply's text, for whoever debugs it.
    """

    bedrock_name = "DependencyFailedException"

    def __init__(self, message: str, *, code: str = "", raw: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.raw = raw


class DependencyFailed(OrchestratorError):
    """A model, an action group or a knowledge base failed.

    Attributes:
        resource: The name of what failed: a model id, `group::function`, a knowledge base id.
        is_outage: Whether a database failed because it cannot be reached now, or is overloaded. The
            same request may succeed later.
    """

    bedrock_name = "DependencyFailedException"

    def __init__(self, message: str, *, resource: str = "", is_outage: bool = False) -> None:
        super().__init__(message)
        self.resource = resource
        self.is_outage = is_outage


class AccessDenied(DependencyFailed):
    """Credentials are missing, expired or refused.

    Attributes:
        signed_in: Whether they are good, and what they may do is too little.
        hint: What else helps whoever runs the program, and nobody else: whose credentials they are.
    """

    bedrock_name = "AccessDeniedException"

    def __init__(
        self, message: str, *, resource: str = "", signed_in: bool = True, hint: str = ""
    ) -> None:
        super().__init__(message, resource=resource)
        self.signed_in = signed_in
        self.hint = hint


class ThrottlingError(DependencyFailed):
    """A dependency refused the request because of its rate limit, after retries."""

    bedrock_name = "ThrottlingException"


class ModelNotReady(DependencyFailed):
    """The model is not there yet: weights not downloaded, runtime not installed, still loading."""

    bedrock_name = "ModelNotReadyException"


class EncryptionError(DependencyFailed):
    """What a store has cannot be decrypted: the key is missing or wrong, or somebody changed it.

    Or it is not encrypted, where it has to be.

    Attributes:
        is_intact: Whether another key, or a newer program, opens it: then nothing is lost.
    """

    def __init__(self, message: str, *, resource: str = "", is_intact: bool = False) -> None:
        super().__init__(message, resource=resource)
        self.is_intact = is_intact


class ActionOutcomeUnknown(DependencyFailed):
    """A process stopped, or the time was up, while an action ran: nobody knows its effect.

    So it is when the answer of a collaborator in Bedrock is lost. Or the action took effect, which
    the message then says, and the journal could not be written after it. It is never run again by
    itself. `resource` names it.

    Attributes:
        undecided: What somebody has to decide before the turn goes on, and before another question
            is asked in its session; an `orchestrator.Undecided`. `None` when the turn has ended.
    """

    # Its type is not named here, because the room that has it needs the errors.
    undecided: Any = None


class TurnLeft(Exception):
    """Thrown into the events of a turn by a process that is about to end; no failure of anything.

    The turn stays open in its journal, as after a crash, and any process may go on with it at once:
    with an empty question, or with the same question again. What was being carried out is stopped;
    an action whose outcome is not known then is not carried out again, unless it is idempotent.
    """


def rebuild_error(name: str, message: str, reason: str) -> OrchestratorError:
    """The error that ended a turn, from the turn's `end` record."""
    found = error_class(name)
    if issubclass(found, LimitExceeded):
        return found(message, limit=reason)
    return found(message, code=reason) if issubclass(found, ModelOutputError) else found(message)


def error_class(name: str) -> type[OrchestratorError]:
    """The class of this tree called `name`, for errors read back from a journal."""
    found: Any = globals().get(name)
    if isinstance(found, type) and issubclass(found, OrchestratorError):
        return found
    return OrchestratorError
