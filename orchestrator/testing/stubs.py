"""What stands in a test's server for models, Lambda functions and knowledge bases of AWS."""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from inspect import isawaitable
from pathlib import Path
from typing import Any, cast

from orchestrator.actions.handler_files import HANDLER, check_handler, handler_file
from orchestrator.actions.handler_modules import HandlerModule
from orchestrator.errors import (
    DependencyFailed,
    ModelOutputError,
    OrchestratorError,
    ResourceNotFound,
)
from orchestrator.knowledge import KnowledgeBase
from orchestrator.knowledge.settings import check
from orchestrator.models import Model
from orchestrator.models.base import ModelReply, ModelRequest
from orchestrator.server.agents.build import AgentResources
from orchestrator.server.inference.models import Models
from orchestrator.server.knowledge_bases.index import Index
from orchestrator.server.knowledge_bases.service import CallerKnowledgeBase, KnowledgeBaseService
from orchestrator.server.lambdas import LambdaCode
from orchestrator.server.lambdas import Lambdas as ServerLambdas
from orchestrator.server.operations import Caller, Fault
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.support.user_code import HiddenCause

Handler = Callable[..., Any]

_NAME = re.compile(r"arn:aws[a-z-]*:lambda:[^:]*:[^:]*:function:([^:]+)(?::[^:]+)?")


class Lambdas(UserDict[str, Handler]):
    """Handlers of event and context, by names or ARNs of the Lambda functions they stand for.

    A handler may also be a text `"<file>:<function>"`.

    Attributes:
        raised: What handlers raised, in order, those in files of agents too while errors keep
            their causes (`ORCHESTRATOR_DEBUG`): the server's answer has only its type and place.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.raised: list[Exception] = []
        super().__init__()

    def __setitem__(self, name: str, handler: Handler | str) -> None:
        """Uses a handler for a function.

        Raises:
            DefinitionError: There is no such file, or no such function in it, or the handler takes
                other arguments than the event and the context.
        """
        found = handler if callable(handler) else self._load_handler(handler)
        HANDLER.check(found)
        self.data[name] = found

    def _load_handler(self, spec: str) -> Handler:
        path, _, function = spec.rpartition(":")
        file = handler_file(self._folder / path, None, "handler")
        check_handler(file, function)
        handler: Handler = getattr(HandlerModule(file).load(), function)
        return handler

    def find_handler(self, arn: str) -> Handler | None:
        """The handler of a function that is named by its ARN, also with a version or alias."""
        # AWS: "Lambda function ARN": the eighth field is a version or an alias.
        named = _NAME.fullmatch(arn)
        places = (arn, ":".join(arn.split(":")[:7]), named[1] if named else "")
        return next((self.data[it] for it in places if it in self.data), None)

    def get_stub(self, arn: str) -> Handler:
        """A handler that calls what stands for the function then: tests write and replace it."""
        return _LateBoundHandler(self, arn)

    def call(self, handler: Handler, event: Any, context: Any) -> Any:
        """What a handler returns; what it raises is in `raised`."""
        with self._record_errors():
            returned = handler(event, context)
        return self._await_result(returned) if isawaitable(returned) else returned

    async def _await_result(self, returned: Awaitable[Any]) -> Any:
        with self._record_errors():
            return await returned

    @contextmanager
    def _record_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.raised.append(error)
            raise


class _LateBoundHandler:
    def __init__(self, lambdas: Lambdas, arn: str) -> None:
        self._lambdas, self._arn = lambdas, arn

    @property
    def __wrapped__(self) -> Handler:
        # Where the place of an error is looked for (`inspect.unwrap`).
        found = self._lambdas.find_handler(self._arn)
        if found is None:
            raise AttributeError("__wrapped__")
        return found

    @property
    def __name__(self) -> str:
        found = self.__wrapped__
        return str(getattr(found, "__name__", type(found).__name__))

    def __call__(self, event: Any, context: Any) -> Any:
        handler = self._lambdas.find_handler(self._arn)
        if handler is None:
            name = (_NAME.fullmatch(self._arn) or ("", self._arn))[1]
            raise DependencyFailed(
                f"nothing stands for the Lambda function {self._arn!r} in this test; write "
                f"`bedrock_agents.lambdas[{name!r}] = handler`",
                resource=self._arn,
            )
        return self._lambdas.call(handler, event, context)


class TestWorld(ServerState):
    """What a test's server has open: nothing of AWS.

    Attributes:
        lambdas: What stands for Lambda functions.
        scripts: Models by the ids that they answer for.
        knowledge_bases: Knowledge bases by their ids.
        requests: What models were asked, in order.
    """

    __test__ = False  # for pytest, which looks at names

    def __init__(self, settings: Settings, folder: Path) -> None:
        from orchestrator.testing import FakeEmbedder

        self.lambdas = Lambdas(folder)
        super().__init__(settings, embedder=FakeEmbedder())
        self.scripts: dict[str, Model] = {}
        self.knowledge_bases: dict[str, KnowledgeBase] = {}
        self.requests: list[ModelRequest] = []
        resources = self.resources
        resources.models = self.models = _Models(
            settings, lambda id: _LateBoundModel(id, lambda: self._find_script(id), self.requests)
        )
        resources.lambdas = _StubbedLambdas(self.lambdas)
        resources.bases = self.bases = cast(
            KnowledgeBaseService, _TestBases(self.bases, self.knowledge_bases)
        )

    def _make_redactor(self) -> PathRedactor:
        return _RecordingRedactor(self.lambdas.raised)

    def _find_script(self, model_id: str) -> Model:
        found = self.scripts.get(model_id)
        if found is None:
            raise ModelOutputError(
                f"nothing answers for the model {model_id!r} in this test; write "
                f"`bedrock_agents.script({model_id!r}, [...])`",
                code="NO_SCRIPT",
            )
        return found


# Handlers and parsers in files of an agent are called by the agent itself: what they raised is only
# known as the cause of the turn's failure.
class _RecordingRedactor(PathRedactor):
    def __init__(self, raised: list[Exception]) -> None:
        self._raised = raised

    def as_fault(self, error: BaseException, request_id: str) -> Fault:
        cause: BaseException | None = error
        while isinstance(cause, OrchestratorError):
            cause = cause.__cause__
        if (
            isinstance(error, DependencyFailed)
            and isinstance(cause, Exception)
            and not isinstance(cause, HiddenCause)
            and not any(cause is it for it in self._raised)
        ):
            self._raised.append(cause)
        return super().as_fault(error, request_id)


def with_model(world: TestWorld, model: Model) -> AgentResources:
    """The resources of a world, where one model answers for all."""
    asked = _LateBoundModel(model.model_id, lambda: model, world.requests)
    return replace(
        world.resources,
        settings=replace(world.settings, model=model.model_id),
        models=_Models(world.settings, lambda _: asked),
    )


# A test may prepare an agent before it sets the handlers: every function exists for the server.
class _StubbedLambdas(ServerLambdas):
    def __init__(self, lambdas: Lambdas) -> None:
        super().__init__({})
        self._lambdas = lambdas

    def find(self, arn: str) -> LambdaCode | None:
        return self._lambdas.get_stub(arn)


# Agents are built with their models, and a test may script a model only afterwards: so a model is
# looked up by its id when it is asked.
class _Models(Models):
    def __init__(self, settings: Settings, find: Callable[[str], Model]) -> None:
        super().__init__(settings)
        self._find = find

    def model(self, caller: Caller, model_id: str) -> Model:
        if model_id.startswith(("scripted:", "replay:")):
            # A definition's own file answers.
            return super().model(caller, model_id)
        return self._find(model_id)


class _LateBoundModel(Model):
    def __init__(
        self, model_id: str, find: Callable[[], Model], requests: list[ModelRequest]
    ) -> None:
        self.model_id = model_id
        self._find = find
        self._requests = requests

    def _record_and_find(self, request: ModelRequest) -> Model:
        self._requests.append(request)
        return self._find()

    def complete(self, request: ModelRequest) -> ModelReply:
        return self._record_and_find(request).complete(request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        return self._record_and_find(request).stream(request)

    def count(self, request: ModelRequest) -> int | None:
        return self._find().count(request)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        return await self._record_and_find(request).acomplete(request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        stream = self._record_and_find(request).astream(request)
        async with aclosing(stream):  # type: ignore[type-var]
            async for item in stream:
                yield item


# Wraps the service and is no subclass of it: ids that the test does not set are the server's own.
class _TestBases:
    def __init__(self, bases: KnowledgeBaseService, first: Mapping[str, KnowledgeBase]) -> None:
        self._bases = bases
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bases, name)

    def base(
        self,
        caller: Caller,
        id: str,
        description: str = "",
        configuration: Mapping[str, Any] | None = None,
    ) -> KnowledgeBase:
        check(configuration or {})
        bases: Any = self  # which finds anew for each search, as the service does
        return CallerKnowledgeBase(bases, caller, id, description, dict(configuration or {}))

    def find(self, caller: Caller, id: str) -> Callable[[], KnowledgeBase | Index]:
        if id in self._first:
            return lambda: self._first[id]
        # A caller without `allow` has no way to AWS: only knowledge bases of this server are found.
        try:
            self._bases.find(replace(caller, allow=()), id)
        except ResourceNotFound:
            return lambda: _MissingKnowledgeBase(id)
        return self._bases.find(caller, id)


# The error comes when the agent searches, since an agent that never does may name any id.
class _MissingKnowledgeBase:
    def __init__(self, id: str) -> None:
        self.id = id
        self.description = ""

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        raise ResourceNotFound(
            f"there is no knowledge base {self.id!r} in this test; write "
            f"`bedrock_agents.knowledge_bases[{self.id!r}] = FakeKnowledgeBase({self.id!r}, [...])`"
        )
