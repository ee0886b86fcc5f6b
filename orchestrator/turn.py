"""One turn of an agent, as a generator of effects: no socket, no clock, no randomness.

It reads like the flow chart of a Bedrock agent: guardrail, pre-processing, routing, then the ReAct
loop (ask the model; carry out its calls, or ask the user, or answer), post-processing, guardrail,
and the session's summary when it ends and is to be remembered. It yields effects
and is sent their outcomes, which are journal records. The same records give the same turn again:
that is how a turn goes on after a return of control or a crash, and how its trace is made.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, assert_never

from orchestrator.actions.base import ActionResult
from orchestrator.actions.results import bounded
from orchestrator.calls import (
    Slot,
    identity,
    invocation_input,
    match_results,
    merged,
    prepare,
    prepare_search,
    result_text,
)
from orchestrator.collaboration import collaborate, prepare_message, route
from orchestrator.effects import (
    Answer,
    AwaitResults,
    CallModel,
    Dispatch,
    Effect,
    Failure,
    Refusal,
    Result,
    ReturnControl,
    WaitingCall,
)
from orchestrator.errors import (
    ActionOutcomeUnknown,
    DependencyFailed,
    LimitExceeded,
    ModelOutputError,
    OrchestratorError,
    error_class,
)
from orchestrator.guarding import guard_answer, guard_input, guard_results
from orchestrator.limits import Limits
from orchestrator.message import Block, Message
from orchestrator.payloads import shared
from orchestrator.prompts import Dialect
from orchestrator.prompts.values import memory_values
from orchestrator.reading import REFUSAL, Act, Reprompt, decide, refused, was_cut
from orchestrator.remembering import remember
from orchestrator.searching import answer_from_knowledge, search
from orchestrator.sessions.journal import Record, Said
from orchestrator.stages import Plan, StagePlan
from orchestrator.toolbox import tool_name

__all__ = ["Start", "Turn"]

_NONE: Mapping[str, str] = {}
_UNKNOWN = "The action did not answer in time; whether it took effect is not known."


@dataclass(slots=True)
class Start:
    """What a turn begins with.

    Attributes:
        request_id: A UUID; trace ids, idempotency keys and hand-over ids are made from it.
        question: The user's input.
        prompt_attributes: Prompt session attributes.
        path: The branch of the journal that the turn's records are in; empty for the agent that
            was invoked.
        team: Names the agent in its team: the names above it, and its own.
        limits: Budgets, when they are not the agent's own.
        last_agent: The collaborator that answered last.
        summaries: What is remembered of earlier sessions, newest first: `text` and more.
        retrieval: Retrieval configurations of this invocation, by knowledge base id.
        files: Files of this invocation (Bedrock: `InputFile`), their bytes in Base64.
        closing: Whether there is no question: the session only ends.
        remembers: Tells at the turn's end whether the session ends with it and is remembered.
    """

    request_id: str
    question: str
    prompt_attributes: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    team: str = ""
    limits: Limits | None = None
    last_agent: str = ""
    summaries: Sequence[Mapping[str, Any]] = ()
    retrieval: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    files: Sequence[Mapping[str, Any]] = ()
    closing: bool = False
    remembers: Callable[[], bool] = bool


class Turn:
    """One turn: `run` is its loop, the attributes are what it has come to know.

    Attributes:
        plan: The agent.
        start: What the turn begins with.
        prompt_attributes: Prompt session attributes; actions may replace them.
        scratchpad: Messages of the loop's finished steps.
        responses: Outputs of actions and knowledge bases, for `$responses$`.
        reprompts: What the model was told to do better: step number and text.
        sources: Retrieved references by source id.
        dialect: The dialect of the loop's model.
        question: The user's input, as the guardrail lets it be read.
        number: The step that the loop is at.
        payloads: What collaborators shared, by id.
        files: Files that actions made.
        unremembered: Why the session could not be summarised, if that failed.
    """

    __slots__ = (
        "_actions",
        "_begun",
        "_calls",
        "_done",
        "_excluded",
        "_last",
        "_limits",
        "_post",
        "_tokens",
        "dialect",
        "files",
        "number",
        "payloads",
        "plan",
        "prompt_attributes",
        "question",
        "reprompts",
        "responses",
        "scratchpad",
        "sources",
        "start",
        "unremembered",
    )

    def __init__(self, plan: Plan, start: Start) -> None:
        self.plan = plan
        self.start = start
        self.prompt_attributes = start.prompt_attributes
        self.scratchpad: list[Message] = []
        self.responses: list[dict[str, str]] = []
        self.reprompts: list[tuple[int, str]] = []
        self.sources: dict[str, dict[str, Any]] = {}
        self.payloads: dict[str, str] = {}
        self.files: list[Mapping[str, Any]] = []
        self.unremembered: OrchestratorError | None = None
        self.question = start.question
        self.number = 0
        self.dialect = plan.orchestration.dialect
        self._limits = start.limits or plan.limits
        self._post = plan.post_processing
        self._calls = self._tokens = self._actions = 0
        self._last: Record = {}
        self._begun: list[Slot] = []
        self._done: set[tuple[str, str]] | None = set() if self.dialect.no_repeat else None
        self._excluded: frozenset[str] = frozenset()

    def run(self) -> Generator[Effect, Any, Result]:
        """The whole turn, from its beginning to its result."""
        try:
            if self.start.closing:
                result: Result = Answer("")
            elif self.plan.guardrail is None:
                result = yield from self._stages()
            else:
                refusal = yield from guard_input(self)
                result = refusal or (yield from self._stages())
                result = yield from guard_answer(self, result)
            if self.start.remembers():
                yield from remember(self, result)
            return result
        except OrchestratorError as error:
            return Failure(error, getattr(error, "limit", "") or getattr(error, "code", ""))

    def _stages(self) -> Generator[Effect, Any, Result]:
        plan = self.plan
        if plan.pre_processing is not None:
            refusal = yield from self._pre_process(plan.pre_processing)
            if refusal is not None:
                return refusal
        result = None if plan.plain else (yield from self._specially())
        if result is None:
            result = yield from self._react()
        if isinstance(result, Answer):
            if self.payloads:
                result.text = shared(result.text, self.payloads)
            if self._post is not None:
                return (yield from self._post_process(self._post, result))
        return result

    def _specially(self) -> Generator[Effect, Any, Result | None]:
        plan = self.plan
        if plan.features.orchestration is not None:
            result: Result = yield from plan.features.orchestration.run(self)
            return result
        if plan.shortcut:
            return (yield from answer_from_knowledge(self))
        return (yield from route(self))

    def ask(
        self,
        stage: StagePlan,
        values: Mapping[str, str] = _NONE,
        *,
        number: int = 0,
        live: bool = False,
        of_past: Callable[[Sequence[Said]], Mapping[str, str]] | None = None,
    ) -> Generator[Effect, Any, Record]:
        """Asks the model of a stage outside the loop; its `model` record.

        Args:
            stage: The stage.
            values: Placeholder values that are not the same in every turn.
            number: The step that the call belongs to.
            live: Whether the answer may be shown while it streams.
            of_past: Makes further values of what was said in the session before.

        Raises:
            LimitExceeded: The turn may not call a model any more.
        """
        self._spend_model_call()
        attributes, none = self.prompt_attributes, frozenset[str]()
        outcome: Record = yield CallModel(
            stage, number, values, [], 0, attributes, live, none, of_past
        )
        self._add_tokens(outcome)
        return outcome

    @property
    def streams(self) -> bool:
        """Whether the answer may be shown while the loop's model writes it."""
        return self._post is None

    @property
    def spent(self) -> tuple[int, int, int]:
        """What the turn has spent: tokens, model calls and actions."""
        return self._tokens, self._calls, self._actions

    def count(self, outcome: Record) -> None:
        """Takes what a collaborator spent into this turn's budgets."""
        tokens, calls, actions = outcome["usage"]
        self._tokens += tokens
        self._calls += calls
        self._actions += actions

    def budget(self, own: Limits) -> Limits:
        """What a collaborator with the limits `own` may spend of this turn's budgets.

        Raises:
            LimitExceeded: There is nothing left.
        """
        limits = self._limits
        self._check_model_call()
        return replace(
            own,
            model_calls=min(own.model_calls, limits.model_calls - self._calls),
            tokens=min(own.tokens, limits.tokens - self._tokens),
            actions=min(own.actions, max(limits.actions - self._actions, 0)),
        )

    def forget_reply(self) -> None:
        """Has later turns read the answer's text alone, and not the model's reply."""
        self._last = {}

    def values(self, stage: StagePlan) -> dict[str, str]:
        """Placeholder values of this turn that few agents need."""
        dialect = stage.dialect
        values = memory_values(dialect, self.start.summaries)
        if self.start.files:
            name = "code_interpreter_files"
            files = [{"name": file["name"], "type": file["type"]} for file in self.start.files]
            values[name] = dialect.partial(name, files=files)
        return values

    def _pre_process(self, stage: StagePlan) -> Generator[Effect, Any, Refusal | None]:
        outcome = yield from self.ask(stage)
        if refusal := refused(outcome):
            return refusal
        if cut := was_cut(outcome):
            raise cut
        verdict = outcome["response"].get("preProcessingParsedResponse") or {}
        return None if verdict.get("isValidInput") else Refusal(REFUSAL)

    def _react(self) -> Generator[Effect, Any, Result]:
        stage = self.plan.orchestration
        live = self._post is None
        misread = 0
        for number in range(self._limits.iterations):
            self.number = number
            upto = len(self.scratchpad)
            self._spend_model_call()
            outcome = yield CallModel(
                stage,
                number,
                _NONE,
                self.scratchpad,
                upto,
                self.prompt_attributes,
                live,
                self._excluded,
            )
            self._add_tokens(outcome)
            self._last = outcome
            decision = decide(outcome, self.sources)
            if isinstance(decision, Act):
                misread = 0
                ended = yield from self._act(decision, number)
                if ended is not None:
                    return ended
            elif isinstance(decision, (Answer, Refusal)):
                return decision
            elif isinstance(decision, Reprompt):
                misread += 1
                self.reprompts.append((number, decision.text))
                self._check_misread(misread, decision)
                self._add_step([decision.as_result()])
            else:
                assert_never(decision)
        raise _limit("iterations", self._limits.iterations, "steps of the ReAct loop")

    def _post_process(
        self, stage: StagePlan, answer: Answer
    ) -> Generator[Effect, Any, Answer | Refusal]:
        if answer.stop_reason != "end_turn":
            return answer
        told = stage.dialect.partial("responses", responses=self.responses)
        # `$latest_response$` is the answer without its tags: the template brings its own.
        values = {"latest_response": answer.text, "responses": told, "bot_response": told}
        outcome = yield from self.ask(stage, values)
        if refusal := refused(outcome):
            return refusal
        if not was_cut(outcome):  # else the draft stays: it is whole
            parsed = outcome["response"].get("postProcessingParsedResponse") or {}
            answer.text = parsed.get("responseText") or answer.text
        return answer

    def _act(self, act: Act, number: int) -> Generator[Effect, Any, Result | None]:
        slots = self._slots(act, number)
        question = self._missing(slots) if self.dialect.unknown_value else ""
        if question:
            return Answer(question, "ask_user")
        self._spend_actions(slots)
        self._begun = slots
        ours = [slot for slot in slots if slot.call is not None and not slot.waits]
        if ours:
            yield from self._dispatch(ours, number)
        if len(ours) < len(slots):
            handed_over = yield from self._others(slots, number)
            if handed_over is not None:
                return handed_over
        if self.plan.features.guard_results:
            yield from guard_results(self, slots, number)
        if slots:
            self._add_step([slot.as_result() for slot in slots])
        self._begun = []
        return Answer(act.question, "ask_user") if act.question else None

    def _slots(self, act: Act, number: int) -> list[Slot]:
        catalog, dialect = self.plan.catalog, self.dialect
        slots = []
        for index, item in enumerate(act.actions):
            key = f"{self.start.request_id}:{number}:{index}"
            slots.append(prepare(catalog, item, dialect, f"call-{number}-{index}", key))
        for index, item in enumerate(act.searches):
            known = self.plan.knowledge_bases
            slots.append(prepare_search(known, item, f"search-{number}-{index}"))
        for index, item in enumerate(act.messages):
            slots.append(prepare_message(self, item, f"{number}.{index}"))
        if self._done:
            self._refuse_repetitions(slots, self._done)
        for slot in slots:
            if slot.error:
                self.reprompts.append((number, slot.text or ""))
        return slots

    def _refuse_repetitions(self, slots: list[Slot], done: set[tuple[str, str]]) -> None:
        # Small models repeat a call instead of answering; its result is already in the prompt.
        for slot in slots:
            if slot.call is not None and identity(slot.call) in done:
                self._excluded |= {tool_name(slot.call.operation, self.dialect.protocol)}
                slot.call = None
                slot.reject("This call was already made; its result is above. Answer with it.")

    def _missing(self, slots: list[Slot]) -> str:
        for slot in slots:
            if slot.unknown is not None:
                name = slot.unknown.name.replace("_", " ")
                what = slot.unknown.description.rstrip(".")
                if what.startswith(("The ", "A ", "An ")):
                    return f"Could you tell me {what[0].lower()}{what[1:]}?"
                return f"Could you tell me the {name} ({what})?" if what else f"What is the {name}?"
        return ""

    def _dispatch(self, slots: list[Slot], number: int) -> Generator[Effect, Any, None]:
        outcomes = yield Dispatch([slot.call for slot in slots if slot.call is not None], number)
        failure: OrchestratorError | None = None
        before = self.prompt_attributes
        for slot, outcome in zip(slots, outcomes, strict=True):
            state = outcome.get("state")
            slot.text, slot.error = outcome["text"], bool(state)
            if state == "FAILURE":
                failed = _failed(slot, outcome)
                failure = failure or failed
                # The error's own text is for the developer, not for the model.
                unknown = isinstance(failed, ActionOutcomeUnknown)
                slot.text = _UNKNOWN if unknown else "The action failed."
            self.add_response(slot)
            if "files" in outcome:
                self.files += outcome["files"]
            if "prompt_attributes" in outcome:
                given = outcome["prompt_attributes"]
                self.prompt_attributes = merged(before, self.prompt_attributes, given)
            if self._done is not None and slot.call is not None:
                self._done.add(identity(slot.call))
        if failure is not None:
            raise failure

    def _others(
        self, slots: list[Slot], number: int
    ) -> Generator[Effect, Any, ReturnControl | None]:
        yield from search(self, [slot for slot in slots if slot.search], number)
        teamwork = [slot for slot in slots if slot.branch is not None]
        handed_over = yield from collaborate(self, teamwork, number)
        if handed_over is not None:
            return handed_over
        waiting = [slot for slot in slots if slot.waits]
        return (yield from self._hand_over(waiting, number)) if waiting else None

    def _hand_over(
        self, slots: list[Slot], number: int
    ) -> Generator[Effect, Any, ReturnControl | None]:
        waiting = [WaitingCall(slot.call, slot.waits) for slot in slots if slot.call is not None]
        # Made from the request's random id, so that the same turn makes the same id again.
        id = str(uuid.uuid5(uuid.UUID(self.start.request_id), f"control-{number}"))
        outcome = yield AwaitResults(id, waiting, number)
        if outcome is None:
            agent_id, catalog = self.plan.agent_id, self.plan.catalog
            return ReturnControl(id, [invocation_input(catalog, one, agent_id) for one in waiting])
        self.prompt_attributes = outcome.get("prompt_attributes", self.prompt_attributes)
        results = match_results(waiting, outcome["results"])
        for slot, result in zip(slots, results, strict=True):
            self._take_result(slot, result)
        confirmed = [slot for slot in slots if slot.text is None]
        if confirmed:
            yield from self._dispatch(confirmed, number)
        return None

    def _take_result(self, slot: Slot, result: Mapping[str, Any]) -> None:
        if result.get("confirmationState") == "DENY":
            slot.reject("The user did not confirm this call; it was not carried out.")
            return
        if result.get("responseState") == "FAILURE":
            raise DependencyFailed(
                f"the caller reported that {slot.name!r} failed", resource=slot.name
            )
        if slot.waits == "USER_CONFIRMATION":
            return  # confirmed: it is carried out here
        given = ActionResult(result_text(result), result.get("responseState") or "")
        taken = bounded(given, self.plan.limits.result_bytes)
        slot.text, slot.error = taken.text, taken.state == "REPROMPT"
        self.add_response(slot)

    def _spend_model_call(self) -> None:
        self._check_model_call()
        self._calls += 1

    def _check_model_call(self) -> None:
        # Every budget is checked before the spending.
        limits = self._limits
        if self._calls >= limits.model_calls:
            raise _limit("model_calls", limits.model_calls, "model calls")
        if self._tokens >= limits.tokens:
            raise _limit("tokens", limits.tokens, "tokens")

    def _add_tokens(self, outcome: Record) -> None:
        self._tokens += outcome["usage"][0] + outcome["usage"][1]

    def _spend_actions(self, slots: list[Slot]) -> None:
        for slot in slots:
            if slot.text is None:
                self._actions += 1
        if self._actions > self._limits.actions:
            raise _limit("actions", self._limits.actions, "action calls")

    def add_response(self, slot: Slot) -> None:
        """Keeps an output for post-processing, if it runs."""
        if self._post is not None:
            self.responses.append({"name": slot.name, "text": slot.text or ""})

    def _add_step(self, results: list[dict[str, Any]]) -> None:
        self.scratchpad += self.dialect.step_messages(self._last["content"], results)

    def _check_misread(self, misread: int, problem: Reprompt) -> None:
        if misread > self._limits.reprompts:
            raise ModelOutputError(
                f"the model's reply could not be understood {misread} times in a row "
                f"({problem.code}); see the trace, or run `orchestrator parse` on the reply",
                code=problem.code,
                raw=problem.name,
            )

    def transcript(self, result: Result) -> list[Message]:
        """The finished turn as messages, for the history of the next turns.

        A refused input leaves nothing. A turn that failed, or whose answer was refused, is told
        only when it had carried out something, so that the model knows of it.
        """
        dialect = self.dialect
        if self.start.closing:
            return []
        told = self._unfinished_step() if isinstance(result, Failure) else []
        question = dialect.question_message(self.question)
        match result:
            case Answer(stop_reason="ask_user", text=text):
                last = dialect.answer_message([{"text": f"<answer>{text}</answer>"}])
            case Answer():
                return self.teller(result)()
            case Failure() if self.scratchpad or told:
                last = dialect.answer_message([{"text": "<answer>(The turn failed.)</answer>"}])
            case Refusal() if self.scratchpad:  # not with what was refused: it would be again
                last = dialect.answer_message([{"text": "<answer>(No answer was given.)</answer>"}])
            case _:
                return []
        return [question, *self.scratchpad, *told, last]

    def teller(self, result: Result) -> Callable[[], list[Message]]:
        """Makes the transcript when it is needed; after an answer, without keeping the turn."""
        if isinstance(result, Answer) and result.stop_reason != "ask_user":
            # What is not the loop's own last reply, word for word, is told as its text alone.
            content = self._last.get("content") or [{"text": f"<answer>{result.text}</answer>"}]
            return partial(_answered, self.dialect, self.question, self.scratchpad, content)
        return partial(self.transcript, result)

    def _unfinished_step(self) -> list[Message]:
        # What was carried out in a step that failed, or whose hand-over nobody answered.
        known = [slot for slot in self._begun if slot.text is not None]
        if not any(slot.call or slot.search or slot.branch for slot in known):
            return []
        results = [slot.as_result() for slot in known]
        return self.dialect.step_messages(self._last["content"], results)


def _answered(
    dialect: Dialect, question: str, scratchpad: list[Message], content: list[Block]
) -> list[Message]:
    return [dialect.question_message(question), *scratchpad, dialect.answer_message(content)]


def _limit(name: str, value: object, what: str) -> LimitExceeded:
    return LimitExceeded(
        f"the turn reached its limit of {value} {what}; raise the limit {name!r}, or find out "
        "from the trace why it needs so many",
        limit=name,
    )


def _failed(slot: Slot, outcome: Record) -> OrchestratorError:
    kind = error_class(outcome.get("error", ""))
    message = outcome["text"] or f"{slot.name!r} reported a failure"
    if issubclass(kind, DependencyFailed):
        return kind(message, resource=slot.name)
    return DependencyFailed(message, resource=slot.name)
