"""Executions of flows in the background: started, watched, listed and stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import uuid4

from orchestrator.errors import (
    DependencyFailed,
    LimitExceeded,
    ModelOutputError,
    OrchestratorError,
    ValidationError,
)
from orchestrator.flows.node_graph import FlowRun, RunState
from orchestrator.flows.node_graph.run import RunStopped
from orchestrator.server.document_store import render_page
from orchestrator.server.flows.flow_handlers import page_size
from orchestrator.server.flows.invoke import Invocation, check_input, find_input_node
from orchestrator.server.flows.service import FlowService
from orchestrator.server.flows.store import EVENT, EXECUTION, PreparedFlow, build_event_parent
from orchestrator.server.ids import now
from orchestrator.server.operations import (
    Caller,
    Fault,
    Request,
    StreamEvent,
    conflict_error,
    not_found_error,
    pick,
)
from orchestrator.server.wire.faults import log_failure

_MOST_KEPT = 200  # executions of one flow; the oldest that have ended are forgotten
_RUNNING = "Running"
_SUMMARY = (
    *("executionArn", "flowAliasIdentifier", "flowIdentifier", "flowVersion", "status"),
    *("createdAt", "endedAt"),
)
_SHOWN = (
    *("executionArn", "flowAliasIdentifier", "flowIdentifier", "flowVersion", "status"),
    *("startedAt", "endedAt", "errors"),
)
_ENDED = "the server was stopped before the execution had ended; start it again"
# Traces of InvokeFlow, as events of executions.
_NODE_EVENTS = {
    "nodeInputTrace": "nodeInputEvent",
    "nodeOutputTrace": "nodeOutputEvent",
    "conditionNodeResultTrace": "conditionResultEvent",
    "nodeActionTrace": "nodeActionEvent",
    "nodeDependencyTrace": "nodeDependencyEvent",
}

Data = Mapping[str, Any]


def _start(flows: FlowService, request: Request) -> Data:
    """StartFlowExecution."""
    params, caller = request.params, request.caller
    store, documents = flows.store, flows.store.documents
    prepared = store.find_prepared(caller, params)
    given = params["inputs"][0]
    _check_start(prepared.members.get("definition") or {}, given, find_input_node(prepared))
    id = params.get("flowExecutionName") or str(uuid4())
    arn = store.arns.flow_execution(prepared.flow_id, prepared.alias_id, id)
    at = now()
    record = {
        "id": id,
        "executionArn": arn,
        "flowIdentifier": prepared.flow_id,
        "flowAliasIdentifier": prepared.alias_id,
        "flowVersion": prepared.version,
        "status": _RUNNING,
        "createdAt": at,
        "startedAt": at,
        "members": prepared.members,
        "process": flows.resources.bases.living.me,
    }
    with documents.transaction():
        if documents.get(caller.tenant, EXECUTION, id, prepared.flow_id) is not None:
            raise conflict_error(f"the flow has an execution {id!r} already; give another name")
        _delete_oldest(flows, caller, prepared.flow_id)
        documents.put(caller.tenant, EXECUTION, id, record, prepared.flow_id)
    state = RunState(given["content"].get("document"))
    invocation = Invocation(flows, request, prepared, id, state, {})
    execution = _Execution(flows, caller, invocation)
    flows.run_in_background(arn, execution.stop, execution.run)
    return {"executionArn": arn}


def _check_start(definition: Data, given: Data, input_node: str) -> None:
    if given["nodeName"] != input_node:
        raise ValidationError(
            f"a flow begins at its Input node {input_node!r}, and not at {given['nodeName']!r}"
        )
    check_input(given)
    for node in _iterate_nodes(definition):
        if node["type"] == "InlineCode":
            raise ValidationError(
                f"the node {node['name']!r} of the type InlineCode cannot be part of an execution; "
                "use a LambdaFunction node, or InvokeFlow"
            )


def _iterate_nodes(definition: Data) -> Iterator[Data]:
    for node in definition.get("nodes") or ():
        yield node
        loop = (node.get("configuration") or {}).get("loop")
        if loop:
            yield from _iterate_nodes(loop["definition"])


def _delete_oldest(flows: FlowService, caller: Caller, flow_id: str) -> None:
    """Forgets the oldest execution that has ended, when there are too many."""
    documents, tenant = flows.store.documents, caller.tenant
    if documents.count(tenant, EXECUTION, flow_id) < _MOST_KEPT:
        return
    for one in documents.all(tenant, EXECUTION, flow_id):
        if one["status"] != _RUNNING:
            flows.store.remove_execution(caller, flow_id, one["id"])
            return
    raise Fault(
        "ServiceQuotaExceededException",
        f"{_MOST_KEPT} executions of the flow run already; wait for one's end, or stop one",
    )


@dataclass(slots=True)
class _Execution:
    """One execution, as it runs."""

    flows: FlowService
    caller: Caller
    invocation: Invocation
    _run: FlowRun = field(init=False)
    _places: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._run = self.invocation.build_run(self._record)

    def stop(self) -> None:
        """Ends it before its next node."""
        self._run.stop()

    def run(self) -> None:
        """Runs it to its end, whatever that is."""
        try:
            document = self.invocation.state.document
            self._store_flow_event("flowInputEvent", find_input_node(self._flow), document)
            if self._run.run(self.invocation.state):
                self._end("Succeeded")
            else:
                self._fail(
                    ValidationError(
                        "an agent asks the user, which only InvokeFlow can answer: "
                        f"{next(iter(self.invocation.state.waiting.values()))!r:.300}"
                    )
                )
        except RunStopped:
            self._end("Aborted")
        except (OrchestratorError, Fault) as error:
            self._fail(error)
        except Exception as error:
            log_failure(error, f"for the execution {self.invocation.execution_id!r}")
            self._fail(Fault("InternalServerException", "something went wrong in the server"))

    @property
    def _flow(self) -> PreparedFlow:
        return self.invocation.prepared

    def _record(self, event: StreamEvent) -> None:
        """Stores an event of the run."""
        name, members = event
        if name == "flowTraceEvent":
            ((kind, trace),) = members["trace"].items()
            self._store_event("Node", _NODE_EVENTS[kind], _convert_trace(trace))
        elif name == "flowOutputEvent":
            self._store_flow_event(
                "flowOutputEvent", members["nodeName"], members["content"]["document"]
            )

    def _store_flow_event(self, kind: str, node: str, document: Any) -> None:
        fields = [{"name": "document", "content": {"document": document}}]
        self._store_event("Flow", kind, {"nodeName": node, "timestamp": now(), "fields": fields})

    def _store_event(self, type: str, kind: str, members: Data) -> None:
        documents, tenant = self.flows.store.documents, self.caller.tenant
        flow_id, id = self._flow.flow_id, self.invocation.execution_id
        with documents.transaction():
            record = documents.get(tenant, EXECUTION, id, flow_id)
            if record is None or record["status"] != _RUNNING:
                # It was stopped by another process, or its flow was deleted.
                self._run.stop()
                return
            place = f"{next(self._places):08}"
            parent = build_event_parent(flow_id, id, type)
            documents.put(tenant, EVENT, place, {kind: members}, parent)

    def _fail(self, error: OrchestratorError | Fault) -> None:
        message = self.flows.resources.redactor.redact(error.message)
        node = self._run.failed_node
        common = {"timestamp": now(), "errorMessage": message}
        if node:
            code = _get_error_code(error)
            members = {**common, "nodeName": node, "errorCode": code}
            self._store_event("Node", "nodeFailureEvent", members)
        code = "NODE_EXECUTION_FAILED" if node else _get_flow_code(error)
        self._store_event("Flow", "flowFailureEvent", {**common, "errorCode": code})
        if isinstance(error, LimitExceeded) and error.limit == "seconds":
            timeout: dict[str, Any] = {"error": "ExecutionTimedOut", "message": message}
            self._end("TimedOut", [{**timeout, **({"nodeName": node} if node else {})}])
        else:
            self._end("Failed")

    def _end(self, status: str, errors: list[dict[str, Any]] | None = None) -> None:
        documents, tenant = self.flows.store.documents, self.caller.tenant
        flow_id, id = self._flow.flow_id, self.invocation.execution_id
        with documents.transaction():
            record = documents.get(tenant, EXECUTION, id, flow_id)
            if record is not None and record["status"] == _RUNNING:
                record |= {"status": status, "endedAt": now()}
                record |= {"errors": errors} if errors else {}
                documents.put(tenant, EXECUTION, id, record, flow_id)


def _convert_trace(trace: dict[str, Any]) -> dict[str, Any]:
    """The members of a trace, as an event of an execution has them."""
    if "fields" not in trace:
        return trace
    return {**trace, "fields": [_rename(it) for it in trace["fields"]]}


def _rename(members: dict[str, Any]) -> dict[str, Any]:
    renamed = {"nodeInputName": "name", "nodeOutputName": "name"}
    return {renamed.get(name, name): value for name, value in members.items()}


def _get_error_code(error: OrchestratorError | Fault) -> str:
    """Bedrock's NodeErrorCode."""
    if isinstance(error, DependencyFailed | ModelOutputError):
        return "DEPENDENCY_FAILED"
    internal = isinstance(error, Fault) and error.name == "InternalServerException"
    return "INTERNAL_SERVER" if internal else "VALIDATION"


def _get_flow_code(error: OrchestratorError | Fault) -> str:
    """Bedrock's FlowErrorCode, of what no node has failed in."""
    code = _get_error_code(error)
    return "INTERNAL_SERVER" if code == "DEPENDENCY_FAILED" else code


# What is shown of them


def _find(flows: FlowService, request: Request) -> dict[str, Any]:
    """An execution; one whose process has ended will not go on, and has failed."""
    params, caller, store = request.params, request.caller, flows.store
    flow_id = store.read_id(params["flowIdentifier"])
    alias_id = store.read_id(params["flowAliasIdentifier"], "alias")
    id = store.read_id(params["executionIdentifier"], "execution")
    store.flow(caller, flow_id)
    record = _settle(flows, caller, flow_id, id)
    if record is None or record["flowAliasIdentifier"] != alias_id:
        raise not_found_error(f"execution of the flow {flow_id!r}", id)
    return record


def _settle(flows: FlowService, caller: Caller, flow_id: str, id: str) -> dict[str, Any] | None:
    documents, tenant = flows.store.documents, caller.tenant
    with documents.transaction():
        record = documents.get(tenant, EXECUTION, id, flow_id)
        if record is None or record["status"] != _RUNNING:
            return record
        if flows.resources.bases.living.is_alive(record["process"]):
            return record
        at = now()
        failure = {"timestamp": at, "errorCode": "INTERNAL_SERVER", "errorMessage": _ENDED}
        parent = build_event_parent(flow_id, id, "Flow")
        documents.put(tenant, EVENT, "ended", {"flowFailureEvent": failure}, parent)
        record |= {"status": "Failed", "endedAt": at}
        documents.put(tenant, EXECUTION, id, record, flow_id)
    return record


def _get(flows: FlowService, request: Request) -> Data:
    return pick(_find(flows, request), _SHOWN)


def _list(flows: FlowService, request: Request) -> Data:
    """ListFlowExecutions, the last begun first."""
    params, caller, store = request.params, request.caller, flows.store
    flow_id = store.read_id(params["flowIdentifier"])
    store.flow(caller, flow_id)
    records, token = store.documents.page(
        caller.tenant, EXECUTION, flow_id, page_size(params), params.get("nextToken"), newest=True
    )
    settled = [_settle(flows, caller, flow_id, it["id"]) for it in records]
    alias = params.get("flowAliasIdentifier")
    alias_id = store.read_id(alias, "alias") if alias else None
    summaries = [
        pick(it, _SUMMARY)
        for it in settled
        if it is not None and alias_id in (None, it["flowAliasIdentifier"])
    ]
    return render_page("flowExecutionSummaries", (summaries, token))


def _list_events(flows: FlowService, request: Request) -> Data:
    params, record = request.params, _find(flows, request)
    documents, tenant = flows.store.documents, request.caller.tenant
    parent = build_event_parent(record["flowIdentifier"], record["id"], params["eventType"])
    page = documents.page(tenant, EVENT, parent, page_size(params), params.get("nextToken"))
    return render_page("flowExecutionEvents", page)


def _get_snapshot(flows: FlowService, request: Request) -> Data:
    record = _find(flows, request)
    members = record["members"]
    return {
        **pick(record, ("flowIdentifier", "flowAliasIdentifier", "flowVersion")),
        **pick(members, ("executionRoleArn", "customerEncryptionKeyArn")),
        "definition": json.dumps(members.get("definition") or {}, default=_encode),
    }


def _encode(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _stop(flows: FlowService, request: Request) -> Data:
    """StopFlowExecution: the node that runs is the last one."""
    documents, tenant = flows.store.documents, request.caller.tenant
    with documents.transaction():
        record = _find(flows, request)
        if record["status"] != _RUNNING:
            raise conflict_error(
                f"the execution {record['id']!r} is {record['status']}; it runs no more"
            )
        record |= {"status": "Aborted", "endedAt": now()}
        documents.put(tenant, EXECUTION, record["id"], record, record["flowIdentifier"])
    flows.stop_work(record["executionArn"])
    return pick(record, ("executionArn", "status"))


HANDLERS = {
    "StartFlowExecution": _start,
    "GetFlowExecution": _get,
    "ListFlowExecutions": _list,
    "ListFlowExecutionEvents": _list_events,
    "GetExecutionFlowSnapshot": _get_snapshot,
    "StopFlowExecution": _stop,
}
