"""How Bedrock writes a trace part: its members, ids and times (AWS: `TracePart`)."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from orchestrator.actions.base import Call
from orchestrator.actions.lambda_contract import call_parameters
from orchestrator.engine.plan import INLINE_AGENT, Plan
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    POST_PROCESSING,
    PRE_PROCESSING,
    ROUTING_CLASSIFIER,
)
from orchestrator.sessions import Record

STEPS_TRACE, ROUTING_TRACE = "orchestrationTrace", "routingClassifierTrace"
_TRACES = {
    PRE_PROCESSING: ("preProcessingTrace", "pre-0"),
    POST_PROCESSING: ("postProcessingTrace", "post-0"),
    ROUTING_CLASSIFIER: (ROUTING_TRACE, "routing-0"),
    KNOWLEDGE_BASE_RESPONSE_GENERATION: (STEPS_TRACE, "KB-null-0"),
}


class PartWriter:
    """Writes the parts of one turn's trace, each of which names the agent, the session and a time.

    The ids are of the service's grammar: `{requestId}-{n}`, `-pre-0`, `-post-0`.
    """

    def __init__(
        self,
        plan: Plan,
        session_id: str,
        started: int,
        request_id: str,
        chain: Sequence[str] = (),
        name: str = "",
    ) -> None:
        """Begins; `started` is in nanoseconds since 1970, `chain` has the aliases' ARNs above."""
        self._plan = plan
        self._request = request_id
        self._head, self._tail = request_id[:24], request_id[32:]
        self._started = started
        self._number = 0
        self._step_id = f"{request_id}-0"
        self._session_id = session_id
        self._chain = (*chain, plan.alias_arn)
        callers = [{"agentAliasArn": plan.alias_arn}]
        if chain:
            callers = [{"agentAliasArn": arn} for arn in self._chain]
        self._blank: dict[str, Any] = {
            "agentId": plan.agent_id,
            "agentAliasId": plan.alias_id,
            "agentVersion": plan.version,
            "sessionId": session_id,
            "callerChain": callers,
            "eventTime": "",
            "trace": {},
        }
        if name:
            self._blank["collaboratorName"] = name
        if plan.agent_id == INLINE_AGENT:  # as recorded
            for member in ("agentId", "agentAliasId", "agentVersion"):
                del self._blank[member]

    def _observation(
        self, at: int, kind: str, entry: dict[str, Any], number: int | None = None
    ) -> dict[str, Any]:
        entry["type"] = kind
        return self._step(at, "observation", entry, number)

    def _at_step(self, number: int) -> None:
        """The next parts belong to this step of the loop."""
        self._number, self._step_id = number, f"{self._request}-{number}"

    def _step(
        self, at: int, member: str, entry: dict[str, Any], number: int | None = None
    ) -> dict[str, Any]:
        # Most parts are of this kind: made here, without `_part`.
        entry["traceId"] = self._step_id if number is None else f"{self._request}-{number}"
        part = self._blank.copy()
        part["eventTime"] = _write_time(at)
        part["trace"] = {STEPS_TRACE: {member: entry}}
        return part

    def _stage_part(
        self, stage: str, at: int, member: str, entry: dict[str, Any]
    ) -> dict[str, Any]:
        """A part about a stage's model call, in the stage's own trace."""
        if stage not in _TRACES:
            return self._step(at, member, entry)
        trace, suffix = _TRACES[stage]
        entry["traceId"] = f"{self._request}-{suffix}"
        return self._part(at, trace, {member: entry})

    def _part(self, at: int, kind: str, trace: dict[str, Any]) -> dict[str, Any]:
        part = self._blank.copy()
        part["eventTime"] = _write_time(at)
        part["trace"] = {kind: trace}
        return part

    def _metadata(self, record: Record, call: str) -> dict[str, Any]:
        began, ended = record["began"], record["ended"]
        return {
            # The service has a random id for every request of its own; ours is made from the
            # turn's random one, so that it is the same whenever the trace is read.
            "clientRequestId": f"{self._head}{_digits(call)}{self._tail}",
            "startTime": _write_time(began),
            "endTime": _write_time(ended),
            "totalTimeMs": max(ended - began, 0) // 1_000_000,
        }

    def _operation_metadata(self, ended: int) -> dict[str, Any]:
        return {
            "startTime": _write_time(self._started),
            "endTime": _write_time(ended),
            # Another process may have begun the turn, by a clock that was set back since.
            "operationTotalTimeMs": max(ended - self._started, 0) // 1_000_000,
        }


def action_input(call: Call, execution: str) -> dict[str, Any]:
    """An action's call, as `actionGroupInvocationInput`: `LAMBDA` or `RETURN_CONTROL`."""
    operation = call.operation
    parameters, body = call_parameters(call)
    entry: dict[str, Any] = {"actionGroupName": operation.group, "executionType": execution}
    if operation.verb:
        entry["apiPath"], entry["verb"] = operation.path, operation.verb.lower()
    else:
        entry["function"] = operation.name
    if parameters:
        entry["parameters"] = parameters
    if body:
        entry["requestBody"] = {
            "content": {kind: item["properties"] for kind, item in body["content"].items()}
        }
    return entry


# All turns name their calls alike.
@lru_cache(maxsize=1024)
def _digits(call: str) -> str:
    return f"{zlib.crc32(call.encode()):08x}"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


# Parts mostly tell the same times.
@lru_cache(maxsize=256)
def _write_time(at: int) -> str:
    # As the service writes it; `at` is in nanoseconds since 1970.
    fraction = str(at % 1_000_000_000).zfill(9)  # at half the cost of a format
    return f"{_second(at // 1_000_000_000)}.{fraction}Z"
