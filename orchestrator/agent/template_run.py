"""One run of a template: a rendering, an agent around it, and what comes out."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, Protocol, TypedDict

from orchestrator.agent.agent import Agent
from orchestrator.agent.template_model import resolve_template_model
from orchestrator.agent.template_request import build_request
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import Features
from orchestrator.engine.trace.reply import Event, Reply, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.flows.orchestration import check_functions
from orchestrator.flows.template_loop import (
    TemplateOrchestration,
    TemplateOutcome,
    TemplateRequest,
)
from orchestrator.limits import Limits
from orchestrator.models import Model
from orchestrator.models.base import Usage
from orchestrator.prompts.languages.base import Document, Rendered, check_given_inputs
from orchestrator.sessions import Sessions, SessionStore
from orchestrator.support.safe_json import json_or
from orchestrator.support.threads import in_thread_of_loop

Functions = Mapping[str, Callable[..., Any]]


class TemplateOptions(TypedDict, total=False):
    """Options of a run."""

    model: str | Model | None  # a model, or its spec, as for `Agent`; else the one of the file
    # Functions by name that the model may call. A tool that the file defines and that has no
    # function here ends the run, whose `tool_calls` the caller carries out.
    tools: Functions | None
    # Functions that the template itself calls, by `plugin.function` or `function` (Semantic Kernel)
    functions: Functions | None
    limits: Limits | None  # budgets, as for `Agent`


class Template(Protocol):
    """What a run needs of a template."""

    document: Document
    name: str

    def render(self, inputs: Mapping[str, Any], functions: Functions | None = None) -> Rendered:
        """Renders it."""


class TemplateResult:
    """The outcome of a run.

    Attributes:
        text: The answer.
        output: The answer's JSON data, where the file declares `outputs` and the answer is JSON;
            else the text.
        messages: The whole conversation, in Converse's shape.
        tool_calls: Calls of tools that have no function: `toolUseId`, `name` and `input` of each.
        diagnostics: What was doubtful about the template and its inputs.
        reply: The turn behind it: `trace`, `usage`.
    """

    def __init__(
        self,
        document: Document,
        reply: Reply,
        outcome: TemplateOutcome,
        diagnostics: Sequence[Diagnostic],
    ) -> None:
        self.reply = reply
        self.text = reply.text
        declared = document.settings.get("outputs")
        self.output: Any = json_or(reply.text, reply.text) if declared else reply.text
        self.messages = outcome.messages
        self.tool_calls = outcome.tool_calls
        self.diagnostics = diagnostics

    @property
    def stop_reason(self) -> str:
        """`end_turn`, `tool_use` while there are `tool_calls`, `max_tokens`, ..."""
        return self.reply.stop_reason

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Trace parts in the shape of `InvokeAgent`."""
        return self.reply.trace

    @property
    def usage(self) -> Usage:
        """Tokens of the run."""
        return self.reply.usage

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"TemplateResult({self.text!r}, stop_reason={self.stop_reason!r})"

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "text": self.text,
            "output": self.output,
            "stop_reason": self.stop_reason,
            "tool_calls": [dict(one) for one in self.tool_calls],
            "usage": self.usage._asdict(),
            "diagnostics": [one.as_dict() for one in self.diagnostics],
        }


def check_inputs(inputs: object) -> Mapping[str, Any]:
    """The inputs of a template.

    Raises:
        ValidationError: They are no values by name.
    """
    if not isinstance(inputs, Mapping):
        kind = type(inputs).__name__
        raise ValidationError(f"the inputs are values by name, and no {kind}: give a mapping")
    return inputs


class TemplateRun:
    """One run.

    Attributes:
        diagnostics: What is doubtful about the template and its inputs, once it is rendered.
        result: The outcome, once there is one.
    """

    def __init__(
        self, template: Template, inputs: Mapping[str, Any] | None, options: TemplateOptions
    ) -> None:
        """Chooses the model; nothing is rendered or asked yet."""
        check_options(options)
        self._template = template
        self._inputs = dict(check_inputs({} if inputs is None else inputs))
        self._options = options
        self._model = resolve_template_model(template.document, options.get("model"))
        self._outcome = TemplateOutcome()
        self._session_id = str(uuid.uuid4())
        self.diagnostics: list[Diagnostic] = []
        self.result: TemplateResult | None = None

    def render(self) -> None:
        """Renders the template."""
        document = self._template.document
        rendered = self._template.render(self._inputs, self._options.get("functions"))
        self._request, doubts = build_request(document, rendered, self._inputs, self._model)
        found = [*document.diagnostics, *rendered.diagnostics, *doubts]
        found += check_given_inputs(document, self._find_given_names(document))
        if self._options.get("functions"):  # it has called those that it needed
            found = [one for one in found if one.code != "unknown-function"]
        self.diagnostics = list(dict.fromkeys(found))

    def _find_given_names(self, document: Document) -> list[str]:
        """The names of the inputs; functions that look like inputs are among them."""
        # In Handlebars `{{time-today}}` may be either, before anybody gives `time.today`.
        names = {one.name for one in document.inputs}
        spelled = [
            name.replace(".", sign, 1)
            for name in self._options.get("functions") or ()
            for sign in (".", "-", "_")
        ]
        return [*self._inputs, *(names & set(spelled))]

    async def arender(self) -> None:
        """`render`; functions that the template calls may block, or wait for this event loop."""
        if self._options.get("functions"):
            await in_thread_of_loop(self.render)
        else:
            self.render()

    def open_agent(self) -> Agent:
        """The agent whose only turn the run is."""

        def build(_: object) -> TemplateRequest:
            return self._request

        return build_agent(self._template, self._model, build, self._options, self._outcome)

    def run(self) -> TemplateResult:
        """Runs the rendered template."""
        with self.open_agent() as agent:
            return self._keep(agent.invoke(self._template.name, self._session_id))

    async def arun(self) -> TemplateResult:
        """`run`, for an event loop."""
        with self.open_agent() as agent:
            return self._keep(await agent.ainvoke(self._template.name, self._session_id))

    def stream(self) -> Generator[Event, None, None]:
        """`run`, which yields events; the last one is a `TurnEnd`."""
        with self.open_agent() as agent:
            with closing(agent.stream(self._template.name, self._session_id)) as events:
                for event in events:
                    if isinstance(event, TurnEnd):
                        self._keep(event.reply)
                    yield event

    async def astream(self) -> AsyncGenerator[Event, None]:
        """`stream`, for an event loop."""
        with self.open_agent() as agent:
            events = agent.astream(self._template.name, self._session_id)
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, TurnEnd):
                        self._keep(event.reply)
                    yield event

    def _keep(self, reply: Reply) -> TemplateResult:
        _ = reply.trace  # is built when it is first read, which needs the agent open
        document = self._template.document
        self.result = TemplateResult(document, reply, self._outcome, self.diagnostics)
        return self.result


def build_agent(
    template: Template,
    model: Model,
    build: Callable[[Any], TemplateRequest],
    options: TemplateOptions,
    outcome: TemplateOutcome | None = None,
    *,
    sessions: Sessions | SessionStore | str | Path | None = None,
) -> Agent:
    """An agent whose turns are a template's, with requests that `build` makes of a turn."""
    functions = options.get("tools") or {}
    orchestration = TemplateOrchestration(template.name, build, functions, outcome)
    return Agent(
        template.name,
        "Run a template.",
        model,
        limits=options.get("limits"),
        sessions=sessions,
        features=Features(orchestration=orchestration),
    )


def check_options(options: Mapping[str, Any]) -> None:
    """Checks the options of a run.

    Raises:
        TypeError: There is no such option.
        ValidationError: The tools are no functions by name.
    """
    known = TemplateOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise TypeError(f"unknown options {sorted(unknown)}; there are {', '.join(known)}")
    for name in ("tools", "functions"):
        check_functions(options.get(name))
