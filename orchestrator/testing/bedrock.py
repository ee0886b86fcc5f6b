"""Amazon Bedrock within a test: a server in this process, boto3's clients, scripted models."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from orchestrator.definition import load_definition
from orchestrator.engine.results import ControlReturn
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.knowledge import KnowledgeBase
from orchestrator.models import Model, resolve_model
from orchestrator.models.base import ModelRequest
from orchestrator.models.scripted_model import Scripted, ScriptedModel
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.testing.stubs import Lambdas, TestWorld, with_model

Service = Literal["bedrock-agent-runtime", "bedrock-agent", "bedrock-runtime", "bedrock"]

_TEST_ALIAS = "TSTALIASID"
_SECONDS = 30.0  # for an agent to be prepared
_TICK = 0.01
_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What boto3 got from one InvokeAgent.

    Attributes:
        text: The answer; empty when control was returned.
        session_id: The session, to go on with.
        trace: The members `trace` of the stream's trace parts, in order: one of
            `preProcessingTrace`, `orchestrationTrace`, and so on in each.
        return_control: The calls that wait for the caller; `.answer({...})` makes the `results=`
            that `ask` goes on with.
        citations: The citations of the answer.
        files: The files that came with it: `name`, `type` and `bytes`.
        requests: What models were asked meanwhile, in order.
        events: The stream's events, as boto3 gave them.
    """

    text: str
    session_id: str
    trace: list[dict[str, Any]]
    return_control: ControlReturn | None
    citations: list[dict[str, Any]]
    files: list[dict[str, Any]]
    requests: list[ModelRequest]
    events: list[dict[str, Any]] = field(repr=False)

    def __str__(self) -> str:
        """The answer's text."""
        return self.text


@dataclass(frozen=True, slots=True)
class ServedAgent:
    """An agent of a test's server.

    Attributes:
        agent_id: Its id, for `invoke_agent(agentId=...)`.
        alias_id: The alias of its draft, for `invoke_agent(agentAliasId=...)`.
        model: The scripted model that answers for all of its models, if it was loaded with
            replies; `.requests` has what it was asked.
    """

    agent_id: str
    alias_id: str
    model: ScriptedModel | None
    _bedrock: BedrockAgents = field(repr=False, compare=False)

    def ask(self, question: str = "", session_id: str = "", **options: Any) -> Answer:
        """`BedrockAgents.ask` of this agent."""
        return self._bedrock.ask(self, question, session_id, **options)


class BedrockAgents:
    """A server in this process that boto3 takes for Amazon Bedrock; nothing leaves the machine.

    Attributes:
        url: Its address, for `boto3.client(..., endpoint_url=...)`.
        lambdas: What stands for Lambda functions: handlers of event and context, or
            `"<file>:<function>"`, by the functions' names or ARNs.
        knowledge_bases: Knowledge bases of AWS, by id: an object such as `FakeKnowledgeBase`.
        requests: What models were asked, in order.
        preparing_seconds: How long GetAgent says `PREPARING` after PrepareAgent; nothing unless it
            is set. PrepareAgent itself always says so.
    """

    url: str
    lambdas: Lambdas
    knowledge_bases: dict[str, KnowledgeBase]
    requests: list[ModelRequest]

    def __init__(self, folder: str | Path = ".", *, region: str = "") -> None:
        """Starts it, on a port that is free.

        Args:
            folder: What paths of agents and handlers are relative to.
            region: The region in ARNs; that of the environment, or us-east-1, when empty.

        Raises:
            ValidationError: No port can be used.
        """
        self._folder = Path(folder).resolve()
        region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
        settings = Settings(port=0, shutdown_seconds=0.0, region=region or _REGION)
        with ExitStack() as opened:
            self._world = opened.enter_context(TestWorld(settings, self._folder))
            self.lambdas = self._world.lambdas
            self.knowledge_bases = self._world.knowledge_bases
            self.requests = self._world.requests
            self.preparing_seconds = 0.0
            self.url = opened.enter_context(serve_in_thread(self._world))
            self._opened = opened.pop_all()

    @property
    def preparing_seconds(self) -> float:
        """How long GetAgent shows an agent as PREPARING; not at all unless it is set."""
        return self._world.agents.store.preparing_seconds

    @preparing_seconds.setter
    def preparing_seconds(self, seconds: float) -> None:
        self._world.agents.store.preparing_seconds = seconds

    def close(self) -> None:
        """Stops the server; turns that still run are left."""
        self._opened.close()

    def client(self, service: Service) -> Any:
        """A boto3 client of one of the four services, which does not try again."""
        # A retry would hide a failure that the test is about; a proxy would leave the machine.
        config = Config(retries={"total_max_attempts": 1}, proxies={})
        settings: dict[str, Any] = {"region_name": self._world.settings.region, "config": config}
        client = _get_session().client(service, endpoint_url=self.url, **settings)
        self._opened.callback(client.close)
        return client

    @cached_property
    def runtime(self) -> Any:
        """boto3's client of bedrock-agent-runtime: InvokeAgent and so on."""
        return self.client("bedrock-agent-runtime")

    @cached_property
    def control(self) -> Any:
        """boto3's client of bedrock-agent: CreateAgent and so on."""
        return self.client("bedrock-agent")

    @cached_property
    def models(self) -> Any:
        """boto3's client of bedrock-runtime: Converse and so on."""
        return self.client("bedrock-runtime")

    def script(
        self, model_id: str, replies: Iterable[Scripted], *, chunk: int = 0
    ) -> ScriptedModel:
        """Uses replies for a model id, in order, whoever asks.

        Args:
            model_id: The id, as agents and callers name it.
            replies: Texts, lists of Converse content blocks, or exceptions to raise.
            chunk: Characters of a streamed piece; 0 streams each reply's text whole.

        Returns:
            The model; `.requests` has what it was asked.
        """
        model = ScriptedModel(_check_replies(replies), model_id, chunk=chunk)
        self._world.scripts[model_id] = model
        return model

    def use(self, model_id: str, model: Model | str) -> None:
        """Uses a cassette, a custom model or a spec such as `"local"` for a model id."""
        self._world.scripts[model_id] = resolve_model(model)

    def load(
        self, folder: str | Path, replies: Iterable[Scripted] | None = None, *, chunk: int = 0
    ) -> ServedAgent:
        """Serves the agent of a folder.

        Args:
            folder: The folder, with its `agent.yaml`.
            replies: What its models answer, in order, its collaborators' too; without them each
                model has to be `scripted` by its id.
            chunk: Characters of a streamed piece; 0 streams each reply's text whole.

        Raises:
            DefinitionError: The definition is wrong, with file, line and column.
            ResourceNotFound: There is no such folder or file.
        """
        path = (self._folder / folder).resolve()
        resources, model = self._world.resources, None
        if replies is not None:
            model_id = load_definition(path).foundation_model or "scripted"
            model = ScriptedModel(_check_replies(replies), model_id, chunk=chunk)
            resources = with_model(self._world, model)
        found = self._world.agents.add_folder(path, resources)
        return ServedAgent(found.agent_id, _TEST_ALIAS, model, self)

    def create(
        self, *, action_groups: Sequence[Mapping[str, Any]] = (), **members: Any
    ) -> ServedAgent:
        """Makes an agent by the API, as a deployment does, and prepares it.

        Args:
            action_groups: Members of CreateAgentActionGroup, of each group.
            **members: Members of CreateAgent; `agentName` when it is left out is made up.

        Raises:
            ClientError: Something in it is wrong.
            DefinitionError: It could not be prepared, and why.
        """
        name = members.pop("agentName", f"agent-{uuid.uuid4().hex[:8]}")
        agent_id = self.control.create_agent(agentName=name, **members)["agent"]["agentId"]
        self._wait_for_status(agent_id, "NOT_PREPARED")
        for group in action_groups:
            self.control.create_agent_action_group(agentId=agent_id, agentVersion="DRAFT", **group)
        self.control.prepare_agent(agentId=agent_id)
        self._wait_for_status(agent_id, "PREPARED")
        return ServedAgent(agent_id, _TEST_ALIAS, None, self)

    def _wait_for_status(self, agent_id: str, wanted: str) -> None:
        # AWS: CreateAgent and PrepareAgent answer (202) before it is done; GetAgent has the status.
        until = time.monotonic() + _SECONDS
        while True:
            agent = self.control.get_agent(agentId=agent_id)["agent"]
            if agent["agentStatus"] == wanted:
                return
            if agent["agentStatus"] == "FAILED" or time.monotonic() > until:
                reasons = "; ".join(agent.get("failureReasons", ())) or agent["agentStatus"]
                raise DefinitionError(f"the agent {agent['agentName']!r} is not ready: {reasons}")
            time.sleep(_TICK)

    def ask(
        self,
        agent: ServedAgent | str,
        question: str = "",
        session_id: str = "",
        *,
        alias_id: str = _TEST_ALIAS,
        results: Mapping[str, Any] | None = None,
        **members: Any,
    ) -> Answer:
        """Invokes an agent with boto3, and reads the whole stream.

        Args:
            agent: The agent, or its id.
            question: The user's input.
            session_id: The session to go on with; a new one when empty.
            alias_id: The alias, where `agent` is an id.
            results: Results of a return of control, from `return_control.answer({...})`.
            **members: Other members of InvokeAgent, such as `sessionState` and `memoryId`.

        Raises:
            ClientError: The service refused the call.
            EventStreamError: The turn failed; what a handler raised is its cause.
        """
        if isinstance(agent, ServedAgent):
            agent_id, alias_id = agent.agent_id, agent.alias_id
        else:
            agent_id = agent
        # Bedrock takes results in place of a text, as part of the session state.
        if results is not None:
            members["sessionState"] = {**members.get("sessionState", {}), **results}
        elif question:
            members["inputText"] = question
        # The server's error has no exception of the handler: its own list has it, for `from`.
        before, raised = len(self.requests), len(self.lambdas.raised)
        try:
            response = self.runtime.invoke_agent(
                agentId=agent_id,
                agentAliasId=alias_id,
                sessionId=session_id or str(uuid.uuid4()),
                **{"enableTrace": True, **members},
            )
            with closing(response["completion"]) as stream:
                events = list(stream)
        except (ClientError, EventStreamError) as error:
            causes = self.lambdas.raised[raised:]
            raise error from (causes[-1] if causes else None)
        return _build_answer(response["sessionId"], events, self.requests[before:])


def _build_answer(
    session_id: str, events: list[dict[str, Any]], requests: list[ModelRequest]
) -> Answer:
    chunks = [event["chunk"] for event in events if "chunk" in event]
    controls = [event["returnControl"] for event in events if "returnControl" in event]
    handed = [ControlReturn(it["invocationId"], it["invocationInputs"]) for it in controls]
    return Answer(
        text=b"".join(it.get("bytes", b"") for it in chunks).decode(),
        session_id=session_id,
        trace=[event["trace"]["trace"] for event in events if "trace" in event],
        return_control=handed[0] if handed else None,
        citations=[one for it in chunks for one in it.get("attribution", {}).get("citations", ())],
        files=[one for event in events for one in event.get("files", {}).get("files", ())],
        requests=requests,
        events=events,
    )


def _check_replies(replies: Iterable[Scripted]) -> list[Scripted]:
    if isinstance(replies, str):  # which would be one reply a letter
        raise ValidationError(f"replies are a list: write [{replies[:40]!r}]")
    return list(replies)


@cache
def _get_session() -> boto3.Session:
    # One for all tests: it reads the services' models once.
    return boto3.Session("testing", "testing", region_name=_REGION)
