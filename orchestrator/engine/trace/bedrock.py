"""The journal as Bedrock's trace parts (AWS: `InvokeAgent`, `TracePart`).

A trace is a projection: parts are made from a turn's effects and their recorded outcomes when
somebody reads them, in the order in which the service sends them, with ids of its grammar
(`{requestId}-{n}`, `-pre-0`, `-post-0`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Self

from orchestrator.actions.base import Call
from orchestrator.engine.calls import match_results, result_text
from orchestrator.engine.effects import (
    AwaitResults,
    Branch,
    Branches,
    CallModel,
    Dispatch,
    Effect,
    Guard,
    Orchestrate,
    Retrieve,
)
from orchestrator.engine.guardrail_checks import ANSWER_GUARD, MEMORY_GUARD
from orchestrator.engine.plan import Plan
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.run.replay import Replay
from orchestrator.engine.trace.model_calls import ModelCallParts
from orchestrator.engine.trace.parts import ROUTING_TRACE, STEPS_TRACE, action_input
from orchestrator.prompts.placeholders import MEMORY_SUMMARIZATION
from orchestrator.sessions import Record

CODE_INTERPRETER = "ACTION_GROUP_CODE_INTERPRETER"
CODE_INTERPRETER_GROUP = "codeinterpreteraction"
_BEGAN = itemgetter("began")


class TraceParts(ModelCallParts):
    """Makes the trace parts of one turn.

    Each method returns parts in order; a part is a JSON object equal in shape to the `trace`
    member of `InvokeAgent`'s event stream, its times written as the service writes them.
    """

    def __init__(
        self,
        plan: Plan,
        session_id: str,
        started: int,  # nanoseconds since 1970
        replay: Replay,
        *,
        reported: int = 0,  # how many of the turn's records the caller has seen before
        chain: Sequence[str] = (),  # ARNs of the aliases above the agent
        name: str = "",  # the agent's name in the team of the one above
    ) -> None:
        super().__init__(plan, session_id, started, replay, chain, name)
        self._reprompted = 0
        self._reported = reported

    def of_branch(self, branch: Branch, started: int) -> Self:
        """The trace of a collaborator's turn within this one, or of an iteration of it."""
        replay, session_id = self._replay.below(branch), self._session_id
        if replay.iterates:
            chain, name = self._chain[:-1], self._blank.get("collaboratorName", "")
        else:
            chain, name = self._chain, self._blank.get("collaboratorName", "")
            if not name:  # further down, parts go on naming the agent below the caller's (recorded)
                name, session_id = branch.collaborator.name, replay.session_id(session_id)
        plan, reported = replay.turn.plan, self._reported
        return type(self)(
            plan, session_id, started, replay, reported=reported, chain=chain, name=name
        )

    def is_reported(self, branch: Branch) -> bool:
        """Whether the caller has seen the end of a collaborator's work."""
        records = self._replay.log.records[: self._reported]
        return any(one["kind"] == "branch" and one["id"] == branch.id for one in records)

    def _answer_to(self, branch: Branch) -> Record | None:
        """The caller's results that a collaborator goes on with now."""
        if not self._reported:
            return None
        record = self._replay.log.records[self._reported - 1]
        below = branch.has(record.get("branch", ""))
        return record if below and record["kind"] == "returned" else None

    def _still_waits(self, branch: Branch) -> bool:
        """Whether a collaborator waits as it did in the caller's last reply."""
        if not self._reported or self._answer_to(branch) is not None:
            return False
        records = self._replay.log.records[: self._reported]
        return any(branch.has(one.get("branch", "")) for one in records)

    def whole(
        self, end: Record | None, since: int = 0, upto: int | None = None
    ) -> list[dict[str, Any]]:
        """The parts of all steps from `since` up to `upto`; `end` is the record of the turn's end.

        Steps before `since` were sent to the caller before.
        """
        steps = self._replay.steps[since:upto]
        parts: list[dict[str, Any]] = []
        if since:
            number = steps[0][0].number
            self._at_step(number)
            self._reprompted = sum(step <= number for step, _ in self._replay.turn.reprompts)
        asked = since > 0  # whether the caller has seen what the step asked for
        for effect, outcome in steps:
            waits = self._find_suspend_record(effect) if isinstance(effect, AwaitResults) else None
            if waits is not None:
                began: int = waits["at"]  # the outcome has the time at which the results came
            elif isinstance(outcome, dict) and "began" in outcome:
                began = outcome["began"]
            else:
                began = _began(outcome, end, self._started)
            if isinstance(effect, Branches):
                parts += self.before(effect, began, outcome)
                parts += self._teamwork(effect, outcome, began)
            else:
                if not asked:
                    parts += self.before(effect, began, outcome)
                if outcome is not None:
                    parts += self.after(effect, outcome)
            asked = False
        parts += self.build_end_parts(end)
        return parts

    def _find_suspend_record(self, effect: AwaitResults) -> Record | None:
        """The record with which the turn waits for these results."""
        for record in self._replay.log.records:
            if record["kind"] == "suspend" and record["invocation_id"] == effect.invocation_id:
                return record
        return None

    def _teamwork(self, effect: Branches, outcome: Any, began: int) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        records: list[Record | None] = outcome or list(
            map(self._find_branch_record, effect.branches)
        )
        waiting = find_waiting_record(records)
        for branch, record in zip(effect.branches, records, strict=True):
            if self.is_reported(branch):
                continue
            if branch.collaborator.agent is not None and not self._still_waits(branch):
                replay = self._replay.below(branch)
                inner = self.of_branch(branch, record["began"] if record else began)
                ended = record if record is not None and "control" not in record else None
                if not replay.steps:
                    replay.run_to_end(ended)
                parts += inner.whole(ended, replay.resume_step if self._reported else 0)
            if record is not None and ("control" not in record or record is waiting):
                parts += self.build_branch_end_parts(effect, branch, record)
        return parts

    def _find_branch_record(self, branch: Branch) -> Record | None:
        """What the journal knows of a collaborator's work while others are still at theirs."""
        log = self._replay.log
        if (end := log.find_branch_end(branch.id)) is not None:
            return end
        waits = log.suspend_record
        if waits is None or not branch.has(waits.get("waits", "")):
            return None
        control = ControlReturn(waits["invocation_id"], waits["inputs"])
        return {"id": branch.id, "control": control, "began": waits["at"], "ended": waits["at"]}

    def before(self, effect: Effect, at: int, outcome: Any = None) -> list[dict[str, Any]]:
        """The parts that say that an effect is about to be carried out.

        `at` is in nanoseconds since 1970. A known outcome names the model that answered.
        """
        parts: list[dict[str, Any]] = []
        number = effect.number
        if self._replay.turn.reprompts:
            parts += self._reprompts(number - isinstance(effect, CallModel), at)
        if number != self._number:
            self._at_step(number)
        match effect:
            case CallModel():
                if effect.stage.stage != MEMORY_SUMMARIZATION:  # the service's traces leave it out
                    parts.append(self._model_input(effect, at, outcome or {}))
            case Dispatch():
                for call in effect.calls:
                    parts.append(self._call_part(call, at, "LAMBDA"))
            case AwaitResults():
                parts += [
                    self._call_part(item.call, at, "RETURN_CONTROL", effect.invocation_id)
                    for item in effect.waiting
                ]
            case Retrieve():
                lookup = {"knowledgeBaseId": effect.knowledge_base_id, "text": effect.query}
                asked = {"invocationType": "KNOWLEDGE_BASE", "knowledgeBaseLookupInput": lookup}
                parts.append(self._step(at, "invocationInput", asked))
            case Branches(iterates=False):
                parts += [
                    self._message_part(effect, branch, at)
                    for branch in effect.branches
                    if not (self.is_reported(branch) or self._still_waits(branch))
                ]
        return parts

    def _message_part(self, effect: Branches, branch: Branch, at: int) -> dict[str, Any]:
        entry = {
            "agentCollaboratorName": branch.collaborator.name,
            "agentCollaboratorAliasArn": branch.collaborator.alias_arn,
            "input": {"type": "TEXT", "text": branch.message},
        }
        if results := self._answer_to(branch):
            members = ("invocationId", "returnControlInvocationResults")
            values = (results["invocation_id"], results["results"])
            given = dict(zip(members, values, strict=True))
            entry["input"] = {"type": "RETURN_CONTROL", "returnControlResults": given}
            at = results["at"]
        asked = {
            "invocationType": "AGENT_COLLABORATOR",
            "agentCollaboratorInvocationInput": entry,
        }
        return self._team_step(effect, at, "invocationInput", asked)

    def build_branch_end_parts(
        self, effect: Branches, branch: Branch, record: Record
    ) -> list[dict[str, Any]]:
        """The parts that say how a collaborator's work ended."""
        if effect.iterates:
            return []  # its own parts say it
        ended, control = record["ended"], record.get("control")
        parts = [self._prepend_callers(branch, part) for part in record.get("trace", ())]
        if record.get("result") == "failure":
            return parts
        output: dict[str, Any] = {"type": "TEXT", "text": record.get("text", "")}
        if control is not None:
            payload = {
                "invocationId": control.invocation_id,
                "invocationInputs": control.invocation_inputs,
            }
            output = {"type": "RETURN_CONTROL", "returnControlPayload": payload}
        entry = {
            "agentCollaboratorName": branch.collaborator.name,
            "agentCollaboratorAliasArn": branch.collaborator.alias_arn,
            "output": output,
            "metadata": self._branch_metadata(branch, record),
        }
        seen = {"type": "AGENT_COLLABORATOR", "agentCollaboratorInvocationOutput": entry}
        parts.append(self._team_step(effect, ended, "observation", seen))
        if effect.routed and control is None:
            final = {"text": record["text"], "metadata": self._operation_metadata(ended)}
            finish = {"type": "FINISH", "finalResponse": final}
            parts.append(self._team_step(effect, ended, "observation", finish))
        return parts

    def _branch_metadata(self, branch: Branch, record: Record) -> dict[str, Any]:
        metadata = self._metadata(record, branch.id)
        if branch.collaborator.agent is not None:  # the collaborator's own request (recorded)
            replay = self._replay.below(branch)
            metadata["clientRequestId"] = replay.turn.start.request_id
        return metadata

    def _prepend_callers(self, branch: Branch, part: Record) -> dict[str, Any]:
        chain = [{"agentAliasArn": arn} for arn in self._chain]
        own = part.get("callerChain") or [{"agentAliasArn": branch.collaborator.alias_arn}]
        name = self._blank.get("collaboratorName") or branch.collaborator.name
        return {**part, "callerChain": [*chain, *own], "collaboratorName": name}

    def _team_step(
        self, effect: Branches, at: int, member: str, entry: dict[str, Any]
    ) -> dict[str, Any]:
        if not effect.routed:
            return self._step(at, member, entry)
        entry["traceId"] = f"{self._request}-routing-0"
        return self._part(at, ROUTING_TRACE, {member: entry})

    def after(self, effect: Effect, outcome: Any) -> list[dict[str, Any]]:
        """The parts of an effect's outcome."""
        if isinstance(effect, CallModel):
            if effect.stage.stage == MEMORY_SUMMARIZATION:
                return []
            parts = self._model_output(effect, outcome)
            if "checks" in outcome:
                parts = [*map(self.build_check_part, outcome["checks"]), *parts]
            return parts
        match effect:
            case Dispatch():
                return [*map(self._result_part, outcome)]
            case Guard():
                return self._guard_parts(effect, outcome)
            case Orchestrate():
                return self._custom_parts(effect, outcome)
            case Branches():
                return []  # each collaborator's end is reported as it comes
            case AwaitResults():
                return [
                    self._observation(
                        outcome["at"],
                        "ACTION_GROUP",
                        {"actionGroupInvocationOutput": {"text": _body(result)}},
                    )
                    for result in match_results(effect.waiting, outcome["results"])
                ]
            case Retrieve():
                found = {
                    "retrievedReferences": outcome["references"],
                    "metadata": self._metadata(outcome, outcome["id"]),
                }
                return [
                    self._observation(
                        outcome["ended"], "KNOWLEDGE_BASE", {"knowledgeBaseLookupOutput": found}
                    )
                ]

    def _result_part(self, record: Record) -> dict[str, Any]:
        metadata = self._metadata(record, record["id"])
        if "details" in record:
            entry = {**_program_outcome(record), "metadata": metadata}
            # Recorded; botocore's enumeration does not know this type.
            seen = {"type": CODE_INTERPRETER, "codeInterpreterInvocationOutput": entry}
        else:
            entry = {"text": record["text"], "metadata": metadata}
            seen = {"type": "ACTION_GROUP", "actionGroupInvocationOutput": entry}
        return self._step(record["ended"], "observation", seen)

    def _custom_parts(self, effect: Orchestrate, record: Record) -> list[dict[str, Any]]:
        if not record.get("trace"):
            return []
        entry = {
            "traceId": f"{self._request}-{effect.number}",
            "event": {"text": record["trace"]},
        }
        return [self._part(record["ended"], "customOrchestrationTrace", entry)]

    def _guard_parts(self, effect: Guard, record: Record) -> list[dict[str, Any]]:
        if effect.id.startswith(MEMORY_GUARD):
            return []
        side = "inputAssessments" if effect.source == "INPUT" else "outputAssessments"
        parts = []
        if not record.get("streamed"):  # else the check was reported while the answer streamed
            parts.append(self._guard_part(effect.id, side, record))
        if effect.id != ANSWER_GUARD:
            return parts
        held, self._held = self._held, []
        if record["blocked"]:
            return parts
        if record["action"] == "INTERVENED":
            for part in held:
                part["trace"][STEPS_TRACE]["observation"]["finalResponse"]["text"] = record["text"]
        return parts + held

    def _guard_part(self, id: str, side: str, record: Record) -> dict[str, Any]:
        entry = {
            "action": record["action"],
            "traceId": f"{self._request}-{id}",
            "metadata": self._metadata(record, id),
        }
        if record["assessments"]:
            entry[side] = record["assessments"]
        return self._part(record["ended"], "guardrailTrace", entry)

    def build_check_part(self, record: Record) -> dict[str, Any]:
        """The part of a check of an answer that streams, which comes before the answer's chunk."""
        return self._guard_part(ANSWER_GUARD, "outputAssessments", record)

    def build_end_parts(self, end: Record | None) -> list[dict[str, Any]]:
        """The parts that tell how the turn ended."""
        if end is None or self._replay.iterates:
            return []
        parts, self._held = self._held, []
        if self._replay.turn.reprompts:
            parts += self._reprompts(self._number, end["at"])
        own = self._plan.features.orchestration is not None and end["stop_reason"] != "ask_user"
        if (own or self._plan.shortcut) and end["result"] == "answer":
            final = {"text": end["text"], "metadata": self._operation_metadata(end["at"])}
            number = None if own else 1
            parts.append(self._observation(end["at"], "FINISH", {"finalResponse": final}, number))
        if end["stop_reason"] == "ask_user":
            asked = {"finalResponse": {"text": end["text"]}}
            parts.append(self._observation(end["at"], "ASK_USER", asked))
        if end["result"] == "failure":
            failure = {
                "failureReason": self._failure_reason(end),
                "traceId": self._step_id,
                "metadata": self._operation_metadata(end["at"]),
            }
            parts.append(self._part(end["at"], "failureTrace", failure))
        return parts

    def _failure_reason(self, end: Record) -> str:
        if self._aws and end["stop_reason"] == "iterations":
            return "Max iterations exceeded"
        if self._aws and end["error"] == "ModelOutputError":
            return "LLM prediction format incorrect"
        return str(end["message"])

    def _reprompts(self, number: int, at: int) -> Iterator[dict[str, Any]]:
        if self._aws and self._plan.orchestration.dialect.protocol != "tool_use":
            return  # only the next prompt says it there (recorded)
        entry = self._replay.turn.reprompts
        while self._reprompted < len(entry) and entry[self._reprompted][0] <= number:
            step, text = entry[self._reprompted]
            self._reprompted += 1
            asked = {"repromptResponse": {"source": "PARSER", "text": text}}
            yield self._observation(at, "REPROMPT", asked, step)

    def _call_part(
        self, call: Call, now: int, execution: str, invocation_id: str = ""
    ) -> dict[str, Any]:
        if call.operation.group == CODE_INTERPRETER_GROUP:
            return self._code_part(call, now)
        entry = action_input(call, execution)
        if invocation_id:
            entry["invocationId"] = invocation_id
        asked = {"invocationType": "ACTION_GROUP", "actionGroupInvocationInput": entry}
        return self._step(now, "invocationInput", asked)

    def _code_part(self, call: Call, now: int) -> dict[str, Any]:
        files = [file["name"] for file in self._replay.turn.start.files]
        entry: dict[str, Any] = {"code": call.arguments.get("code", "")}
        if files:
            entry["files"] = files
        asked = {
            "invocationType": CODE_INTERPRETER,
            "codeInterpreterInvocationInput": entry,
        }
        return self._step(now, "invocationInput", asked)


def find_waiting_record(records: Sequence[Record | None]) -> Record | None:
    """The record of the collaborator that the caller is to answer: one at a time."""
    return next((one for one in records if one is not None and "control" in one), None)


def _began(outcome: Any, end: Record | None, started: int) -> int:
    # When the effect with this outcome began; one without an outcome was the turn's last.
    if isinstance(outcome, list):
        if len(outcome) == 1:
            return int(outcome[0]["began"])
        return int(min(map(_BEGAN, outcome), default=started))
    return int((outcome or end or {"at": started})["at"])


def _program_outcome(record: Record) -> dict[str, Any]:
    # Its output alone, or its error alone (recorded).
    details = record["details"]
    error = details.get("executionError")
    member = "executionError" if error else "executionOutput"
    outcome = {member: details.get(member, "")}
    if details.get("executionTimeout"):
        outcome["executionTimeout"] = True
    if names := [file["name"] for file in record.get("files", ())]:
        outcome["files"] = names
    return outcome


def _body(result: Record) -> str:
    return "DENY" if result.get("confirmationState") == "DENY" else result_text(result)
