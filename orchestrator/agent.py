"""`Agent`: a frozen definition, compiled once, that serves many sessions, threads and tasks."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from orchestrator.actions import ActionGroup
from orchestrator.driver import Progress, drive
from orchestrator.effects import Answer, Failure, Refusal, ReturnControl
from orchestrator.errors import SessionConflict, ValidationError, error_again
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.message import Message, Text
from orchestrator.models import Model, resolve_model
from orchestrator.opening import Input, check_session_id, open_turn, refuse_running
from orchestrator.reply import Details, Event, Reply, TextDelta, TracePart, TurnEnd
from orchestrator.run import Run, replay_again, restore_history
from orchestrator.sessions import Session, Sessions, SessionStore, TurnLog
from orchestrator.stages import Override, Plan, build_plan
from orchestrator.trace import TraceParts

if TYPE_CHECKING:
    from orchestrator.definition import AgentDefinition, PromptConfiguration

__all__ = ["Agent", "Options", "Prompt"]


class Options(TypedDict, total=False):
    """Options of one invocation.

    Attributes:
        session_attributes: Added to the session's attributes, for actions; they never reach a
            prompt.
        prompt_session_attributes: Attributes of this turn; they reach prompts and actions.
        results: Results of a return of control, from `reply.return_control.answer(...)`.
        conversation_history: Messages (`role`, `content` with text blocks) to begin a new session
            with.
        end_session: Ends the session after the turn.
    """

    session_attributes: Mapping[str, str]
    prompt_session_attributes: Mapping[str, str]
    results: Mapping[str, Any] | None
    conversation_history: Sequence[Mapping[str, Any]]
    end_session: bool


_OPTIONS = ", ".join(Options.__annotations__)


@dataclass(frozen=True, slots=True)
class Prompt(Sequence[Message]):
    """The exact prompt of a stage, as `Agent.render` shows it: a sequence of its messages.

    Attributes:
        stage: The prompt type.
        model_id: Whose prompt it is.
        system: The system text, with `.spans`.
        messages: The messages, each with `.spans`.
        tools: Converse tool specifications.
        inference: Bedrock's inference configuration.
    """

    stage: str
    model_id: str
    system: Text
    messages: list[Message]
    tools: Sequence[Mapping[str, Any]]
    inference: Mapping[str, Any]

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        """The messages at `index`."""
        return self.messages[index]

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self.messages)


class Agent:
    """An agent that runs.

    It is frozen configuration: it holds no turn and no session, and serves any number of them at
    once. Sessions live in `sessions`, which several agents may share.
    """

    def __init__(
        self,
        name: str,
        instruction: str,
        model: str | Model,
        *,
        action_groups: Sequence[ActionGroup] = (),
        knowledge_bases: Sequence[KnowledgeBase] = (),
        templates: str | Path | None = None,
        prompts: Mapping[str, Mapping[str, Any] | Override] | None = None,
        sessions: Sessions | SessionStore | str | Path | None = None,
        limits: Limits | None = None,
        dialect: str | None = None,
        idle_session_ttl: int = 1800,
        agent_id: str = "",
        alias_id: str = "TSTALIASID",
        version: str = "DRAFT",
    ) -> None:
        """Compiles the agent.

        Args:
            name: Its name.
            instruction: What it is for; fills `$instruction$`.
            model: A model, or a spec: a Bedrock model or inference profile id or ARN,
                `"openai:<model>@<base url>"`, `"local"`, `"local:<name or path>"`,
                `"scripted:<file>"`, `"replay:<file>"`.
            action_groups: What it can do.
            knowledge_bases: What it can search.
            templates: A folder of the user's own templates; a file there wins over the shipped
                one of the same name.
            prompts: Overrides of stages: a mapping from prompt types to Bedrock's
                `promptConfiguration` members.
            sessions: Where sessions live: `None` (memory), a path of a SQLite file, a store, or
                `Sessions`.
            limits: Budgets of a turn.
            dialect: The dialect; chosen by the model's id when `None`.
            idle_session_ttl: Seconds after which an idle session begins anew (Bedrock:
                `idleSessionTTLInSeconds`).
            agent_id: Ten letters and digits; made from the name when empty.
            alias_id: The alias that traces name.
            version: The version that traces name.

        Raises:
            DefinitionError: The agent is wrong; `TemplateError` when a template is.
        """
        self.name = name
        self.sessions = Sessions.of(sessions)
        self.plan: Plan = build_plan(
            name=name,
            instruction=instruction,
            model=resolve_model(model),
            groups=action_groups,
            knowledge_bases=knowledge_bases,
            overrides={stage: _override(stage, given) for stage, given in (prompts or {}).items()},
            templates=Path(templates) if templates is not None else None,
            dialect=dialect,
            limits=limits,
            idle_ttl_seconds=idle_session_ttl,
            agent_id=agent_id,
            alias_id=alias_id,
            version=version,
            resolve=resolve_model,
        )

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        model: str | Model | None = None,
        sessions: Sessions | SessionStore | str | Path | None = None,
        limits: Limits | None = None,
    ) -> Agent:
        """Loads an agent from a folder with an `agent.yaml`.

        Args:
            folder: The folder, or the file itself.
            model: Used instead of every model that the definition names.
            sessions: As for `Agent`.
            limits: Used instead of the definition's `limits`.

        Raises:
            DefinitionError: The definition is wrong, with file, line and column.
            ResourceNotFound: There is no such folder or file.
        """
        from orchestrator.definition import build_action_groups, load_definition, unsupported
        from orchestrator.definition.places import complaint

        path = Path(folder)
        definition = load_definition(path)
        root = path if path.is_dir() else path.parent
        if refused := unsupported(definition):
            raise complaint(refused)
        templates = root / "templates"
        spec: str | Model | None = model
        if spec is None and definition.foundation_model is not None:
            spec = resolve_model(definition.foundation_model, folder=root)
        if spec is None:
            raise definition.source.error(
                "there is no foundationModel; name one, or give `model=` (`--model`)"
            )
        return cls(
            definition.agent_name,
            definition.instruction,
            spec,
            action_groups=build_action_groups(definition, root),
            templates=templates if templates.is_dir() else None,
            prompts=_overrides(definition, root, model),
            sessions=sessions,
            limits=limits or (definition.limits.as_limits() if definition.limits else None),
            idle_session_ttl=definition.idle_session_ttl_in_seconds,
        )

    def invoke(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Reply:
        """Runs one turn.

        Args:
            question: The user's input. Empty with `results=`, or to go on with a turn that a
                stopped process left.
            session_id: The session: 2 to 100 letters, digits, `.`, `_`, `:`, `-`. A new session
                when `None`.
            **options: See `Options`.

        Raises:
            OrchestratorError: The turn failed; `error.reply` holds what it had done.
        """
        run = self._open(question, session_id, options)
        if isinstance(run, Reply):
            return run
        for _ in drive(run, listen=False):
            pass
        return self._end(run)

    async def ainvoke(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Reply:
        """`invoke`, for an event loop."""
        from orchestrator.driver.asynchronous import adrive

        run = self._open(question, session_id, options)
        if isinstance(run, Reply):
            return run
        async for _ in adrive(run, listen=False):
            pass
        return self._end(run)

    def stream(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Generator[Event, None, None]:
        """Runs one turn and yields its events as they happen; closing the iterator stops it.

        Args:
            question: As for `invoke`.
            session_id: As for `invoke`.
            **options: See `Options`.

        Yields:
            `TextDelta`s of the answer, `TracePart`s, a `ReturnControl`, and at last a `TurnEnd`.

        Raises:
            OrchestratorError: The turn failed; `error.reply` holds what it had done.
        """
        run = self._open(question, session_id, options)
        if isinstance(run, Reply):
            yield from _last_events(run, told=False)
            return
        events = _Events(run)
        with closing(drive(run, listen=True)) as progress:
            for item in progress:
                yield from events.of(item)
        yield from events.rest(partial(self._end, run))

    async def astream(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> AsyncGenerator[Event, None]:
        """`stream`, for an event loop."""
        from orchestrator.driver.asynchronous import adrive

        run = self._open(question, session_id, options)
        if isinstance(run, Reply):
            for event in _last_events(run, told=False):
                yield event
            return
        events = _Events(run)
        async with aclosing(adrive(run, listen=True)) as progress:
            async for item in progress:
                for event in events.of(item):
                    yield event
        for event in events.rest(partial(self._end, run)):
            yield event

    def render(
        self,
        stage: str,
        question: str,
        session_id: str | None = None,
        *,
        prompt_session_attributes: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Prompt:
        """The exact prompt that a stage would send; calls no model.

        Args:
            stage: The prompt type, such as `"ORCHESTRATION"`.
            question: The user's input.
            session_id: A session whose conversation the prompt goes on with.
            prompt_session_attributes: Attributes of the turn.
            values: Values of placeholders that only a running turn knows: `latest_response`,
                `responses`, `query`, `search_results`.

        Raises:
            ValidationError: There is no such stage.
        """
        found = self.plan.stages.get(stage)
        if found is None:
            raise ValidationError(
                f"there is no stage {stage!r}; there are {', '.join(self.plan.stages)}"
            )
        history: Sequence[Message] = ()
        if session_id is not None:
            session = self.sessions.peek(self._label(session_id))
            restore_history(self.plan, session)
            history = session.history
        filled = {**found.values(question, prompt_session_attributes or {}), **(values or {})}
        bound = found.template.bind(filled, history)
        return Prompt(
            stage,
            found.model.model_id,
            bound.system,
            bound.messages(),
            found.tools,
            found.inference,
        )

    def end_session(self, session_id: str) -> None:
        """Ends a session: its next turn begins with no attributes and no conversation.

        Raises:
            SessionConflict: A turn of the session is running.
            ValidationError: The id is not valid.
        """
        check_session_id(session_id)
        session = self.sessions.acquire(self._label(session_id), self.plan.idle_ttl)
        try:
            refuse_running(self.sessions, session, session_id)
            if session.count:
                closed = {"kind": "closed", "reason": "ended", "at": self.sessions.clock()}
                self.sessions.write(session, [closed])
        finally:
            self.sessions.release(session)

    def _label(self, session_id: str) -> str:
        return f"{self.plan.agent_id}/{self.plan.alias_id}/{session_id}"

    def _open(self, question: str, session_id: str | None, options: Options) -> Run | Reply:
        given = Input(
            question=question,
            session_id=str(uuid.uuid4()) if session_id is None else session_id,
            session_attributes=options.get("session_attributes") or {},
            prompt_session_attributes=options.get("prompt_session_attributes") or {},
            results=options.get("results"),
            conversation_history=options.get("conversation_history") or (),
        )
        if options and (unknown := options.keys() - Options.__annotations__.keys()):
            raise TypeError(f"unknown options {sorted(unknown)}; there are {_OPTIONS}")
        given.check(self.plan.limits)
        session = self.sessions.acquire(self._label(given.session_id), self.plan.idle_ttl)
        try:
            if session.unread:
                restore_history(self.plan, session)
            finished = open_turn(self.plan, self.sessions, session, given)
            if finished is None:
                if session.unread:  # a turn was given up
                    restore_history(self.plan, session)
                return Run(
                    self.plan,
                    self.sessions,
                    session,
                    given.session_id,
                    ends_session=options.get("end_session", False),
                )
            reply = self._reply_again(finished, session, given.session_id)
        except BaseException:
            self.sessions.release(session)
            raise
        self.sessions.release(session)
        return reply

    def _end(self, run: Run) -> Reply:
        reply = _reply(run)
        if isinstance(run.result, Failure):
            error = run.result.error
            error.reply = reply
            raise error
        return reply

    def _reply_again(self, log: TurnLog, session: Session, session_id: str) -> Reply:
        # The same results were given before: the reply that they led to, from the journal.
        end = log.end or log.suspended or log.start
        control = None
        if end["kind"] == "suspend":
            control = ReturnControl(end["invocation_id"], end["inputs"])
        reply = Reply(
            text=end.get("text", ""),
            stop_reason=end.get("stop_reason", "return_control"),
            session_id=session_id,
            citations=end.get("citations", []),
            return_control=control,
        )
        with suppress(SessionConflict):  # the agent was changed since: the answer still holds
            replay = replay_again(self.plan, session, log)
            parts = TraceParts(self.plan, session_id, log.start["at"], replay)
            make_trace = partial(parts.whole, log.end, replay.resumed_at)
            reply._details = Details(make_trace, list)
        if end.get("result") == "failure":
            error = error_again(end["error"], end["message"], end["stop_reason"])
            error.reply = reply
            raise error
        return reply


def _override(stage: str, given: Mapping[str, Any] | Override) -> Override:
    if isinstance(given, Override):
        return given
    from orchestrator.definition import definition_of

    definition = definition_of(
        {
            "agentName": "agent",
            "promptOverrideConfiguration": {
                "promptConfigurations": [{"promptType": stage, **given}]
            },
        }
    )
    configuration = definition.prompt(stage)
    if configuration is None:
        raise AssertionError("the configuration was just given")
    text = configuration.base_prompt_template if configuration.overridden else None
    return _as_override(configuration, text, f"prompts[{stage!r}]")


def _overrides(
    definition: AgentDefinition, root: Path, model: str | Model | None
) -> dict[str, Override]:
    from orchestrator.definition import prompt_text

    configurations = definition.prompt_override_configuration
    made: dict[str, Override] = {}
    for configuration in configurations.prompt_configurations if configurations else ():
        stage = configuration.prompt_type
        found = prompt_text(definition, stage, root)
        text, source = (found.text, found.source) if found else (None, None)
        override = _as_override(configuration, text, source)
        if override.model is not None:  # paths in the definition are relative to its folder
            spec = override.model if model is None else model
            override = replace(override, model=resolve_model(spec, folder=root))
        made[stage] = override
    return made


def _as_override(
    configuration: PromptConfiguration, text: str | None, source: str | None
) -> Override:
    inference = configuration.inference_configuration
    state = configuration.prompt_state
    return Override(
        template=text,
        source=source,
        enabled=None if state is None else state == "ENABLED",
        inference=inference.as_dict() if inference else {},
        model=configuration.foundation_model,
        additional=configuration.additional_model_request_fields or {},
    )


class _Events:
    # From the driver's progress to the events of a stream.
    __slots__ = ("_begun", "_parts", "_run", "_told")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._told = False
        self._begun = False
        self._parts = _trace_parts(run)

    def of(self, item: str | Progress) -> Iterator[Event]:
        if isinstance(item, str):
            self._told = True
            yield TextDelta(item)
            return
        if not self._begun:
            yield from self._beginning()
        if item.outcome is None:
            parts = self._parts.before(item.effect, self._run.now())
        else:
            parts = self._parts.after(item.effect, item.outcome)
        for part in parts:
            yield TracePart(part)

    def rest(self, end: Callable[[], Reply]) -> Iterator[Event]:
        run = self._run
        if not self._begun:
            yield from self._beginning()
        if isinstance(run.result, ReturnControl):
            # No driver carries a hand-over out, so none reports it.
            for part in self._parts.before(run.replay.steps[-1][0], run.now()):
                yield TracePart(part)
        for part in self._parts.ending(run.log.end):
            yield TracePart(part)
        yield from _last_events(end(), told=self._told)

    def _beginning(self) -> Iterator[Event]:
        # The caller's answer that this invocation brought; the steps before it were told.
        self._begun = True
        if since := self._run.resumed_at:
            for part in self._parts.whole(None, since):
                yield TracePart(part)


def _last_events(reply: Reply, *, told: bool) -> Iterator[Event]:
    if reply.text and not told:
        yield TextDelta(reply.text)
    if reply.return_control is not None:
        yield reply.return_control
    yield TurnEnd(reply)


def _reply(run: Run) -> Reply:
    details = Details(partial(_whole_trace, run), run.new_records)
    result, session_id = run.result, run.session_id
    if isinstance(result, Answer):
        text, reason, cited = result.text, result.stop_reason, result.citations
        return Reply(text, reason, session_id, citations=cited, details=details)
    if isinstance(result, Refusal):
        return Reply(result.text, result.stop_reason, session_id, details=details)
    if isinstance(result, ReturnControl):
        return Reply("", "return_control", session_id, return_control=result, details=details)
    reason = result.code if result is not None and result.code else "failure"
    return Reply("", reason, session_id, details=details)


def _trace_parts(run: Run) -> TraceParts:
    return TraceParts(run.plan, run.session_id, run.log.start["at"], run.replay)


def _whole_trace(run: Run) -> list[dict[str, Any]]:
    return _trace_parts(run).whole(run.log.end, run.resumed_at)
