"""`Agent`: a frozen definition, compiled once, that serves many sessions, threads and tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast

from orchestrator.actions import ActionGroup
from orchestrator.agent.agent_sessions import AgentSessions
from orchestrator.agent.agent_variants import AgentVariants
from orchestrator.agent.compile import build_plan
from orchestrator.agent.validate import (
    Collaborator,
    check_parts,
    check_texts,
    features_from_arguments,
    overrides_from_arguments,
)
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import Features, Memory, Orchestration, Override
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge import KnowledgeBase
from orchestrator.limits import Limits
from orchestrator.memory import MemoryStore
from orchestrator.models import Model, resolve_model
from orchestrator.sessions import Sessions, SessionStore

if TYPE_CHECKING:
    from orchestrator.agent.durable import DurableRuns, Submission
    from orchestrator.agent.invoke import CarryOut
    from orchestrator.engine.rendered_prompt import Prompt
    from orchestrator.engine.run.options import Options
    from orchestrator.engine.trace.reply import Event, Reply


@cache
def _load_invoke() -> ModuleType:
    # Imported with the first turn, and not looked for again: an agent that is only built, checked
    # or rendered needs nothing of it, and it is a sixth of what `Agent` would import.
    from orchestrator.agent import invoke

    return invoke


class Agent(AgentSessions, AgentVariants):
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

        In brackets are the members of Bedrock's API that arguments with other names stand for.

        Args:
            name: The agent's name, in traces and messages. Without an `agent_id` its id is made
                from it.
            instruction: What the agent is for: the `$instruction$` of its prompts.
            model: The model of all stages that `prompts` gives no other. A `Model`, or a spec: the
                id or ARN of a Bedrock model or inference profile, `"openai:<model>@<base url>"`,
                `"local"`, `"local:<name or path>"`, `"scripted:<file>"`, `"replay:<file>"`.
            action_groups: The functions and operations that the model may call, with what carries
                each of them out.
            knowledge_bases: Where the model may search for passages.
            templates: A folder of your own templates, which must be there. A file in it is used
                instead of the shipped one of the same name. Only shipped ones when `None`.
            prompts: Changes of single stages, by prompt type such as `"ORCHESTRATION"`: members of
                Bedrock's `promptConfiguration`, or an `Override`. A stage or member that is left
                out stays as the dialect has it.
            sessions: Where sessions are stored. `None` is this process's memory; a path, or
                `sqlite:///path`, is a SQLite file; `dynamodb://table` and
                `postgresql://host/database` are databases. Or it is a store of your own, or a
                `Sessions` that agents share.
            limits: The budgets of one turn, such as its seconds and iterations. `Limits()` when
                `None`.
            dialect: The name of the dialect, which is how prompts are written and replies read.
                Chosen by the model's id when `None`.
            idle_session_ttl: After how many seconds without a turn a session begins anew
                (`idleSessionTTLInSeconds`).
            agent_id: Ten letters and digits (`agentId`); made from the name when empty. Sessions
                belong to an id and an alias, so agents of one name share them in a shared store
                unless their ids differ.
            alias_id: The alias (`agentAliasId`), in traces and in what sessions belong to.
            version: The version in traces (`agentVersion`): `DRAFT` or a number.
            guardrail: Checks what users send and what the agent answers. Nothing does when `None`.
            collaborators: The agents that this one leads, each with when to ask it.
            collaboration: How it leads them (`agentCollaboration`). With `SUPERVISOR` its model
                decides whom to send what. With `SUPERVISOR_ROUTER` a classifier first sends an
                input straight to one of them, where one is fit for it.
            memory: What it remembers from one session to the next: a `Memory`, or only the place
                that keeps it, a store or the path of a SQLite file. Nothing when `None`.
            override_lambda: The parser of those stages whose `parserMode` is `OVERRIDDEN`
                (`overrideLambda`): a function of Bedrock's parser event, a handler file, or the ARN
                of a Lambda.
            orchestration: What decides each step instead of the built-in loop: a generator function
                of the turn, or an orchestration such as `LambdaOrchestration`; see
                `orchestrator.flows.custom`. The built-in loop when `None`.
            aws_compat: Where to do as the service does, although ours says or does more:
                `single_knowledge_base`, `trace`.
            unknown_outcomes: What becomes of a turn whose process stopped in an action, when nobody
                knows whether that took effect. With `suspend` it waits until `decide` says so; with
                `end` it ends with `ActionOutcomeUnknown`.
            features: A `Features` instead of the arguments `guardrail`, `collaborators`,
                `collaboration`, `memory`, `orchestration`, `aws_compat` and `unknown_outcomes`,
                none of which may stand beside it. It has members that are no arguments here, such
                as `guard_results`.

        Raises:
            DefinitionError: The agent is wrong; `TemplateError` when a template is.
        """
        check_texts(name, instruction)
        check_parts(action_groups, knowledge_bases, limits, idle_session_ttl)
        self.name = name
        self.sessions = Sessions.of(sessions)
        self._tenant_plans = {}
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
        self.plan = self._make_plan()

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
        turns = _load_invoke()
        run = turns.open_run(self.plan, self.sessions, question, session_id, options)
        if isinstance(run, turns.Reply):
            return cast("Reply", run)
        return cast("Reply", turns.complete(run))

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
        turns = _load_invoke()
        request = turns.read_input(self.plan, self.sessions, question, session_id, options)
        request.workflow = workflow
        run = turns.open_request(self.plan, self.sessions, request)
        if isinstance(run, turns.Reply):
            return cast("Reply", run)
        return cast("Reply", turns.complete_in_steps(run, carry_out))

    async def ainvoke(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Reply:
        """`invoke`, for an event loop."""
        turns = _load_invoke()
        run = await turns.aopen_run(self.plan, self.sessions, question, session_id, options)
        if isinstance(run, turns.Reply):
            return cast("Reply", run)
        await turns.load_async_driver().run_turn(run)
        return cast("Reply", turns.finish_run(run))

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
        turns = _load_invoke()
        opening = partial(turns.open_run, self.plan, self.sessions, question, session_id, options)
        return cast("Generator[Event, None, None]", turns.events(opening))

    def start(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> Generator[Event, None, None]:
        """`stream`, begun: what is wrong with the call is raised here, before the first event.

        The session is taken then, until the iterator ends or is closed.
        """
        turns = _load_invoke()
        opening = partial(turns.open_run, self.plan, self.sessions, question, session_id, options)
        begun_events = turns.events(opening, waits=True)
        next(begun_events)
        return cast("Generator[Event, None, None]", begun_events)

    def astream(
        self, question: str = "", session_id: str | None = None, **options: Unpack[Options]
    ) -> AsyncGenerator[Event, None]:
        """`stream`, for an event loop."""
        turns = _load_invoke()
        opening = partial(turns.aopen_run, self.plan, self.sessions, question, session_id, options)
        return cast("AsyncGenerator[Event, None]", turns.aevents(opening))

    async def astart(
        self,
        question: str = "",
        session_id: str | None = None,
        *,
        listen: bool = True,
        stream_text: bool = True,
        **options: Unpack[Options],
    ) -> AsyncGenerator[Event, None]:
        """`start`, for an event loop.

        Unless it is to `listen`, models answer whole, no trace is made, and only the events come
        that end every turn. Unless with `stream_text`, the trace comes as it is made, and the
        answer at its end, checked as a whole.
        """
        turns = _load_invoke()
        opening = partial(turns.aopen_run, self.plan, self.sessions, question, session_id, options)
        begun_events = turns.aevents(opening, waits=True, listen=listen, stream_text=stream_text)
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
        from orchestrator.engine.run.options import read_options

        request = read_options(question, session_id, cast("Options", options))
        request.check(self.plan.limits)
        request.check_options()

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
        from orchestrator.agent.render import render_stage

        return render_stage(
            self.plan,
            self.sessions,
            stage,
            question,
            session_id=session_id,
            attributes=prompt_session_attributes,
            values=values,
        )

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is doubtful about the templates of its stages, as `orchestrator lint` says it."""
        stages = [stage for stage in self.plan.stages.values() if stage.enabled]
        found = [one for stage in stages for one in stage.template.diagnostics]
        return tuple(dict.fromkeys(one for one in found if one.severity != "info"))
