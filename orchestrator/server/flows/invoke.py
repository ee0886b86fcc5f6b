"""InvokeFlow: runs a flow, and streams its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.flows.node_graph import FlowRun, RunState, read_definition
from orchestrator.server.flows.service import CallerServices, FlowService
from orchestrator.server.flows.store import CONVERSATION, PreparedFlow
from orchestrator.server.operations import EventStream, Request, StreamEvent
from orchestrator.server.runtime.invoke import is_optimized, run_blocking, start_stream
from orchestrator.support.threads import in_thread

_TRACE = "flowTraceEvent"
_MOST_WAITING = 1_000  # runs of one flow that wait for the user; the oldest are forgotten

Data = Mapping[str, Any]


async def invoke(flows: FlowService, request: Request) -> EventStream:
    """InvokeFlow. What is wrong with the call is raised here; what fails later ends the events."""
    invocation = await run_blocking(open_invocation, flows, request)
    stream = _stream(invocation, bool(request.params.get("enableTrace")))
    return EventStream(await start_stream(stream), {"executionId": invocation.execution_id})


@dataclass(slots=True)
class Invocation:
    """One call: a flow, where it begins or goes on, and what the user answered."""

    flows: FlowService
    request: Request
    prepared: PreparedFlow
    execution_id: str
    state: RunState
    answers: Mapping[str, str]

    def build_run(self, send: Callable[[StreamEvent], None]) -> FlowRun:
        """The run of the flow."""
        caller, params = self.request.caller, self.request.params
        optimized = is_optimized(params.get("modelPerformanceConfiguration"))
        return FlowRun(
            read_definition(self.prepared.members.get("definition") or {}),
            CallerServices(self.flows, caller, optimized=optimized),
            self.flows.build_identity(self.prepared, self.execution_id, caller.tenant),
            send,
            limits=self.flows.get_limits(self.prepared),
        )

    def run(self, run: FlowRun) -> None:
        """Runs it to its end, or to a question; then it is stored, for the answer."""
        before = self.state.to_json()
        try:
            ended = run.run(self.state, self.answers)
        except BaseException:
            # The same answer may be sent again.
            if self.answers:
                self._store(before)
            raise
        if not ended:
            self._store(self.state.to_json())

    def _store(self, state: Data) -> None:
        documents, tenant = self.flows.store.documents, self.request.caller.tenant
        parent = self.prepared.flow_id
        body = {
            "alias": self.prepared.alias_id,
            "version": self.prepared.version,
            "members": self.prepared.members,
            "state": state,
        }
        with documents.transaction():
            if documents.count(tenant, CONVERSATION, parent) >= _MOST_WAITING:
                oldest = documents.all(tenant, CONVERSATION, parent)[0]
                documents.delete(tenant, CONVERSATION, oldest["id"], parent)
            id = self.execution_id
            documents.put(tenant, CONVERSATION, id, {**body, "id": id}, parent)


def open_invocation(flows: FlowService, request: Request) -> Invocation:
    """Reads a call of InvokeFlow.

    Raises:
        Fault: There is no such flow or alias.
        ValidationError: The flow is not prepared, or the input is for no node that takes one.
        ResourceNotFound: No run of this id waits for the user.
    """
    params = request.params
    prepared = flows.store.find_prepared(request.caller, params)
    given = params["inputs"][0]
    document = (given.get("content") or {}).get("document")
    if "content" in given and "document" not in given["content"]:
        raise ValidationError("the input's content has no document")
    if given["nodeName"] == find_input_node(prepared):
        check_input(given)
        id = params.get("executionId") or str(uuid4())
        return Invocation(flows, request, prepared, id, RunState(document), {})
    return _open_answer(flows, request, prepared, given, document)


def find_input_node(prepared: PreparedFlow) -> str:
    """The name of a flow's Input node."""
    nodes = (prepared.members.get("definition") or {}).get("nodes") or ()
    return next((it["name"] for it in nodes if it["type"] == "Input"), "")


def check_input(given: Data) -> None:
    """Checks an input to a flow's Input node.

    Raises:
        ValidationError: It is for an output that there is not.
    """
    if given.get("nodeOutputName", "document") != "document":
        raise ValidationError(
            f"the Input node {given['nodeName']!r} has the output 'document', and no "
            f"{given['nodeOutputName']!r}"
        )


def _open_answer(
    flows: FlowService, request: Request, prepared: PreparedFlow, given: Data, answer: Any
) -> Invocation:
    """A run that waits for the user, with the answer; it is the call's own from here on."""
    id, name = request.params.get("executionId"), given["nodeName"]
    if id is None:
        raise ValidationError(
            f"a flow begins at its Input node {find_input_node(prepared)!r}, and not at {name!r}; "
            "an answer to an agent's question comes with the executionId of its run"
        )
    if not isinstance(answer, str):
        raise ValidationError("the answer to an agent's question is a text")
    documents, tenant = flows.store.documents, request.caller.tenant
    with documents.transaction():
        found = documents.get(tenant, CONVERSATION, id, prepared.flow_id)
        if found is None or found["alias"] != prepared.alias_id:
            raise ResourceNotFound(
                f"no run {id!r} of the flow {prepared.flow_id!r} waits for the user; it may have "
                "been answered already"
            )
        state = RunState(**found["state"])
        key = _find_question(state, name)
        documents.delete(tenant, CONVERSATION, id, prepared.flow_id)
    # What waits goes on as it began, whatever the alias leads to now.
    kept = prepared._replace(version=found["version"], members=found["members"])
    return Invocation(flows, request, kept, id, state, {key: answer})


def _find_question(state: RunState, node: str) -> str:
    """The key of a node that waits for the user."""
    for key in state.waiting:
        if key.rpartition("/")[2] == node:
            return key
    waiting = ", ".join(sorted(it.rpartition("/")[2] for it in state.waiting))
    raise ValidationError(f"the node {node!r} does not wait for the user; there waits {waiting}")


async def _stream(invocation: Invocation, with_trace: bool) -> AsyncGenerator[StreamEvent, None]:
    """The events of a run in a thread; closing the generator stops it."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[StreamEvent | BaseException | None] = asyncio.Queue()

    def send(event: StreamEvent | BaseException | None) -> None:
        # Nobody listens on a closed loop.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(events.put_nowait, event)

    def work() -> None:
        try:
            invocation.run(run)
            send(None)
        except BaseException as error:
            send(error)  # raised again in the task that reads

    run = invocation.build_run(send)
    try:
        # The empty first item is for `start_stream`.
        yield "", {}
        in_thread(work, at_once=False)
        while (event := await events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            if with_trace or event[0] != _TRACE:
                yield event
    finally:
        run.stop()
