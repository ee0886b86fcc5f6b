"""Everything that a worker process has open, and the operations of all rooms over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.operations import Handler, Operations
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.settings import Settings

if TYPE_CHECKING:
    from orchestrator.memory import MemoryStore
    from orchestrator.models import Model
    from orchestrator.models.embeddings import Embedder
    from orchestrator.server.agents.cleanup import AgentCleanup
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.document_store import DocumentStore
    from orchestrator.server.inference.models import Models
    from orchestrator.server.knowledge_bases import KnowledgeBaseService
    from orchestrator.sessions import Sessions

LambdaCode = Callable[..., Any] | str
"""What stands for a Lambda function: a callable of event and context, or `<file>:<function>`."""

_ROOMS = ("control", "knowledge_bases", "runtime", "runtime.sessions_api", "inference")


class ServerState:
    """What a worker process opens from its settings, once; safe for all of its threads.

    Files lie beside that of the sessions, under fixed names; without one all is in memory, and one
    process has it.

    Attributes:
        settings: What the server was told.
        places: Its folders, which callers do not learn.
        embedder: What understands meaning in knowledge bases made through the API.
        documents: Agents, knowledge bases and whatever else the control plane keeps.
        sessions: The conversations.
        memory: What agents remember of their users.
        models: The models, by the ids that callers name.
        bases: Knowledge bases made through the API.
        agents: Agents, in folders and made through the API.
        forgetting: Deletes what agents that were deleted have left.
    """

    documents: DocumentStore
    sessions: Sessions
    memory: MemoryStore
    models: Models
    bases: KnowledgeBaseService
    agents: Agents
    forgetting: AgentCleanup

    def __init__(
        self,
        settings: Settings,
        models: Mapping[str, Model] | None,
        lambdas: Mapping[str, Callable[..., Any]] | None,
        embedder: Embedder | str = "local",
    ) -> None:
        """Opens everything; see `open`."""
        self.settings = settings
        self.places = PathRedactor(settings)
        self.embedder = embedder
        self._lambdas: dict[str, LambdaCode] = {
            **{name: _resolve_handler(name, spec) for name, spec in settings.lambdas.items()},
            **(lambdas or {}),
        }
        for name, folder in settings.buckets.items():
            if not folder.is_dir():
                raise ResourceNotFound(f"there is no folder {str(folder)!r} for bucket {name!r}")
        with ExitStack() as opened:
            self._open(models or {}, opened)
            self._opened = opened.pop_all()

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        models: Mapping[str, Model] | None = None,
        lambdas: Mapping[str, Callable[..., Any]] | None = None,
        embedder: Embedder | str = "local",
    ) -> ServerState:
        """Opens what a worker process needs.

        Args:
            settings: What the server was told.
            models: Models of this process, by patterns of the ids that they answer for; they win
                over `settings.models`.
            lambdas: Functions of this process, by names or ARNs of the Lambda functions that they
                stand for.
            embedder: What understands meaning in knowledge bases made through the API, or a name
                for `resolve_embedder`.

        Raises:
            DefinitionError: An agent's folder, or a Lambda's file, is wrong.
            DependencyFailed: A file of the state cannot be opened.
            ResourceNotFound: A folder or file that the settings name is not there.
        """
        return cls(settings, models, lambdas, embedder)

    def _open(self, models: Mapping[str, Model], opened: ExitStack) -> None:
        from orchestrator.agent.features import memory_store
        from orchestrator.memory import InMemoryMemory
        from orchestrator.server.agents.cleanup import AgentCleanup
        from orchestrator.server.agents.registry import Agents
        from orchestrator.server.document_store import DocumentStore
        from orchestrator.server.inference.models import Models
        from orchestrator.server.knowledge_bases import KnowledgeBaseService
        from orchestrator.sessions import Sessions

        state = self.settings.state
        if state is not None and not state.parent.is_dir():
            raise ResourceNotFound(f"there is no folder {str(state.parent)!r} for the state")
        self.documents = DocumentStore(self.get_path("documents.sqlite"))
        opened.callback(_close_if_closable, self.documents)
        self.sessions = Sessions.of(state)
        opened.callback(_close_if_closable, self.sessions.store)
        self.memory = memory_store(None, state) or InMemoryMemory()
        opened.callback(_close_if_closable, self.memory)
        self.models = Models(self.settings, models)
        self.bases = KnowledgeBaseService(self)
        opened.callback(_close_if_closable, self.bases)
        self.agents = Agents(self)
        opened.callback(_close_if_closable, self.agents)
        self.forgetting = AgentCleanup(self)
        opened.callback(_close_if_closable, self.forgetting)

    def get_path(self, name: str) -> Path | None:
        """Where a file or folder of the state called `name` lies; `None` when all is in memory."""
        state = self.settings.state
        return state.resolve().with_name(name) if state is not None else None

    def find_lambda(self, arn: str) -> LambdaCode | None:
        """What stands for a Lambda function here.

        Args:
            arn: Its ARN, also with a version or alias, or its name.

        Returns:
            A callable of event and context, the absolute path of a file with `:<function>`, or
            `None`: the function is AWS's own.
        """
        parts = arn.split(":")
        is_arn = parts[0] == "arn" and parts[2:6:3] == ["lambda", "function"] and len(parts) > 6
        names = (arn, ":".join(parts[:7]), parts[6]) if is_arn else (arn,)
        return next((self._lambdas[name] for name in names if name in self._lambdas), None)

    def operations(self) -> Operations:
        """The operations of all rooms."""
        joined: dict[str, dict[str, Handler]] = {}
        for name in _ROOMS:
            room = import_module(f"orchestrator.server.{name}")
            for service, handlers in room.operations_of(self).items():
                joined.setdefault(service, {}).update(handlers)
        return joined

    def close(self) -> None:
        """Closes what was opened."""
        self._opened.close()

    def __enter__(self) -> Self:
        """The world itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()


def _close_if_closable(what: Any) -> None:
    close = getattr(what, "close", None)
    if close is not None:
        close()


def _resolve_handler(name: str, spec: str) -> str:
    from orchestrator.actions.handlers import check_function, handler_file

    file, _, function = spec.rpartition(":")
    if spec.endswith(".py"):
        file, function = spec, "lambda_handler"  # (AWS Lambda: the handler's usual name)
    if not file or not function.isidentifier():
        raise ValidationError(
            f"the Lambda function {name!r} has to be FILE or FILE:FUNCTION, such as "
            f"'claims.py:lambda_handler', not {spec!r}"
        )
    path = handler_file(file, None, f"handler of the Lambda function {name!r},")
    check_function(path, function)
    return f"{path}:{function}"
