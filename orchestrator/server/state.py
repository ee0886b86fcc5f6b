"""Everything that a worker process has open, and the operations of all packages over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.operations import Caller, Handler, Operations
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.settings import Settings

if TYPE_CHECKING:
    from orchestrator.models import Model
    from orchestrator.models.embeddings import Embedder


class ServerState:
    """What a worker process opens from its settings, once; safe for all of its threads.

    Files lie beside that of the sessions, under fixed names; without one all is in memory, and one
    process has it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        models: Mapping[str, Model] | None = None,
        lambdas: Mapping[str, Callable[..., Any]] | None = None,
        embedder: Embedder | str = "local",
    ) -> None:
        """Opens what a worker process needs.

        Args:
            settings: The settings of the server.
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
        self.settings = settings
        self.workbench = ""  # the workbench's address, with its token, while it is served
        self.redactor = self._make_redactor()
        self.embedder = embedder
        _check_folders(settings)
        with ExitStack() as opened:
            self._open(models or {}, lambdas or {}, opened)
            self._opened = opened.pop_all()

    def _make_redactor(self) -> PathRedactor:
        return PathRedactor()

    def _open(
        self,
        models: Mapping[str, Model],
        lambdas: Mapping[str, Callable[..., Any]],
        opened: ExitStack,
    ) -> None:
        from orchestrator.agent.validate import memory_store
        from orchestrator.memory import InMemoryMemory
        from orchestrator.server.agents.build import AgentResources
        from orchestrator.server.agents.cleanup import AgentCleanup
        from orchestrator.server.agents.recovery import TurnRecovery
        from orchestrator.server.agents.registry import Agents
        from orchestrator.server.document_store import DocumentStore
        from orchestrator.server.flows.service import FlowService
        from orchestrator.server.guardrails.store import GuardrailStore
        from orchestrator.server.ids import Arns
        from orchestrator.server.inference.models import Models
        from orchestrator.server.knowledge_bases.service import KnowledgeBaseService
        from orchestrator.server.lambdas import Lambdas
        from orchestrator.server.metrics import ServerMetrics
        from orchestrator.server.prompt_management.store import PromptStore
        from orchestrator.sessions import Sessions
        from orchestrator.support.encryption import get_cipher

        settings = self.settings
        functions = Lambdas(settings.lambdas, lambdas)
        self.documents = DocumentStore(settings.get_store("documents.sqlite"), cipher=get_cipher())
        opened.callback(_close_if_closable, self.documents)
        self.sessions = Sessions.of(settings.state)
        opened.callback(_close_if_closable, self.sessions.store)
        self.metrics = ServerMetrics()
        self.sessions.observers = (self.metrics,)
        self.memory = memory_store(None, settings.state) or InMemoryMemory()
        opened.callback(_close_if_closable, self.memory)
        self.models = Models(settings, models)
        arns = Arns.of(settings)
        self.prompts = PromptStore(self.documents, arns)
        self.guardrails = GuardrailStore(self.documents, arns, settings.guardrails, self.embedder)
        # Agents search knowledge bases, and agents in folders bring some: they are opened later.
        self.bases = KnowledgeBaseService(
            self.documents,
            settings,
            self.embedder,
            self.redactor,
            lambda: self.agents.folders.all(),
            # In a database, those of other machines are alive too.
            getattr(self.sessions.store, "processes", None) if settings.is_database else None,
        )
        opened.callback(self.bases.close)
        self.resources = AgentResources(
            *(settings, self.models, functions, self.bases, self.guardrails),
            *(self.sessions, self.memory, self.redactor),
        )
        self.agents = Agents(self.resources, self.documents)
        opened.callback(self.agents.close)
        self.recovery = TurnRecovery(self.agents, self.sessions, _callers_of(settings))
        self.cleanup = AgentCleanup(self.documents, self.sessions, self.memory)
        opened.callback(self.cleanup.close)
        self.flows = FlowService(self.documents, self.resources, self.prompts)
        opened.callback(self.flows.close)

    def operations(self) -> Operations:
        """The operations of all packages."""
        from orchestrator.server import (
            control,
            flows,
            guardrails,
            inference,
            knowledge_bases,
            prompt_management,
            runtime,
        )
        from orchestrator.server.runtime.sessions_api import SessionsApi

        sessions_api = SessionsApi(self.documents, self.settings)
        tags_of = {
            "flow": self.flows.store.tags,
            "knowledge-base": self.bases.tags,
            "prompt": self.prompts.tags,
            "session": sessions_api.tags,
        }
        joined: dict[str, dict[str, Handler]] = {}
        for operations in (
            control.operations_of(self.agents, self.cleanup, tags_of),
            flows.operations_of(self.flows),
            knowledge_bases.operations_of(self.bases),
            runtime.operations_of(self.agents, self.embedder),
            sessions_api.operations(),
            prompt_management.operations_of(self.prompts),
            guardrails.operations_of(self.guardrails),
            inference.operations_of(self.models, self.prompts, self.guardrails, self.agents.store),
        ):
            for service, handlers in operations.items():
                joined.setdefault(service, {}).update(handlers)
        return joined

    def on_close(self, work: Callable[[], None]) -> None:
        """Has something done before what is open is closed."""
        self._opened.callback(work)

    def close(self) -> None:
        """Closes what was opened."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_folders(settings: Settings) -> None:
    for name, folder in settings.buckets.items():
        if not folder.is_dir():
            raise ResourceNotFound(f"there is no folder {str(folder)!r} for bucket {name!r}")
    if settings.data is not None and not settings.is_database:
        raise ValidationError("indexes lie beside the file of --state: give --data for a database")
    if settings.data is not None and not settings.data.is_dir():
        raise ResourceNotFound(f"there is no folder {str(settings.data)!r} for indexes")
    file = settings.state_file
    if file is not None and not file.absolute().parent.is_dir():
        raise ResourceNotFound(f"there is no folder {str(file.parent)!r} for the state")


def _callers_of(settings: Settings) -> Callable[[], Sequence[Caller]]:
    if settings.keys is None:
        return lambda: [Caller()]
    from orchestrator.server.access.keys import Keys

    return Keys(settings.keys).list_callers


def _close_if_closable(store: Any) -> None:
    close = getattr(store, "close", None)
    if close is not None:
        close()
