"""What a turn has come to know: its data, its budgets, its scratchpad and its transcript.

The helpers of the loop (steps, retrieval, guardrail checks, collaboration) work on this; `turn.py`
has the loop itself.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from orchestrator.actions.base import Call, Operation, Parameter
from orchestrator.engine.effects import (
    Branch,
    CallModel,
    Converse,
    Effect,
    Orchestrate,
    SessionView,
)
from orchestrator.engine.payloads import Payloads
from orchestrator.engine.plan import Plan, StagePlan
from orchestrator.engine.prompt_history import Talk
from orchestrator.engine.results import Answer, Failure, Refusal, Result
from orchestrator.errors import LimitExceeded, OrchestratorError
from orchestrator.limits import Limits
from orchestrator.message import Block, Message
from orchestrator.prompts import Dialect
from orchestrator.prompts.steps import EMPTY, step_messages
from orchestrator.prompts.values import render_memory_values
from orchestrator.sessions.journal import Record
from orchestrator.support.safe_json import iter_texts


class Slot:
    """One call of a reply, and what the model will read as its result."""

    # What few calls have stays the class's own: an instance with all of it takes twice as long.
    error: bool = False  # whether the result tells of a mistake
    # The parameters whose values the model says that it does not know
    unknown: Sequence[Parameter] = ()
    values: Mapping[str, Any] | None = None  # the arguments as the model gave them
    operation: Operation | None = None  # what is called, when values are unknown
    # The knowledge base and query of a search; its text is then made by a partial
    search: tuple[str, str] | None = None
    branch: Branch | None = None
    payloads: str = ""  # the text that has the payloads which it shares
    answer: Answer | Refusal | None = None  # what a collaborator answered, to be handed on
    # Whether no guardrail has to read the text any more: it did, or the text is ours
    checked: bool = False

    def __init__(self, id: str, name: str) -> None:
        self.id = id  # the tool-use id that the result answers
        self.name = name  # the tool name as the model wrote it
        self.call: Call | None = None  # the validated call, or `None` when it is wrong
        self.text: str | None = None  # the result; `None` until it is known
        # How the call waits for the caller (`actionInvocationType`); empty: it does not
        self.waits = ""

    def reject(self, text: str) -> None:
        """Answers the call with a mistake that the model can mend, in words of our own."""
        self.text = text
        self.error = self.checked = True

    def keep_back(self) -> None:
        """Keeps the result from later turns, if this one ended before it was checked."""
        if self.text and not self.checked:
            self.text, self.checked = "There was a result, which was not kept.", True

    def as_result(self) -> dict[str, Any]:
        """The result, as `step_messages` takes it."""
        return {
            "id": self.id,
            "name": self.name,
            "text": self.text or "",
            "error": self.error,
            "markup": self.search is not None and not self.error,
        }


NO_VALUES: Mapping[str, str] = {}
_NO_NAMES: frozenset[str] = frozenset()


class Start:
    """What a turn begins with."""

    # What few turns have stays the class's own, as of `Slot`.
    # The branch of the journal that the turn's records are in; empty for the agent that was invoked
    path: str = ""
    team: str = ""  # names the agent in its team: the names above it, and its own
    limits: Limits | None = None
    last_agent: str = ""
    # What is remembered of earlier sessions, newest first: `text` and more
    summaries: Sequence[Mapping[str, Any]] = ()
    # Retrieval configurations of this invocation, by knowledge base id
    retrieval: Mapping[str, Mapping[str, Any]] | None = None
    # Files of this invocation for programs (Bedrock: `InputFile`), their bytes in Base64
    files: Sequence[Mapping[str, Any]] = ()
    # Files of this invocation for the model, likewise
    attachments: Sequence[Mapping[str, str]] = ()
    closing: bool = False
    # The conversation that the caller gave, for the guardrail to read
    history: Sequence[Mapping[str, Any]] = ()
    # Whether the input is written, and the answer read, by a supervisor's model
    is_led: bool = False
    # The call of this agent that waits for the user, as a journal has it
    pending: Mapping[str, Any] | None = None
    # Says at the turn's end whether the session ends with it and is remembered
    remembers: Callable[[], bool] = bool
    # The messages of earlier turns, for a custom orchestration
    earlier: Callable[[], Sequence[Message]] = tuple

    def __init__(
        self, request_id: str, question: str, prompt_attributes: Mapping[str, str]
    ) -> None:
        # A UUID; trace ids, idempotency keys and hand-over ids are made from it
        self.request_id = request_id
        self.question = question
        self.prompt_attributes = prompt_attributes


@dataclass(slots=True, eq=False, repr=False)
class Iteration:
    """What an iteration of a script's loop does; its branch names it."""

    # What it does, in a turn that is a part of this one
    work: Callable[[Turn], Generator[Effect, Any, Result]]
    hear: Callable[[str], None] | None = None  # gets what its models write, as it streams
    error: OrchestratorError | None = None  # what it failed with in this process


class Turn:
    """What a turn has come to know.

    Attributes:
        scratchpad: The messages of the loop's finished steps.
        responses: Outputs of actions and knowledge bases, for `$responses$`.
        reprompts: The corrections that the model got: step number and text.
        sources: Retrieved references by source id.
        guarded: The prompt session attributes that the guardrail has read.
        prompt_attributes: Prompt session attributes; actions may replace them.
        question: The user's input, as the guardrail lets it be read.
        attachments: Files for the model, as the guardrail lets them be read.
        topics: The session's summary that is to be kept, once it was made; may be empty.
        unremembered: Why the session could not be summarised, if that failed.
        number: The step of the loop.
        results: The results of the last step, as `Slot.as_result` makes them.
        last_reply: The `model` record of the loop's last reply.
        consented: The id of the call that the user has agreed to.
        begun: The calls of the step that is being carried out.
        excluded: Tool names that may not be called any more.
        done: The calls that were carried out, with what came of them; `None` when any call may be
            repeated.
        iterations: Iterations of a script's loops that run side by side, by branch id.
        decide: Whom the `Orchestrate` effect that was yielded last asks.
        is_told_whole: Whether nobody wants the answer before its end.
    """

    # No dataclass: one is made for every turn, and with default factories a turn ran 2 % more
    # bytecodes.
    __slots__ = (
        "_actions",
        "_calls",
        "_payloads",
        "_shown",
        "_step_reply",
        "_step_start",
        "_tokens",
        "attachments",
        "begun",
        "consented",
        "decide",
        "dialect",
        "done",
        "excluded",
        "guarded",
        "is_told_whole",
        "iterations",
        "last_reply",
        "limits",
        "number",
        "plan",
        "prompt_attributes",
        "question",
        "reprompts",
        "responses",
        "results",
        "scratchpad",
        "sources",
        "start",
        "topics",
        "unremembered",
    )

    def __init__(self, plan: Plan, start: Start) -> None:
        self.plan = plan
        self.start = start
        self.limits = start.limits or plan.limits
        self.dialect = plan.orchestration.dialect
        self.prompt_attributes = start.prompt_attributes
        self.question = start.question
        self.attachments = start.attachments
        self.scratchpad: list[Message] = []
        self.responses: tuple[dict[str, str], ...] = ()
        self.reprompts: tuple[tuple[int, str], ...] = ()
        self.sources: dict[str, dict[str, Any]] = {}
        self.guarded: Mapping[str, str] = NO_VALUES
        self.topics: Sequence[Mapping[str, Any]] | None = None
        self.unremembered: OrchestratorError | None = None
        self.number = 0
        self.results: Sequence[dict[str, Any]] = ()
        self.last_reply: Record = {}
        self.begun: Sequence[Slot] = ()
        self.excluded = _NO_NAMES
        self.consented = ""
        self.done: dict[tuple[str, str], str] | None = {} if self.dialect.no_repeat else None
        self.iterations: dict[str, Iteration] = {}
        self.decide: Callable[[SessionView], dict[str, Any]] | None = None
        self.is_told_whole = False
        self._step_start, self._step_reply = 0, self.last_reply
        self._payloads: Payloads | None = None
        self._shown: list[str] = []
        self._calls = self._tokens = self._actions = 0

    def ask(
        self,
        stage: StagePlan,
        values: Mapping[str, str] = NO_VALUES,
        *,
        number: int = 0,
        live: bool = False,
        again: list[Message] | None = None,
        of_past: Callable[[Talk], Mapping[str, str]] | None = None,
    ) -> Generator[Effect, Any, Record]:
        """Asks the model of a stage outside the loop; its `model` record.

        `live`: the answer may be shown while it streams. `again`: replies that could not be
        understood, and their corrections. `of_past` makes values of the session's earlier turns.
        """
        self.spend_model_call()
        attributes, again = self.prompt_attributes, again or []
        outcome: Record = yield CallModel(
            stage, number, values, again, len(again), attributes, live, _NO_NAMES, of_past
        )
        self.add_tokens(outcome)
        return outcome

    def converse(self, effect: Converse) -> Generator[Effect, Any, Record]:
        """Asks a model for a custom orchestration; its `model` record."""
        self.spend_model_call()
        outcome: Record = yield effect
        self.add_tokens(outcome)
        return outcome

    def orchestrate(
        self, state: str, decide: Callable[[SessionView], dict[str, Any]]
    ) -> Generator[Effect, Any, Record]:
        """Has a custom orchestration decide what to do; its `orchestrated` record.

        `decide` makes the members of the record besides `kind`, `state` and times; it may block.
        """
        self.decide = decide
        outcome: Record = yield Orchestrate(state, self.number)
        return outcome

    @property
    def payloads(self) -> Payloads:
        """What collaborators shared."""
        if self._payloads is None:
            self._payloads = Payloads(self.plan.limits.result_bytes)
        return self._payloads

    @property
    def streams(self) -> bool:
        """Whether the answer may be shown while the loop's model writes it."""
        return self.plan.post_processing is None and not self.is_told_whole

    @property
    def spending(self) -> tuple[int, int, int]:
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
        limits = self.limits
        self.spend_model_call(0)
        return replace(
            own,
            model_calls=min(own.model_calls, limits.model_calls - self._calls),
            tokens=min(own.tokens, limits.tokens - self._tokens),
            actions=min(own.actions, max(limits.actions - self._actions, 0)),
        )

    def take_reply(self, content: list[Block]) -> None:
        """Has the next step be that of a reply that a custom orchestration made."""
        self.last_reply = {"content": content}

    def forget_reply(self) -> None:
        """Has later turns read the answer's text alone, and nothing else that the model wrote."""
        reply = self._step_reply
        if reply is self.last_reply and reply:  # it made calls, too: their results stay
            del self.scratchpad[self._step_start :]
            self.scratchpad += step_messages(self.dialect, [{"text": EMPTY}], self.results)
        self.last_reply = {}

    def values(self, stage: StagePlan) -> dict[str, str]:
        """Placeholder values of this turn that few agents need."""
        dialect = stage.dialect
        values = render_memory_values(dialect, self.start.summaries)
        if self.start.files:
            name = "code_interpreter_files"
            files = [{"name": file["name"], "type": file["type"]} for file in self.start.files]
            values[name] = dialect.partial(name, files=files)
        return values

    def spend_model_call(self, count: int = 1) -> None:
        """Counts a model call that is about to be made.

        Raises:
            LimitExceeded: The turn may not call a model any more.
        """
        limits = self.limits
        if self._calls >= limits.model_calls:
            raise build_limit_error("model_calls", limits.model_calls, "model calls")
        if self._tokens >= limits.tokens:
            raise build_limit_error("tokens", limits.tokens, "tokens")
        self._calls += count

    def add_tokens(self, outcome: Record) -> None:
        """Counts what a model call has used."""
        usage = outcome["usage"]
        self._tokens += usage[0] + usage[1]

    def spend_actions(self, count: int) -> None:
        """Counts calls that are about to be carried out.

        Raises:
            LimitExceeded: They are too many.
        """
        self._actions += count
        if self._actions > self.limits.actions:
            raise build_limit_error("actions", self.limits.actions, "action calls")

    def add_response(self, slot: Slot) -> None:
        """Keeps an output for post-processing, if it runs."""
        if self.plan.post_processing is not None:
            self.responses += ({"name": slot.name, "text": slot.text or ""},)

    def add_reprompt(self, number: int, text: str) -> None:
        """Notes a correction that the model got in a step."""
        self.reprompts += ((number, text),)

    def add_step(self, results: list[dict[str, Any]]) -> None:
        """Takes a finished step into the scratchpad: the model's last reply, and its results."""
        reply, scratchpad = self.last_reply, self.scratchpad
        self.results = results
        self._step_start, self._step_reply = len(scratchpad), reply
        scratchpad += step_messages(self.dialect, reply["content"], results)
        for result in results:
            self._shown.append(result["text"])

    def texts_of_others(self) -> Iterator[str]:
        """What this turn has shown to its model, and the model did not write."""
        yield self.question
        yield "\n".join(self._shown)  # a call may be put together of two results
        yield from self.prompt_attributes.values()
        for summary in self.start.summaries:
            yield from iter_texts(summary)
        for file in self.attachments:
            yield b64decode(file["bytes"]).decode("utf-8", "replace")

    def transcript(self, result: Result) -> list[Message]:
        """The finished turn as messages, for the history of the next turns.

        A refused input leaves nothing. A turn that failed, or whose answer was refused, is
        there only when it had carried out something, so that the model knows of it.
        """
        dialect = self.dialect
        if self.start.closing:
            return []
        unfinished = self._build_unfinished_step() if isinstance(result, Failure) else []
        question = dialect.question_message(self.question)
        match result:
            case Answer(stop_reason="ask_user", text=text):
                last = dialect.answer_message([{"text": f"<answer>{text}</answer>"}])
            case Answer():
                return self.defer_transcript(result)()
            case Failure() if self.scratchpad or unfinished:
                last = dialect.answer_message([{"text": "<answer>(The turn failed.)</answer>"}])
            case Refusal() if self.scratchpad:  # not with what was refused: it would be again
                last = dialect.answer_message([{"text": "<answer>(No answer was given.)</answer>"}])
            case _:
                return []
        return [question, *self.scratchpad, *unfinished, last]

    def defer_transcript(self, result: Result) -> Callable[[], list[Message]]:
        """Makes the transcript when it is needed; after an answer, without keeping the turn."""
        if isinstance(result, Answer) and result.stop_reason != "ask_user":
            if self.plan.orchestration.verbatim:
                return partial(
                    _build_plain_transcript, self.plan.orchestration, self.question, result.text
                )
            # What is not the loop's own last reply, word for word, is kept as its text alone.
            content = self.last_reply.get("content") or [
                {"text": f"<answer>{result.text}</answer>"}
            ]
            return _DeferredTranscript(self.dialect, self.question, self.scratchpad, content)
        return partial(self.transcript, result)

    def _build_unfinished_step(self) -> list[Message]:
        # What was carried out in a step that failed, or whose hand-over nobody answered.
        known = [slot for slot in self.begun if slot.text is not None]
        if not any(slot.call or slot.search or slot.branch for slot in known):
            return []
        if self.plan.features.guard_results:
            for slot in known:
                slot.keep_back()
        results = [slot.as_result() for slot in known]
        return step_messages(self.dialect, self.last_reply["content"], results)


class _DeferredTranscript(list[Message]):
    # It is the list of the steps itself: an idle session keeps it until its next turn, and neither
    # a list beside it nor the two objects of a partial function.
    __slots__ = ("_content", "_dialect", "_question")

    def __init__(
        self, dialect: Dialect, question: str, scratchpad: list[Message], content: list[Block]
    ) -> None:
        super().__init__(scratchpad)
        self._dialect = dialect
        self._question = question
        self._content = content

    def __call__(self) -> list[Message]:
        question = self._dialect.question_message(self._question)
        return [question, *self, self._dialect.answer_message(self._content)]


def _build_plain_transcript(stage: StagePlan, question: str, text: str) -> list[Message]:
    return [stage.dialect.question_message(question), stage.to_history_message(text)]


def build_limit_error(name: str, value: object, what: str) -> LimitExceeded:
    """The error of a budget that is used up."""
    return LimitExceeded(
        f"the turn reached its limit of {value} {what}; raise the limit {name!r}, or find out "
        "from the trace why it needs so many",
        limit=name,
    )
