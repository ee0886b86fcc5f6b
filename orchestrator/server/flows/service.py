"""The flows of a worker process, and what their nodes may use in a caller's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from orchestrator.actions import Executor
from orchestrator.actions.parser_lambda import (
    ParserFunction,
    call_function,
    parser_function,
)
from orchestrator.agent.agent import Agent
from orchestrator.agent.bedrock_agent import BedrockAgent
from orchestrator.agent.source import optimize_model
from orchestrator.engine.trace.reply import TracePart, TurnEnd
from orchestrator.errors import (
    DefinitionError,
    DependencyFailed,
)
from orchestrator.flows.node_graph import FLOW_LIMITS, FlowAgent, FlowIdentity
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge.base import search
from orchestrator.limits import Limits
from orchestrator.models import Model
from orchestrator.server.access.permissions import check_access, check_retrieval
from orchestrator.server.buckets import read_uri, write_uri
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.flows.store import FlowStore, PreparedFlow
from orchestrator.server.operations import Caller, Request
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.prompt_management.converse import check_variant
from orchestrator.server.prompt_management.store import PromptStore
from orchestrator.server.runtime.generate import GenerationAgents
from orchestrator.server.wire.shapes import get_converter
from orchestrator.support.aws.clients import ALIAS_ARN
from orchestrator.support.lru_cache import LruCache
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from orchestrator.server.agents.build import AgentResources

_MOST_FUNCTIONS = 64

Data = Mapping[str, Any]


class FlowService:
    """Flows, and what all runs of them share. Safe for many threads."""

    def __init__(
        self, documents: DocumentStore, resources: AgentResources, prompts: PromptStore
    ) -> None:
        self.store = FlowStore(documents, resources.arns)
        self.resources = resources
        self.generation = GenerationAgents(resources)
        self.prompts = prompts
        self._functions: LruCache[ParserFunction] = LruCache(_MOST_FUNCTIONS)
        self._interpreter: Executor | None = None
        self._lock = Lock()
        self._work: set[Future[None]] = set()
        self._stops: dict[str, Callable[[], None]] = {}

    def close(self) -> None:
        """Stops what runs in the background, and closes the sandbox."""
        with self._lock:
            stops, work = list(self._stops.values()), list(self._work)
        for stop in stops:
            stop()
        close = getattr(self._interpreter, "close", None)
        if close is not None:
            close()
        # A node that still waits for something is not waited for.
        wait(work, self.resources.settings.shutdown_seconds)

    def run_in_background(
        self, id: str, stop: Callable[[], None], work: Callable[[], None]
    ) -> None:
        """Starts work that nobody waits for, that handles its own errors, and that can be stopped.

        `id` names it for `stop_work`.
        """
        with self._lock:
            self._stops[id] = stop
            started = in_thread(work)
            self._work.add(started)
        started.add_done_callback(partial(self._forget, id))

    def _forget(self, id: str, started: Future[None]) -> None:
        with self._lock:
            self._stops.pop(id, None)
            self._work.discard(started)

    def stop_work(self, id: str) -> None:
        """Stops work of this process, if it has begun it."""
        with self._lock:
            stop = self._stops.get(id)
        if stop is not None:
            stop()

    def get_limits(self, prepared: PreparedFlow) -> Limits:
        """The budgets of a run."""
        parallel = prepared.parallel or FLOW_LIMITS.parallel
        return replace(FLOW_LIMITS, seconds=self.resources.settings.turn_seconds, parallel=parallel)

    def build_identity(
        self, prepared: PreparedFlow, execution_id: str, tenant: str
    ) -> FlowIdentity:
        """Whose run it is."""
        arns = self.store.arns
        alias_arn = arns.flow_alias(prepared.flow_id, prepared.alias_id)
        return FlowIdentity(arns.flow(prepared.flow_id), alias_arn, execution_id, tenant)

    def find_function(self, code: Any) -> ParserFunction:
        """The function of an ARN, a handler file or a callable: one for all runs."""
        build = partial(parser_function, code, what="function")
        return self._functions.get(code, build) if isinstance(code, str) else build()

    def code_interpreter(self) -> Executor:
        """The sandbox of inline code, which all flows share; made when it is first used.

        Raises:
            DependencyFailed: There is none for this platform.
        """
        from orchestrator.actions.code_interpreter import CodeInterpreter

        with self._lock:
            if self._interpreter is None:
                try:
                    self._interpreter = CodeInterpreter()
                except DefinitionError as error:
                    raise DependencyFailed(error.message) from error
            return self._interpreter


class CallerServices:
    """What the nodes of a caller's flow use, as far as the caller may; a `FlowServices`."""

    def __init__(self, flows: FlowService, caller: Caller, *, optimized: bool = False) -> None:
        self._flows, self._caller = flows, caller
        self._resources = flows.resources
        self._optimized = optimized  # whether models are to be latency-optimised

    def find_model(self, model_id: str) -> Model:
        """See `FlowServices`."""
        model = self._resources.models.model(self._caller, model_id)
        return optimize_model(model) if self._optimized else model

    def find_prompt(self, arn: str) -> Data:
        """See `PromptResolver`."""
        variant = self._flows.prompts.find_variant(self._caller, arn)
        check_variant(variant, arn)
        return variant

    def find_guardrail(self, id: str, version: str) -> Guardrail:
        """See `FlowServices`."""
        return self._resources.guardrails.guardrail(self._caller, id, version)

    def find_agent(self, alias_arn: str) -> FlowAgent:
        """See `FlowServices`."""
        found = ALIAS_ARN.fullmatch(alias_arn)
        if found is None or found.group("region", "account") != self._resources.arns:
            check_access(self._caller, alias_arn)
            return _RemoteAgent(BedrockAgent(alias_arn))
        agent = self._resources.find_agent(self._caller, found["agent"], found["alias"])
        return _ServedAgent(agent, self._resources.redactor)

    def retrieve(self, id: str, query: str, configuration: Data) -> list[Any]:
        """See `FlowServices`."""
        check_retrieval(self._caller, configuration)
        found = search(self._resources.bases.base(self._caller, id), query, configuration)
        results: list[Any] = get_converter("KnowledgeBaseRetrievalResults")(found)
        return results

    def generate(self, query: str, configuration: Data) -> str:
        """See `FlowServices`."""
        params = {
            "input": {"text": query},
            "retrieveAndGenerateConfiguration": {
                "type": "KNOWLEDGE_BASE",
                "knowledgeBaseConfiguration": configuration,
            },
        }
        request = Request("bedrock-agent-runtime", "RetrieveAndGenerate", params, self._caller)
        agent = self._flows.generation.agent(request)
        question = self._flows.generation.question(request, query, [])
        return agent.invoke(question, str(uuid4())).text

    def invoke_function(self, arn: str, event: dict[str, Any]) -> Any:
        """See `FlowServices`."""
        check_access(self._caller, arn)
        function = self._flows.find_function(self._resources.lambdas.find(arn) or arn)

        def build_failure(what: str) -> DependencyFailed:
            return DependencyFailed(f"the function {arn!r} {what}", resource=arn)

        return call_function(function, event, build_failure)

    def read_object(self, bucket: str, key: str, most: int) -> bytes:
        """See `FlowServices`."""
        return read_uri(
            f"s3://{bucket}/{key}", self._caller, self._resources.settings.buckets, most
        )

    def write_object(self, bucket: str, key: str, content: bytes) -> None:
        """See `FlowServices`."""
        buckets = self._resources.settings.buckets
        write_uri(f"s3://{bucket}/{key}", self._caller, buckets, content)

    def code_interpreter(self) -> Executor:
        """See `FlowServices`."""
        return self._flows.code_interpreter()


class _ServedAgent:
    """An agent of this server; a `FlowAgent`."""

    def __init__(self, agent: Agent, redactor: PathRedactor) -> None:
        self._agent, self._redactor = agent, redactor

    def ask(self, text: str, session_id: str, state: Data) -> Iterator[Any]:
        with closing(self._agent.stream(text, session_id, session_state=state)) as events:
            for event in events:
                if isinstance(event, TracePart):
                    part = self._redactor.redact_trace_part(event.part)
                    yield get_converter("TracePart")(part)
                elif isinstance(event, TurnEnd):
                    yield event.reply


class _RemoteAgent:
    """An agent of Amazon Bedrock; a `FlowAgent`."""

    def __init__(self, agent: BedrockAgent) -> None:
        self._agent = agent

    def ask(self, text: str, session_id: str, state: Data) -> Iterator[Any]:
        of_session = state.get("sessionAttributes") or {}
        of_prompt = state.get("promptSessionAttributes") or {}
        reply = self._agent.invoke(text, session_id, of_session, of_prompt)
        yield from map(get_converter("TracePart"), reply.trace)
        yield _RemoteTurn(reply.text)


class _RemoteTurn:
    # InvokeAgent does not say whether an answer is a question to the user.
    stop_reason = "end_turn"

    def __init__(self, text: str) -> None:
        self.text = text
