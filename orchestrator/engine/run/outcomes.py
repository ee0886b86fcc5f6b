"""What comes of an effect: its journal record, whichever backend waits for it."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.engine.effects import (
    Branch,
    CallModel,
    Dispatch,
    Effect,
    Guard,
    Orchestrate,
    Retrieve,
    SessionView,
)
from orchestrator.engine.results import Answer, Failure
from orchestrator.engine.run.invocation import Run, end_record
from orchestrator.engine.run.stream_filter import ask_guardrail, build_stream_filter
from orchestrator.errors import ActionOutcomeUnknown, DependencyFailed, OrchestratorError
from orchestrator.message import clean
from orchestrator.models.base import ModelReply
from orchestrator.models.blocks import normalise_blocks
from orchestrator.parsers.base import ANSWER
from orchestrator.sessions import HISTORY_GUARD, Record
from orchestrator.support.threads import MOST_THREADS


class StreamedCall:
    """One model call whose reply streams."""

    __slots__ = ("_began", "_effect", "_filter", "_parser", "_reply", "_run", "model", "request")

    def __init__(self, run: Run, effect: CallModel) -> None:
        self._run = run
        self._effect = effect
        self._parser = effect.stage.new_parser()
        self._began = run.now()
        self.model = effect.stage.model
        self.request = run.request(effect)
        self._reply: ModelReply | None = None
        self._filter = build_stream_filter(run) if effect.live else None

    @property
    def may_block(self) -> bool:
        """Whether `take`, `rest` and `record` may block."""
        guarded = self._filter is not None and self._filter.guarded
        return guarded or self._parser.blocking

    def take(self, item: str | ModelReply) -> list[str]:
        """Takes a streamed item; returns the pieces of the answer that may be shown."""
        if not isinstance(item, str):
            self._reply = item
            return []
        pieces = self._parser.feed(clean(item))
        if not self._effect.live:
            return []
        shown = [text for kind, text in pieces if kind == ANSWER]
        if self._filter is None:
            return shown
        return [part for text in shown if (part := self._filter.feed(text))]

    def rest(self) -> list[str]:
        """The pieces of the answer that were held back to the end."""
        rest = self._filter.finish() if self._filter is not None else ""
        return [rest] if rest else []

    def record(self) -> Record:
        """The journal record of the whole reply.

        Raises:
            DependencyFailed: The stream ended before.
        """
        reply = self._reply
        if reply is None:
            model_id = self._effect.stage.model.model_id
            raise DependencyFailed(
                f"the stream of model {model_id!r} ended before its reply was whole; try again",
                resource=model_id,
            )
        reply.content = normalise_blocks(reply.content)
        parsed = self._parser.finish(reply.content)
        return self._run.model_record(self._effect, reply, parsed, self._began)


def action_record(call: Call, result: ActionResult, began: int, ended: int) -> Record:
    """The journal record of an action's result."""
    record: Record = {
        "kind": "action",
        "id": call.id,
        "text": result.text,
        "began": began,
        "ended": ended,
    }
    if result.state:
        record["state"] = result.state
    if result.session_attributes is not None:
        record["attributes"] = result.session_attributes
    if result.prompt_session_attributes is not None:
        record["prompt_attributes"] = result.prompt_session_attributes
    if result.knowledge_bases:
        record["retrieval"] = dict(result.knowledge_bases)
    if result.notes:
        record["notes"] = list(result.notes)
    if result.files:
        record["files"] = [_encode_file(file) for file in result.files]
    if result.details:
        record["details"] = dict(result.details)
    return record


def _encode_file(file: Mapping[str, Any]) -> dict[str, Any]:
    return {**file, "bytes": base64.b64encode(file["bytes"]).decode()}


def build_failed_action_record(run: Run, call: Call, error: BaseException, began: int) -> Record:
    """The journal record of an action that raised: the turn fails with its error.

    The record has the message that others may read; the exception itself stays in this process.
    """
    ended = run.now()
    run.causes[call.id] = error.__cause__ or error
    if not isinstance(error, OrchestratorError):
        error = DependencyFailed(
            f"the executor of {call.operation.xml_name!r} raised {type(error).__name__}; an "
            "executor reports what the model can mend as a result with state 'REPROMPT'",
            resource=call.operation.xml_name,
        )
    record = action_record(call, ActionResult(error.message, "FAILURE"), began, ended)
    record["error"] = type(error).__name__
    return record


def build_late_record(run: Run, call: Call, began: int, blocking: Future[Record] | None) -> Record:
    """The journal record of an action that did not answer in time; whoever waited gives it up.

    `blocking` is the work of its thread, if it has one; what was not begun yet is cancelled.
    """
    name, seconds = call.operation.xml_name, run.plan.limits.action_seconds
    # Cancelling works only as long as no thread has begun the work: then nothing was done.
    if blocking is not None and blocking.cancel():
        error: OrchestratorError = DependencyFailed(
            f"{name!r} was not begun: no thread was free within {seconds} seconds. At most "
            f"{MOST_THREADS} actions block at the same time in one process",
            resource=name,
        )
    else:
        error = ActionOutcomeUnknown(
            f"{name!r} did not answer within {seconds} seconds; it may still take effect. Raise "
            "the limit 'action_seconds' if it needs longer",
            resource=name,
        )
    return build_failed_action_record(run, call, error, began)


def build_effect_error(effect: Effect, error: Exception) -> OrchestratorError:
    """The error of an effect that could not be carried out, in this package's tree.

    Raises:
        Exception: It is no failure of a model, but a defect of this program.
    """
    if isinstance(error, OrchestratorError):
        return error
    if not isinstance(effect, CallModel):
        raise error
    model_id = effect.stage.model.model_id
    typed = DependencyFailed(
        f"the model {model_id!r} raised {type(error).__name__}. A model of your own should raise "
        "errors of `orchestrator.errors`",
        resource=model_id,
    )
    typed.__cause__ = error
    return typed


def retrieve(run: Run, effect: Retrieve) -> Record:
    """Searches a knowledge base.

    Raises:
        DependencyFailed: The search failed, or what was found are no references with texts.
    """
    began = run.now()
    base = run.plan.knowledge_bases[effect.knowledge_base_id]
    own = () if effect.configuration is None else (effect.configuration,)
    try:
        references = base.retrieve(effect.query, *own)
    except OrchestratorError:
        raise
    except Exception as error:
        raise DependencyFailed(
            f"the knowledge base {effect.knowledge_base_id!r} raised {type(error).__name__}; its "
            "own message is kept out of this one, since it may hold what nobody else may read",
            resource=effect.knowledge_base_id,
        ) from error
    ended = run.now()
    try:
        found = [_reference(reference) for reference in references]
    except (AttributeError, KeyError, TypeError):
        raise DependencyFailed(
            f"the knowledge base {effect.knowledge_base_id!r} returned something else than "
            "references: each must be {'content': {'text': '...'}}, with 'location' and 'metadata' "
            "if it has them",
            resource=effect.knowledge_base_id,
        ) from None
    record: Record = {"kind": "retrieved", "id": effect.call_id, "references": found}
    return {**record, "began": began, "ended": ended}


def _reference(reference: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(reference["content"]["text"], str):
        raise TypeError
    # Bedrock's shape has no empty members.
    return {name: clean(value) for name, value in reference.items() if value}


def guard(run: Run, effect: Guard) -> Record:
    """Has the guardrail check a text."""
    began, guardrail = run.now(), run.plan.guardrail
    if guardrail is None:
        raise AssertionError("a text is only guarded where there is a guardrail")
    if run.checked is not None and run.checked[0] == effect.text != "":
        verdict = run.checked[1]
    else:
        verdict = ask_guardrail(guardrail, effect.text, effect.source)
    record = {
        "kind": "guarded",
        "id": effect.id,
        "action": verdict.action,
        "text": clean(verdict.text),
        "blocked": verdict.blocked,
        "assessments": [dict(one) for one in verdict.assessments],
        "began": began,
        "ended": run.now(),
    }
    if effect.id.startswith(HISTORY_GUARD):
        # The next prompt may be made before it is written.
        run.session.apply_guarded_history(record)
    return record


def orchestrate(run: Run, effect: Orchestrate) -> Record:
    """Has a custom orchestration decide what to do."""
    began, session = run.now(), run.session
    decide = run.replay.turn.decide
    if decide is None:
        raise AssertionError("a custom orchestration says whom to ask")
    history = run.replay.past.history[: run.replay.before]
    decision = decide(SessionView(run.session_id, session.attributes, history))
    if "attributes" in decision:
        session.attributes = decision["attributes"]
    times = {"began": began, "ended": run.now()}
    return {"kind": "orchestrated", "state": effect.state, **decision, **times}


def run_remote_branch(run: Run, branch: Branch) -> Record:
    """Has a remote collaborator work; its `branch` record, not yet written."""
    remote, began = branch.collaborator.remote, run.now()
    if remote is None:
        raise AssertionError("a collaborator runs here or is remote")
    path = f"{run.session_id}/{branch.team}"
    if run.plan.tenant_key:  # a remote agent cannot tell the tenants of this one apart
        path = f"{run.plan.tenant_key}/{path}"
    session_id = str(uuid.uuid5(uuid.NAMESPACE_URL, path))
    attributes = dict(run.session.attributes)
    result: Answer | Failure
    more: Record = {}
    try:
        reply = remote.invoke(branch.message, session_id, attributes, dict(branch.attributes))
    except OrchestratorError as error:
        result = Failure(error, "failure")
    else:
        result = Answer(reply.text, citations=[dict(one) for one in reply.citations])
        if reply.trace:
            more["trace"] = list(reply.trace)
        if reply.files:
            more["files"] = list(map(_encode_file, reply.files))
    ended = run.now()
    return {
        **end_record(result, ended),
        **more,
        "kind": "branch",
        "branch": run.replay.path,
        "id": branch.id,
        "name": branch.team,
        "asked": branch.message,
        "before": 0,
        "usage": (0, 0, 0),
        "began": began,
        "ended": ended,
    }


def find_pending_calls(run: Run, effect: Dispatch) -> tuple[dict[str, Record], list[Call]]:
    """What a stopped process left behind, by call id; and the calls to carry out, now intended."""
    known: dict[str, Record] = {}
    calls = effect.calls
    if run.replay.is_interrupted:
        known = run.replay.take_known_outcomes(effect)
        for lost in run.replay.find_lost_actions(effect, known, run.now()):
            record_outcome(run, known, lost)
        calls = [call for call in effect.calls if call.id not in known]
    if calls:
        run.intend(calls)
    return known, calls


def record_outcome(run: Run, known: dict[str, Record], record: Record) -> None:
    """Takes an action's outcome, and writes it down at once."""
    known[record["id"]] = record
    run.record_action(record)


def perform(run: Run, call: Call, context: CallContext) -> Record:
    """Carries a call out, in this thread."""
    began = run.now()
    try:
        result = run.plan.catalog.executor(call.operation).call(call, context)
    except Exception as error:  # whatever an executor raises is its outcome
        return build_failed_action_record(run, call, error, began)
    return action_record(call, result, began, run.now())
