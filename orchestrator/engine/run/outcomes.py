"""What comes of an effect other than a call: its journal record, whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.engine.effects import (
    Branch,
    CallModel,
    Effect,
    Guard,
    Orchestrate,
    Retrieve,
    SessionView,
)
from orchestrator.engine.results import Answer, Failure
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.model_calls import build_request, read_reply
from orchestrator.engine.run.stream_filter import ask_guardrail, build_stream_filter
from orchestrator.engine.run.turn_records import build_branch_record, encode_file
from orchestrator.errors import ActionOutcomeUnknown, DependencyFailed, OrchestratorError
from orchestrator.knowledge.base import build_references_error, search
from orchestrator.message import clean
from orchestrator.models.base import Model, ModelReply
from orchestrator.parsers.base import ANSWER
from orchestrator.sessions import HISTORY_GUARD, Record
from orchestrator.support.user_code import (
    describe_exception,
    is_own_failure,
    iter_frames,
    place_in_class,
)


@dataclass(slots=True, eq=False, repr=False)
class StreamChecked:
    """A guardrail has checked a text that streams."""

    effect: CallModel
    run: Run  # the run whose model writes it
    record: Record  # `action`, `assessments`, `began`, `ended`


class StreamedCall:
    """One model call whose reply streams.

    Attributes:
        effect: What asks for it.
        model: The model.
        request: What it is asked.
    """

    __slots__ = (
        *("_began", "_feed", "_filter", "_live", "_parser", "_reply", "_reported"),
        *("_run", "effect", "model", "request"),
    )

    def __init__(self, run: Run, effect: CallModel) -> None:
        self._run = run
        self.effect = effect
        self._live = effect.live
        self._parser = effect.stage.new_parser()
        self._feed = self._parser.feed
        self._began = run.now()
        self.model = effect.stage.model
        self.request = build_request(run, effect, self._began)
        self._reply: ModelReply | None = None
        self._reported = 0  # checks
        self._filter = build_stream_filter(run) if self._live else None

    @property
    def feed(self) -> Callable[[str], Sequence[tuple[str, str]]] | None:
        """The parser's, where nothing more is done with a text of the answer than to show it."""
        return self._feed if self._live and self._filter is None and not self.may_block else None

    @property
    def may_block(self) -> bool:
        """Whether `take`, `rest` and `record` may block."""
        guarded = self._filter is not None and self._filter.guarded
        return guarded or self._parser.blocking

    def take(self, item: str | ModelReply) -> Sequence[str | StreamChecked]:
        """Takes a streamed item; returns the pieces of the answer that may be shown.

        Before each is what the guardrail said of it.
        """
        if not isinstance(item, str):
            self._reply = item
            return ()
        pieces = self._feed(item if item.isascii() else clean(item))
        if not self._live:
            return ()
        if len(pieces) == 1:  # as of most tokens: without the call that a comprehension costs
            ((kind, text),) = pieces
            shown: Sequence[str] = (text,) if kind == ANSWER else ()
        else:
            shown = [text for kind, text in pieces if kind == ANSWER]
        if self._filter is None:
            return shown
        return [one for text in shown for one in self._report_checks(self._filter.feed(text))]

    def rest(self) -> Sequence[str | StreamChecked]:
        """The pieces of the answer that were held back to the end."""
        if self._filter is None:
            return ()
        return self._report_checks(self._filter.finish())

    def _report_checks(self, text: str) -> list[str | StreamChecked]:
        checks = self._filter.checks if self._filter is not None else []
        new, self._reported = checks[self._reported :], len(checks)
        made: list[str | StreamChecked] = [
            StreamChecked(self.effect, self._run, record) for record in new
        ]
        return [*made, text] if text else made

    def record(self) -> Record:
        """The journal record of the whole reply.

        Raises:
            DependencyFailed: The stream ended before.
        """
        reply = self._reply
        if reply is None:
            model_id = self.effect.stage.model.model_id
            raise DependencyFailed(
                f"the stream of model {model_id!r} ended before its reply was whole; try "
                "again, or have a model of your own yield its ModelReply at last",
                resource=model_id,
            )
        record = read_reply(self._run, self.effect, reply, self._began, self._parser)
        if self._filter is not None and self._filter.checks:
            record["checks"] = self._filter.checks
        return record


def build_effect_error(effect: Effect, error: BaseException) -> OrchestratorError:
    """The error of an effect that could not be carried out, in this package's tree.

    Raises:
        BaseException: It is no failure of a model, but a defect of this program, or the turn is
            to be stopped.
    """
    if isinstance(error, OrchestratorError):
        return error
    if not isinstance(effect, CallModel) or not is_own_failure(error):
        raise error
    model = effect.stage.model
    typed = DependencyFailed(
        f"the model {model.model_id!r} {_describe_failure(model, error)}", resource=model.model_id
    )
    typed.__cause__ = error
    return typed


def _describe_failure(model: Model, error: BaseException) -> str:
    place = place_in_class(error, type(model), Model)
    if not place and isinstance(error, AttributeError | TypeError):
        # Raised by who uses the model, the text has names of types and members, and no values.
        *_, (innermost, _) = iter_frames(error)
        is_ours = innermost.f_globals.get("__name__", "").startswith("orchestrator.")
        why = str(error) if is_ours else type(error).__name__
        return (
            f"cannot be used: its class {type(model).__name__!r} has to be like "
            f"`orchestrator.models.Model` ({why})"
        )
    where = f" at {place}" if place else ""
    return (
        f"raised {type(error).__name__}{where}. A model of your own should raise errors of "
        "`orchestrator.errors`"
    )


def retrieve(run: Run, effect: Retrieve) -> Record:
    """Searches a knowledge base.

    Raises:
        DependencyFailed: The search failed, or what was found are no references with texts.
    """
    began = run.now()
    base = run.plan.knowledge_bases[effect.knowledge_base_id]
    references = search(base, effect.query, effect.configuration)
    ended = run.now()
    try:
        found = [_reference(reference) for reference in references]
    except (KeyError, TypeError):
        raise build_references_error(base.id) from None
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
    reported = False
    if run.checked is not None and run.checked[0] == effect.text != "":
        _, verdict, reported = run.checked
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
    if reported:
        record["streamed"] = True
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


def build_lost_branch(run: Run, branch: Branch) -> Record:
    """The record of a remote collaborator that was asked, and whose answer was lost.

    It is not asked again: nobody knows whether it has acted.
    """
    error = ActionOutcomeUnknown(
        f"nobody knows what the collaborator {branch.team!r} did: its answer was lost. It was not "
        "asked again; look at the remote agent's session",
        resource=branch.team,
    )
    return build_remote_record(run, branch, Failure(error, "failure"), {}, run.now())


def run_remote_branch(run: Run, branch: Branch) -> Record:
    """Has a remote collaborator work; its `branch` record, not yet written."""
    remote, began = branch.collaborator.remote, run.now()
    if remote is None:
        raise AssertionError("a collaborator runs here or is remote")
    path = f"{run.session_id}/{branch.team}"
    if run.plan.tenant_key:  # a remote agent cannot tell the tenants of this one apart
        path = f"{run.plan.tenant_key}/{path}"
    import uuid

    session_id = str(uuid.uuid5(uuid.NAMESPACE_URL, path))
    attributes = dict(run.session.attributes)
    result: Answer | Failure
    more: Record = {}
    try:
        reply = remote.invoke(branch.message, session_id, attributes, dict(branch.attributes))
        _check_remote_reply(branch, reply)
    except OrchestratorError as error:
        result = Failure(error, "failure")
    except BaseException as error:
        if not is_own_failure(error):
            raise
        what = f"the collaborator {branch.team!r} {describe_exception(error)}"
        result = Failure(DependencyFailed(what, resource=branch.team), "failure")
    else:
        result = Answer(reply.text, citations=[dict(one) for one in reply.citations])
        if reply.trace:
            more["trace"] = list(reply.trace)
        if reply.files:
            more["files"] = list(map(encode_file, reply.files))
    return build_remote_record(run, branch, result, more, began)


def _check_remote_reply(branch: Branch, reply: Any) -> None:
    if not hasattr(reply, "text"):
        raise DependencyFailed(
            f"the collaborator {branch.team!r} replied with an object of the class "
            f"{type(reply).__name__!r}; its `invoke` has to return a RemoteReply",
            resource=branch.team,
        )


def build_remote_record(
    run: Run, branch: Branch, result: Answer | Failure, more: Record, began: int
) -> Record:
    """The `branch` record of what a remote collaborator's work came to."""
    record = build_branch_record(
        branch,
        result,
        path=run.replay.path,
        name=branch.team,
        before=0,
        usage=(0, 0, 0),
        began=began,
        ended=run.now(),
    )
    return record | more
