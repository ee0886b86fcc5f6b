"""`Flow`: a script that was read, to run alone, without an agent around it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from orchestrator.actions import CODE_INTERPRETER, ActionGroup
from orchestrator.agent import Agent
from orchestrator.effects import ReturnControl
from orchestrator.errors import FlowError, ValidationError
from orchestrator.flows.functions import functions_group
from orchestrator.flows.orchestration import FlowOrchestration, Listener
from orchestrator.flows.pausing import PAUSING, pausing_group
from orchestrator.flows.reading import read_file, read_text
from orchestrator.flows.state import read_state, state_of
from orchestrator.flows.steps import AskUser, Event, Program
from orchestrator.limits import Limits
from orchestrator.models import Model
from orchestrator.reply import Reply, TextDelta
from orchestrator.sessions import MemoryStore, Sessions
from orchestrator.stages import Features
from orchestrator.usage import Usage

__all__ = ["Flow", "FlowEvent", "FlowResult", "load_flow"]

LIMITS = Limits(
    iterations=500, model_calls=500, actions=2000, tokens=5_000_000, result_bytes=5_000_000
)
"""Budgets of a run that is given none: a script loops over lists."""

_NAME = "flow"


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Something that happened in a run.

    Attributes:
        type: What: `run_start`, `statement_start`, `token`, `tool_call`, `tool_result`,
            `role_switch`, `variable_set`, `breakpoint`, `exit`, `warning`, `error`, `run_end`.
        seq: Its number in the run, from 1; `token`s have that of the event before.
        line: The line in the script, from 1; 0 where there is none.
        members: More of it, such as `{"text": ...}`, `{"name": ..., "value": ...}`.
    """

    type: str
    seq: int
    line: int
    members: Mapping[str, Any] = field(default_factory=dict)


class FlowResult:
    """What a run came to.

    Attributes:
        output: PPE: the script's result. PL: the value of the last statement, or the message of
            `@exit`. While it waits, that of the last statement so far.
        variables: Every name that the run knows, and its value.
        messages: The messages of the last dialogue, in Converse's shape (PPE).
        paused: The state to go on with, JSON data, when the run waits; else `None`.
        waits_for: `breakpoint` or `user` while it waits; else empty.
        question: What the user is asked, while it waits for the user.
        reply: The turn behind it: `trace`, `usage`.
    """

    def __init__(self, listener: Listener, reply: Reply, paused: dict[str, Any] | None) -> None:
        self.reply = reply
        self.paused = paused
        self.waits_for = ""
        self.question = ""
        self.messages: Sequence[Mapping[str, Any]] = ()
        outcome, pause = listener.outcome, listener.pause
        if outcome is not None:
            self.output, self.variables = outcome.output, dict(outcome.variables)
            self.messages = outcome.messages
        elif pause is None:
            raise AssertionError("a run ends, or waits")
        else:
            user = isinstance(pause, AskUser)
            self.waits_for = "user" if user else "breakpoint"
            self.question = pause.text if isinstance(pause, AskUser) else ""
            self.output, self.variables = pause.output, dict(pause.variables)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Trace parts, as `InvokeAgent` tells them."""
        return self.reply.trace

    @property
    def usage(self) -> Usage:
        """Tokens of this part of the run."""
        return self.reply.usage

    def __repr__(self) -> str:
        return f"FlowResult(output={self.output!r}, waits_for={self.waits_for!r})"


class Flow:
    """A script that was read whole; it can be run any number of times, at once too.

    Attributes:
        program: What was read.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    def __repr__(self) -> str:
        return f"Flow({self.program.file or self.program.language!r})"

    @classmethod
    def from_text(cls, text: str, language: Literal["ppe", "pl"]) -> Flow:
        """Reads a script.

        Args:
            text: The script.
            language: `ppe` (Programmable Prompt Engine) or `pl` (the workflow prompt language).

        Raises:
            FlowError: It is wrong, with line and column.
        """
        return cls(read_text(text, language))

    def run(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        model: str | Model,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        action_groups: Sequence[ActionGroup] = (),
        limits: Limits | None = None,
        on_event: Callable[[FlowEvent], None] | None = None,
    ) -> FlowResult:
        """Runs it.

        Args:
            arguments: Values by name; for PPE also one text.
            model: A model, or its spec, as for `Agent`.
            tools: Functions that it may call, by name.
            action_groups: Actions that it may call besides.
            limits: Budgets.
            on_event: Told of each event as it happens.

        Raises:
            FlowError: The script, its data, a function or a reply is wrong.
            LimitExceeded: A budget is used up.
        """
        setup = _Setup(self.program, model, tools or {}, action_groups, limits, on_event)
        return setup.run(arguments if arguments is not None else {}, None, None)

    def resume(
        self,
        state: Mapping[str, Any],
        *,
        model: str | Model,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        mode: Literal["continue", "step"] = "continue",
        text: str = "",
        action_groups: Sequence[ActionGroup] = (),
        limits: Limits | None = None,
        on_event: Callable[[FlowEvent], None] | None = None,
    ) -> FlowResult:
        """Goes on with a run that waits.

        Args:
            state: What `paused` of its result was.
            model: As for `run`; so are the others.
            tools: As for `run`.
            mode: `continue`, or `step` to run one statement and wait again.
            text: The user's text, when it waits for the user.
            action_groups: As for `run`.
            limits: As for `run`.
            on_event: As for `run`.

        Raises:
            FlowError: As for `run`; or the state was changed, or is another script's.
            ValidationError: There is no such mode.
        """
        if mode not in ("continue", "step"):
            raise ValidationError(f"the mode is {mode!r}; it is 'continue' or 'step'")
        known = read_state(state, self.program.digest)
        setup = _Setup(self.program, model, tools or {}, action_groups, limits, on_event)
        answer = text if known["waits_for"] == "user" else mode
        return setup.run(known["arguments"], known, answer)


class _Setup:
    """An agent around a script, for one run."""

    def __init__(
        self,
        program: Program,
        model: str | Model,
        tools: Mapping[str, Callable[..., Any]],
        groups: Sequence[ActionGroup],
        limits: Limits | None,
        on_event: Callable[[FlowEvent], None] | None,
    ) -> None:
        self._program = program
        self._model = model
        self._tools = tools
        self._groups = [*groups, *script_groups(tools, program)]
        self._limits = limits or LIMITS
        self._on_event = on_event

    def run(
        self, arguments: Any, known: Mapping[str, Any] | None, answer: str | None
    ) -> FlowResult:
        listener = Listener(self._told(), seen=known["events"] if known else 0)
        store = MemoryStore()
        flow = FlowOrchestration(self._program, self._tools, arguments, listener)
        agent = Agent(
            _NAME,
            "Run a script.",
            self._model,
            action_groups=self._groups,
            sessions=Sessions(store),
            limits=self._limits,
            features=Features(orchestration=flow),
        )
        session_id = known["session"] if known else str(uuid.uuid4())
        with agent:
            if known is not None:
                store.append(known["key"], 0, known["journal"])
            reply = self._reply(agent, session_id, known, answer, listener)
            paused = None
            if reply.return_control is not None:
                (info,) = store.list()
                more = {
                    "arguments": arguments,
                    "key": info.key,
                    "session": session_id,
                    "events": listener.seen,
                    "waits_for": "user" if isinstance(listener.pause, AskUser) else "breakpoint",
                }
                paused = state_of(self._program.digest, store.load(info.key), more)
            _ = reply.trace  # while the agent is open
            return FlowResult(listener, reply, paused)

    def _reply(
        self,
        agent: Agent,
        session_id: str,
        known: Mapping[str, Any] | None,
        answer: str | None,
        listener: Listener,
    ) -> Reply:
        if known is None:
            events = agent.stream(_NAME, session_id)
        else:
            control = _control(known["journal"])
            events = agent.stream(session_id=session_id, results=control.answer(answer or ""))
        return self._last(events, listener)

    def _last(self, events: Generator[Any, None, None], listener: Listener) -> Reply:
        last: Any = None
        for last in events:
            if self._on_event is not None and isinstance(last, TextDelta):
                self._on_event(FlowEvent("token", listener.seen, 0, {"text": last.text}))
        reply: Reply = last.reply
        return reply

    def _told(self) -> Callable[[int, Event], None] | None:
        tell = self._on_event
        if tell is None:
            return None
        return lambda seq, event: tell(
            FlowEvent(event.type, seq, event.place.line, dict(event.members))
        )


def script_groups(tools: Mapping[str, Callable[..., Any]], program: Program) -> list[ActionGroup]:
    """The action groups that a script needs besides an agent's own."""
    groups = [pausing_group()]
    if tools:
        groups.append(functions_group(tools))
    if program.uses_code:
        groups.append(ActionGroup("code", signature=CODE_INTERPRETER))
    return groups


def _control(journal: Sequence[Mapping[str, Any]]) -> ReturnControl:
    suspended = next((one for one in reversed(journal) if one["kind"] == "suspend"), None)
    if suspended is None:
        raise FlowError(f"the state's journal does not wait in the group {PAUSING!r}")
    return ReturnControl(suspended["invocation_id"], suspended["inputs"])


def load_flow(path: str | Path) -> Flow:
    """Reads a script from a file, or a folder's main file, such as `main.ai.yaml` or `main.pl`.

    Args:
        path: `*.ai.yaml` and `*.ppe.yaml` are PPE, `*.pl` is the prompt language.

    Raises:
        FlowError: It is wrong, with file, line and column, or of no known kind.
        ResourceNotFound: There is no such file.
    """
    return Flow(read_file(Path(path)))
