"""`Agent`: a frozen definition, compiled once, that serves many sessions, threads and tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast

from orchestrator.actions import ActionGroup, Executor
from orchestrator.agent.compile import build_plan
from orchestrator.agent.invoke import (
    CarryOut,
    aevents,
    aopen_when_free,
    as_awaitable,
    begin_run,
    close_before,
    close_idle,
    close_session,
    complete_in_steps,
    events,
    finish_run,
    load_async_driver,
    open_in_lane,
    open_in_thread,
    open_when_free,
)
from orchestrator.agent.render import preview_values
from orchestrator.agent.validate import (
    Collaborator,
    check_parts,
    features_from_arguments,
    overrides_from_arguments,
)
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import Features, Memory, Orchestration, Override, Plan
from orchestrator.engine.rendered_prompt import Prompt
from orchestrator.engine.run.input import Input, check_id
from orchestrator.engine.run.invocation import Run
from orchestrator.engine.run.options import Options, may_block, read_options
from orchestrator.engine.run.restore import restore_history
from orchestrator.engine.run.threads import run_turn
from orchestrator.engine.trace.reply import Event, Reply
from orchestrator.errors import ValidationError
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.memory import MemoryStore
from orchestrator.models import Model, resolve_model
from orchestrator.sessions import Session, Sessions, SessionStore, session_label
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from orchestrator.agent.durable import DurableRuns, Submission
    from orchestrator.agent.recovery import RecoveredTurn
    from orchestrator.engine.trace.past_turns import PastTurn
    from orchestrator.engine.undecided_calls import Undecided

_MOST_TENANTS = 1_000  # whose plans an agent keeps
_ALL_SESSIONS = 100_000  # more than anybody begins in the days of storage


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
        guardrail: Guardrail | None = None,
        collaborators: Sequence[Collaborator] = (),
        collaboration: Literal["SUPERVISOR", "SUPERVISOR_ROUTER"] = "SUPERVISOR",
        memory: Memory | MemoryStore | str | Path | None = None,
        override_lambda: str | Callable[..., Any] | None = None,
        orchestration: Orchestration | Callable[..., Any] | None = None,
        aws_compat: Sequence[str] = (),
        unknown_outcomes: Literal["suspend", "end"] = "suspend",
        features: Features | None = None,
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
            templates: A folder of the user's own templates, which must be there; a file in it wins
                over the shipped one of the same name.
            prompts: Overrides of stages: a mapping from prompt types to Bedrock's
                `promptConfiguration` members.
            sessions: Where sessions live: `None` (memory), a path of a SQLite file, a URL
                (`sqlite:///path`, `dynamodb://table`, `postgresql://host/database`), a store, or
                `Sessions`.
            limits: Budgets of a turn.
            dialect: The dialect; chosen by the model's id when `None`.
            idle_session_ttl: Seconds after which an idle session begins anew (Bedrock:
                `idleSessionTTLInSeconds`).
            agent_id: Ten letters and digits; made from the name when empty. Sessions belong to an
                agent's id and alias: agents of one name share them in a shared store, unless
                their ids differ.
            alias_id: The alias that traces name.
            version: The version that traces name.
            guardrail: Checks the input and the answers.
            collaborators: Agents that it leads.
            collaboration: `SUPERVISOR` decides itself whom to send what; `SUPERVISOR_ROUTER` has
                a classifier send an input to one of them at once where one is fit for it.
            memory: What it remembers from one session to the next: a `Memory`, or only what keeps
                it, a store or a path of a SQLite file.
            override_lambda: The parser of the stages whose `parserMode` is `OVERRIDDEN`: a
                function of Bedrock's parser event, a handler file, or the ARN of a Lambda.
            orchestration: What decides instead of the built-in loop: a generator function of the
                turn, or an orchestration such as `LambdaOrchestration`; see
                `orchestrator.flows.custom`.
            aws_compat: Where to do as the service does, although ours says or does more:
                `single_knowledge_base`, `trace`.
            unknown_outcomes: What becomes of a turn whose process stopped in an action, when nobody
                knows whether that took effect: `suspend` has it wait until `decide` says so, `end`
                ends it with `ActionOutcomeUnknown`.
            features: All of these from `guardrail` on, except `override_lambda`, and the rarer
                ones together, instead.

        Raises:
            DefinitionError: The agent is wrong; `TemplateError` when a template is.
        """
        check_parts(action_groups, knowledge_bases, limits, idle_session_ttl)
        self.name = name
        self.sessions = Sessions.of(sessions)
        # The plan of a tenant and the one that it was made of: servers ask for it at each request
        self._tenant_plans: dict[str, tuple[Plan, Plan]] = {}
        # What `with_changes` compiles again
        self._make_plan = partial(
            build_plan,
            name=name,
            instruction=instruction,
            model=resolve_model(model),
            groups=action_groups,
            knowledge_bases=knowledge_bases,
            overrides=overrides_from_arguments(prompts, override_lambda),
            templates=Path(templates) if templates is not None else None,
            dialect=dialect,
            limits=limits,
            idle_ttl_seconds=idle_session_ttl,
            agent_id=agent_id,
            alias_id=alias_id,
            version=version,
            features=features_from_arguments(
                features,
                guardrail=guardrail,
                collaborators=collaborators,
                collaboration=collaboration,
                memory=memory,
                orchestration=orchestration,
                aws_compat=aws_compat,
                unknown_outcomes=unknown_outcomes,
            ),
            resolve=resolve_model,
        )
        self.plan: Plan = self._make_plan()

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        model: str | Model | None = None,
        sessions: Sessions | SessionStore | str | Path | None = None,
        limits: Limits | None = None,
        memory: MemoryStore | str | Path | None = None,
    ) -> Agent:
        """Loads an agent from a folder with an `agent.yaml`.

        Args:
            folder: The folder, or the file itself.
            model: Used instead of every model that the definition names, collaborators' too.
            sessions: As for `Agent`.
            limits: Used instead of the definition's `limits`.
            memory: Keeps what is remembered: a store, or a path of a SQLite file. By default a
                file beside that of the sessions, or this process's memory where they have none.

        Raises:
            DefinitionError: The definition is wrong, with file, line and column.
            ResourceNotFound: There is no such folder or file.
        """
        from orchestrator.agent.build import build, source_from_folder

        source = source_from_folder(Path(folder), model=model)
        return build(replace(source, sessions=sessions, limits=limits, memory=memory))

    @classmethod
    def inline(
        cls,
        *,
        model: str | Model | None = None,
        sessions: Sessions | SessionStore | str | Path | None = None,
        limits: Limits | None = None,
        folder: str | Path | None = None,
        trusted: bool = False,
        **definition: Any,
    ) -> Agent:
        """Makes an agent whose whole definition is in this call (Bedrock: InvokeInlineAgent).

        Args:
            model: Used instead of every model that the definition names, collaborators' too.
            sessions: As for `Agent`. Inline agents that share a store share their sessions: one
                goes on under the same id, also when the definition has changed meanwhile.
            limits: Budgets of a turn.
            folder: Where the files are that the definition names; without one it may name none.
            trusted: Whether the definition may start programs (`mcp.command`), send variables of
                this process and session attributes in headers, name addresses of models and hosts
                of private networks, and without `folder` files of models. Never pass it for a
                definition that others send, as a server's callers do.
            **definition: The members of InvokeInlineAgent, such as `foundationModel`,
                `instruction` and `actionGroups`, in Bedrock's spelling or Python's. Models,
                `ActionGroup`s, executors, functions in a Lambda's place, knowledge bases and
                guardrails may be objects.

        Raises:
            DefinitionError: The definition is wrong.
        """
        from orchestrator.agent.build import build
        from orchestrator.agent.from_request import source_from_request

        where = Path(folder).resolve() if folder is not None else None
        source = source_from_request(definition, model=model, folder=where, trusted=trusted)
        return build(replace(source, sessions=sessions, limits=limits))

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
        run = self._open_run(question, session_id, options)
        if isinstance(run, Reply):
            return run
        run_turn(run)
        return finish_run(run)

    def invoke_in_steps(
        self,
        carry_out: CarryOut,
        question: str = "",
        session_id: str | None = None,
        *,
        workflow: str = "",
        **options: Unpack[Options],
    ) -> Reply:
        """`invoke`, whose effects (a model call, actions, a search) are carried out by a function.

        It is for engines that record steps: `orchestrator.agent.durable` is one. An effect that the
        journal has the outcome of, from a process that has stopped, is not carried out again, and
        the function is not called for it.

        Args:
            carry_out: See `orchestrator.agent.invoke.CarryOut`.
            question: As for `invoke`.
            session_id: As for `invoke`.
            workflow: What the engine calls the work that the turn is of, if it goes on with the
                turn itself when this process ends: `recover` then leaves the turn alone.
            **options: As for `invoke`.

        Raises:
            OrchestratorError: The turn failed; `error.reply` holds what it had done.
            TurnLeft: `carry_out` raised it: the turn stays open.
        """
        request = self._read_input(question, session_id, options)
        request.workflow = workflow
        run = self._open_request(request)
        return run if isinstance(run, Reply) else complete_in_steps(run, carry_out)

    async def ainvoke(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Reply:
        """`invoke`, for an event loop."""
        run = await self._aopen(question, session_id, options)
        if isinstance(run, Reply):
            return run
        await load_async_driver().run_turn(run)
        return finish_run(run)

    def stream(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Generator[Event, None, None]:
        """`invoke`, which yields its events as they happen; closing the iterator stops the turn.

        Yields:
            `TextDelta`s of the answer, `TracePart`s, a `ControlReturn`, and at last a `TurnEnd`.

        Raises:
            OrchestratorError: The turn failed; `error.reply` holds what it had done.
            TurnLeft: It was thrown in: the turn stays open, for another process to go on with.
        """
        opening = partial(self._open_run, question, session_id, options)
        return cast("Generator[Event, None, None]", events(opening))

    def start(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Generator[Event, None, None]:
        """`stream`, begun: what is wrong with the call is raised here, before the first event.

        The session is taken then, until the iterator ends or is closed.
        """
        begun_events = events(partial(self._open_run, question, session_id, options), waits=True)
        next(begun_events)
        return cast("Generator[Event, None, None]", begun_events)

    def astream(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> AsyncGenerator[Event, None]:
        """`stream`, for an event loop."""
        opening = partial(self._aopen, question, session_id, options)
        return cast("AsyncGenerator[Event, None]", aevents(opening))

    async def astart(
        self,
        question: str = "",
        session_id: str | None = None,
        *,
        listen: bool = True,
        **options: Unpack[Options],
    ) -> AsyncGenerator[Event, None]:
        """`start`, for an event loop.

        Unless it is to `listen`, models answer whole, no trace is made, and only the events come
        that end every turn.
        """
        opening = partial(self._aopen, question, session_id, options)
        begun_events = aevents(opening, waits=True, listen=listen)
        await anext(begun_events)
        return cast("AsyncGenerator[Event, None]", begun_events)

    def submit(
        self,
        question: str = "",
        session_id: str | None = None,
        *,
        runs: DurableRuns,
        queue: str = "turns",
        retries: int = 0,
        delay: float = 0.0,
        **options: Unpack[Options],
    ) -> Submission:
        """Submits one turn to the workers of a database (extra `dbos`); returns at once.

        The turn outlives this process and every worker. Turns of one session run one after the
        other; in which order, nobody promises.

        Args:
            question: As for `invoke`.
            session_id: As for `invoke`.
            runs: The database.
            queue: The queue that workers take it from.
            retries: How often it is asked again, up to 10 times, when a dependency such as its
                model has failed and no action was begun.
            delay: Before how many seconds it does not begin.
            **options: See `Options`; without files and `session_state`. With a `request_id` the
                same submission twice is one turn.

        Raises:
            ValidationError: An argument is wrong, or the sessions are in this process's memory.
            SessionConflict: The `request_id` was submitted with other arguments.
            DependencyFailed: The database does not answer.
        """
        return runs.submit(
            self, question, session_id, options, queue=queue, retries=retries, delay=delay
        )

    def find_submission(self, id: str, *, runs: DurableRuns) -> Submission:
        """A turn of this agent, and of its tenant, that some process has submitted.

        Raises:
            ResourceNotFound: There is none with this id.
        """
        return runs.find(self, id)

    def check_input(self, question: str, session_id: str, options: Mapping[str, Any]) -> None:
        """Checks the arguments of an invocation, as far as that can be done without its session.

        Raises:
            ValidationError: One is wrong.
            TypeError: There is no such option.
        """
        request = read_options(question, session_id, cast("Options", options))
        request.check(self.plan.limits)
        request.check_options()

    def for_tenant(self, tenant: str) -> Self:
        """The same agent for one tenant: what it keeps of sessions is the tenant's own.

        Everything compiled is shared. Sessions, memories and the code interpreter's folders are
        not, also those of collaborators: the same session id is another session for each tenant.
        Lambda functions and MCP servers that store data by session ids do not see the tenant.

        Args:
            tenant: Any text that names the tenant; empty for the agent as it was without tenants.
        """
        agent = copy(self)
        known = self._tenant_plans.get(tenant)
        if known is None or not any(plan is self.plan for plan in known):
            if len(self._tenant_plans) >= _MOST_TENANTS:
                self._tenant_plans.clear()
            known = self._tenant_plans[tenant] = self.plan, self.plan.for_tenant(tenant)
        _, agent.plan = known
        return agent

    def close(self) -> None:
        """Ends what the agent has begun: MCP servers, the code interpreter's folders, open indexes.

        Otherwise they end with the process. They are shared with the agents that `for_tenant` has
        made of it, or that it was made of. An agent is also a context manager that does this.
        """
        self.plan.close()

    def __enter__(self) -> Self:
        """The agent itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

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
        session = Session("", "")
        if session_id is not None:
            session = self.sessions.peek(session_label(self.plan.owner, session_id))
            restore_history(self.plan, session)
        attributes = prompt_session_attributes
        filled = {
            "question": question,
            **(found.attribute_values(attributes) if attributes else {}),
            **preview_values(found, question, session),
            **(values or {}),
        }
        # The same binding as in a turn, so that the prompt is exact.
        bound = found.template.bind(filled, session.history)
        system, messages, model_id = bound.system, bound.messages(), found.model.model_id
        tools = () if found.tools_in_prompt else found.tools
        return Prompt(stage, model_id, system, messages, tools, found.inference)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is doubtful about the templates of its stages, as `orchestrator lint` says it."""
        stages = [stage for stage in self.plan.stages.values() if stage.enabled]
        found = [one for stage in stages for one in stage.template.diagnostics]
        return tuple(dict.fromkeys(one for one in found if one.severity != "info"))

    def end_session(self, session_id: str) -> None:
        """Ends a session: its next turn begins with no attributes and no conversation.

        A session that belongs to a memory is summarised first, by a model.

        Raises:
            SessionConflict: A turn of the session is running.
            ValidationError: The id is not valid.
            OrchestratorError: The session could not be summarised; it has not ended then.
        """
        check_id("session_id", session_id)
        label = session_label(self.plan.owner, session_id)
        # Only a session with a memory is worth a model call at its end (Bedrock: SESSION_SUMMARY).
        if self.plan.memory_stage is not None and self.sessions.peek(label).memory_id:
            close_session(self.plan, self.sessions, session_id)
        else:
            self.sessions.end(label)

    def undo_turn(self, session_id: str) -> None:
        """Undoes the last turn of a session: its next turn begins as that one did.

        Conversation and session attributes are as they were before it, and the model does not know
        of it any more. What its actions, programs and remote agents did stays done. Its records
        stay in the journal, where only the store itself still shows them.

        Raises:
            SessionConflict: A turn of the session is running.
            ValidationError: The id is not valid, or the session has no turn since it began.
            DependencyFailed: The session's journal cannot be read or written.
        """
        check_id("session_id", session_id)
        label = session_label(self.plan.owner, session_id)
        self.sessions.undo_turn(label, self.plan.idle_ttl)

    def recover(self) -> list[RecoveredTurn]:
        """Goes on with the turns of this agent, and of its tenant, that a process has left.

        These are the turns whose process has ended, or whose lease has passed. What was carried out
        is not carried out again; an action whose outcome nobody knows suspends its turn until
        `decide` says what became of it, unless it is idempotent or its executor knows (`status`).
        A turn that waits for its caller goes on waiting. A turn that was submitted is left to the
        workers of its database.

        Returns:
            What became of each. Turns that another process took meanwhile are not among them.

        Raises:
            DependencyFailed: The store cannot be read.
        """
        from orchestrator.agent.recovery import RecoveredTurn, list_left_sessions

        recovered: list[RecoveredTurn] = []
        for session_id in list_left_sessions(self.plan, self.sessions):
            with RecoveredTurn.observe(session_id, recovered) as turn:
                turn.reply = self.invoke("", session_id)
        return recovered

    async def arecover(self) -> list[RecoveredTurn]:
        """`recover`, for an event loop."""
        from orchestrator.agent.recovery import RecoveredTurn, list_left_sessions

        recovered: list[RecoveredTurn] = []
        left = in_thread(lambda: list(list_left_sessions(self.plan, self.sessions)))
        for session_id in await as_awaitable(left):
            with RecoveredTurn.observe(session_id, recovered) as turn:
                turn.reply = await self.ainvoke("", session_id)
        return recovered

    def find_undecided(self, session_id: str | None = None) -> list[Undecided]:
        """The turns that wait for somebody to say what became of an action.

        Its process stopped between the action and its record, so that nobody knows whether it took
        effect. Nothing is carried out again by itself; `decide` goes on.

        Args:
            session_id: One session; all of the agent, and of its tenant, when `None`.

        Raises:
            DependencyFailed: The store, or the session's journal in it, cannot be read.
        """
        from orchestrator.agent.recovery import list_undecided

        if session_id is not None:
            check_id("session_id", session_id)
        return list_undecided(self.plan, self.sessions, session_id)

    def decide(
        self,
        session_id: str,
        *,
        happened: Mapping[str, Any] | None = None,
        repeat: Sequence[str] = (),
        give_up: Sequence[str] = (),
    ) -> Reply:
        """Says what became of the actions that a session's turn waits for, and goes on with it.

        Each call is named once, by its idempotency key, or by its name where no other one has it.
        The same decision in the shape of Bedrock's results is
        `invoke(results=undecided.answer(...))`, which may be sent twice.

        Args:
            session_id: The session.
            happened: The calls that took effect, with what each gave: a text, or JSON data.
            repeat: The calls that did not take effect, and are carried out now, with the same key.
            give_up: The calls that stay unknown: the turn ends with `ActionOutcomeUnknown`.

        Raises:
            ValidationError: The session waits for no decision, or a call is not decided, or twice.
            SessionConflict: Another process is faster, or the agent was changed since.
            OrchestratorError: The turn failed.
        """
        decisions = {"happened": happened, "repeat": repeat, "give_up": give_up}
        return self.invoke("", session_id, results=self._find_results(session_id, decisions))

    async def adecide(
        self,
        session_id: str,
        *,
        happened: Mapping[str, Any] | None = None,
        repeat: Sequence[str] = (),
        give_up: Sequence[str] = (),
    ) -> Reply:
        """`decide`, for an event loop."""
        decisions = {"happened": happened, "repeat": repeat, "give_up": give_up}
        finding = in_thread(partial(self._find_results, session_id, decisions))
        results = await as_awaitable(finding)
        return await self.ainvoke("", session_id, results=results)

    def _find_results(self, session_id: str, decisions: Mapping[str, Any]) -> dict[str, Any]:
        from orchestrator.agent.recovery import find_decision_results

        check_id("session_id", session_id)
        return find_decision_results(self.plan, self.sessions, session_id, decisions)

    def with_models(self, change: Callable[[Model], Model]) -> Self:
        """The same agent and team, whose models are those that `change` makes of them.

        `change` is called once for each model. It has to keep the `model_id`, for which the
        prompts were made: wrap a model to count, record or replay it.
        """
        agent = copy(self)
        agent._tenant_plans = {}
        agent.plan = self.plan.with_models(_once_for_each(change))
        return agent

    def with_executors(self, change: Callable[[Executor], Executor]) -> Self:
        """The same agent and team, whose actions are carried out by what `change` makes.

        `change` is called for each operation with who carries it out. Prompts stay as they are.
        """
        agent = copy(self)
        agent._tenant_plans = {}
        agent.plan = self.plan.with_executors(change)
        return agent

    def with_changes(
        self,
        *,
        prompts: Mapping[str, str | Mapping[str, Any] | Override] | None = None,
        model: str | Model | None = None,
        instruction: str | None = None,
    ) -> Self:
        """The same agent, but for some of its prompts, its model or its instruction.

        It has the sessions and the memory of this one. What `with_models` and `with_executors` have
        changed is as it was before.

        Args:
            prompts: By prompt types, the text of a template, in the language and with the settings
                that the stage has; or what `Agent(prompts=...)` takes.
            model: Instead of the agent's model; stages with a model of their own keep it.
            instruction: Instead of the agent's instruction.

        Raises:
            DefinitionError: The changed agent is wrong; `TemplateError` when a template is.
            ValidationError: There is no such stage.
        """
        from orchestrator.agent.overrides import change_overrides

        changes: dict[str, Any] = {}
        if prompts:
            known = self._make_plan.keywords["overrides"]
            changes["overrides"] = change_overrides(self.plan, known, prompts)
        if model is not None:
            changes["model"] = resolve_model(model)
        if instruction is not None:
            changes["instruction"] = instruction
        agent = copy(self)
        agent._tenant_plans = {}
        agent._make_plan = partial(self._make_plan, **changes)
        agent.plan = replace(agent._make_plan(), alias_arn=self.plan.alias_arn)
        if self.plan.tenant:
            agent.plan = agent.plan.for_tenant(self.plan.tenant)
        return agent

    def fork(
        self,
        session_id: str,
        turn: str,
        call: int | None = None,
        *,
        new_session_id: str | None = None,
        results: Mapping[int, str] | None = None,
    ) -> str:
        """Copies a session up to a point of one of its turns, to go on from there otherwise.

        `invoke("", ID)` of the new session's id runs the turn from there: what was before is taken
        from the journal, nothing of it happens again. What comes after happens anew, actions too.
        Use `with_changes` before to have other prompts or another model from there.

        Args:
            session_id: The session; it stays as it is.
            turn: The `id` of one of its `turns`.
            call: The number of the turn's model call, from 1, to go on from; those of collaborators
                count, too. `None` ends before the turn, for another question in its place.
            new_session_id: The id of the copy, which must be new; made when it is left out.
            results: Other results of actions before the call, by their numbers in the turn, from 1.

        Returns:
            The new session's id.

        Raises:
            ResourceNotFound: There is no such turn.
            ValidationError: There is no such call, or the new session exists.
            DependencyFailed: The session's journal cannot be read, or the new one not written.
        """
        from orchestrator.agent.fork import find_free_id, fork_session

        new = new_session_id or find_free_id(self.plan, self.sessions, session_id)
        fork_session(
            self.plan,
            self.sessions,
            session_id,
            turn,
            call=call,
            new_session_id=new,
            results=results or {},
        )
        return new

    def remember(self, memory_id: str | None = None) -> list[str]:
        """Summarises the sessions that have been idle for longer than their time-out.

        An invocation with a `memory_id` does so first for the sessions of that memory.

        Args:
            memory_id: One memory; all of the agent's when `None`.

        Returns:
            The sessions that were summarised.

        Raises:
            OrchestratorError: Some could not be summarised, and wait for the next time; the
                others were.
        """
        return close_idle(self.plan, self.sessions, memory_id)

    def memories(self, memory_id: str) -> list[dict[str, Any]]:
        """What is remembered, newest first, as `memoryContents` of Bedrock's GetAgentMemory.

        These are all sessions until their days of storage are over, also those that are too old
        for prompts (`max_recent_sessions`).
        """
        memory = self.plan.features.memory
        if memory is None:
            return []
        from orchestrator.memory.summaries import memory_contents

        check_id("memory_id", memory_id)
        now = self.sessions.clock()
        return memory_contents(memory.store.recent(self.plan.owner, memory_id, now, _ALL_SESSIONS))

    def forget(self, memory_id: str | None = None, session_id: str | None = None) -> None:
        """Forgets a memory, or one session of it, or all (Bedrock: DeleteAgentMemory)."""
        memory = self.plan.features.memory
        if memory is not None:
            memory.store.delete(self.plan.owner, memory_id, session_id)

    def turns(self, session_id: str) -> list[PastTurn]:
        """The turns of a session, oldest first, with those from before it last began anew.

        Each has `id`, `question`, `text`, `stop_reason`, `at` (nanoseconds since 1970), `new`,
        `current` and, made when it is read, `trace`. Turns that were undone are left out.

        Raises:
            ValidationError: The id is not valid.
            DependencyFailed: The session's journal cannot be read.
        """
        from orchestrator.engine.trace.past_turns import load_past_turns

        check_id("session_id", session_id)
        return load_past_turns(self.sessions, session_label(self.plan.owner, session_id), self.plan)

    # May wait for files and for a memory's sessions: `_aopen` calls it in a thread where it does.
    def _read_input(self, question: str, session_id: str | None, options: Options) -> Input:
        if session_id is None:
            import uuid

            session_id = str(uuid.uuid4())
        if options:
            request = read_options(question, session_id, options)
        else:
            request = Input(question, session_id)
        request.check(self.plan.limits)
        if request.more:
            request.check_options()
        if self.plan.features.memory is not None:
            close_before(self.plan, self.sessions, request)
        return request

    def _open_run(self, question: str, session_id: str | None, options: Options) -> Run | Reply:
        return self._open_request(self._read_input(question, session_id, options))

    def _open_request(self, request: Input) -> Run | Reply:
        return open_when_free(self.plan.limits.session_wait, partial(self._open, request))

    async def _aopen(self, question: str, session_id: str | None, options: Options) -> Run | Reply:
        if self.plan.features.memory is not None:  # its store may block
            return await open_in_thread(partial(self._open_run, question, session_id, options))
        if options and may_block(options):
            request = await as_awaitable(
                in_thread(partial(self._read_input, question, session_id, options))
            )
        else:
            request = self._read_input(question, session_id, options)
        wait = self.plan.limits.session_wait
        if wait is not None:
            return await aopen_when_free(wait, partial(self._aopen_request, request))
        # A store in memory does not block.
        return await self._aopen_request(request) if self.sessions.durable else self._open(request)

    async def _aopen_request(self, request: Input) -> Run | Reply:
        if not self.sessions.durable:
            return self._open(request)
        label = session_label(self.plan.owner, request.session_id)
        opening = partial(self._open, request)
        return await open_in_lane(self.sessions, label, self.plan, request, opening)

    def _open(self, request: Input) -> Run | Reply:
        label = session_label(self.plan.owner, request.session_id)
        session = self.sessions.acquire(label, self.plan.idle_ttl)
        return begin_run(self.plan, self.sessions, session, request)


def _once_for_each(change: Callable[[Model], Model]) -> Callable[[Model], Model]:
    made: dict[int, Model] = {}  # the models live as long as the plan that is changed

    def find(model: Model) -> Model:
        if id(model) not in made:
            made[id(model)] = change(model)
        return made[id(model)]

    return find
