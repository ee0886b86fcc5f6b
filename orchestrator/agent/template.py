"""`PromptTemplate`: a template that was read, to render, to run with a model, or to chat with."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from orchestrator.agent.agent import Agent
from orchestrator.agent.template_chat import ChatInputs
from orchestrator.agent.template_model import resolve_template_model
from orchestrator.agent.template_request import build_request
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import Features
from orchestrator.engine.trace.reply import Event, Reply
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
from orchestrator.prompts import languages
from orchestrator.prompts.languages.base import (
    Document,
    Input,
    Rendered,
    check_given_inputs,
)
from orchestrator.sessions import Sessions, SessionStore
from orchestrator.support.safe_json import json_or
from orchestrator.support.threads import in_thread_of_loop

_NAME = "template"
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


class PromptTemplate:
    """A template that was read; it can be rendered and run any number of times, at once too.

    Attributes:
        document: What was read.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.name = Path(document.source).name if document.source else document.language

    def __repr__(self) -> str:
        return f"PromptTemplate({self.name!r})"

    @property
    def language(self) -> str:
        """`prompty`, `semantic-kernel`, `handlebars`, `jinja2` or `ppe`."""
        return self.document.language

    @property
    def text(self) -> str:
        """The file's text."""
        return self.document.text

    @property
    def source(self) -> str | None:
        """The file."""
        return self.document.source

    @property
    def inputs(self) -> Sequence[Input]:
        """Its inputs; see `Document`."""
        return self.document.inputs

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it says of the model and the call; see `Document`."""
        return self.document.settings

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """What is doubtful about it."""
        return self.document.diagnostics

    @property
    def straight(self) -> bool:
        """Whether it shows texts as they are; see `Document`."""
        return self.document.straight

    def render(self, inputs: Mapping[str, Any], functions: Functions | None = None) -> Rendered:
        """Renders it; see `Document.render`. It may call these functions.

        Raises:
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A required input is missing, or its language has no functions.
        """
        if not functions:
            return self.document.render(inputs)
        render: Any = self.document.render
        if self.language not in ("semantic-kernel", "handlebars", "jinja2"):
            raise ValidationError(f"templates of the language {self.language!r} call no functions")
        rendered: Rendered = render(inputs, functions)
        return rendered

    # Ways to run

    def run(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> TemplateResult:
        """Renders it, asks its model, and has its tools called until there is an answer.

        Args:
            inputs: Values by name.
            **options: See `TemplateOptions`.

        Raises:
            DependencyFailed: The model or a function failed.
            LimitExceeded: A budget is used up.
            ResourceNotFound: No model is given, and the file names none that can be had.
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A required input is missing, or an option is wrong.
        """
        run = _Run(self, inputs, options)
        run.render()
        with run.open_agent() as agent:
            return run.build_result(agent.invoke(run.question, run.session_id))

    async def arun(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> TemplateResult:
        """`run`, for an event loop; its asynchronous functions run in this loop."""
        run = _Run(self, inputs, options)
        await run.arender()
        with run.open_agent() as agent:
            return run.build_result(await agent.ainvoke(run.question, run.session_id))

    def stream(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> Generator[Event, None, None]:
        """`run`, which yields events as they happen; closing the iterator stops it.

        Yields:
            The events of `Agent.stream`: pieces of the answer, trace parts, and a `TurnEnd`.
        """
        run = _Run(self, inputs, options)
        run.render()
        return run.stream()

    async def astream(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> AsyncGenerator[Event, None]:
        """`stream`, for an event loop."""
        run = _Run(self, inputs, options)
        await run.arender()
        with run.open_agent() as agent:
            async for event in agent.astream(run.question, run.session_id):
                yield event

    def as_agent(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        sessions: Sessions | SessionStore | str | Path | None = None,
        **options: Unpack[TemplateOptions],
    ) -> Agent:
        """The template as an agent, which renders it for each question of a conversation.

        The question is the input that is called so (`question`, `input`, `query`, ...), or the only
        text that is not given; without one it is the last message. Earlier turns are the input of
        kind `thread`, or the one called `history` or `chat_history`; without one they stand before
        the question.

        Args:
            inputs: Values of the other inputs.
            sessions: As for `Agent`.
            **options: See `TemplateOptions`.
        """
        _check_options(options)
        model = resolve_template_model(self.document, options.get("model"))
        chat = ChatInputs(self.document, inputs or {})

        def build(turn: Any) -> TemplateRequest:
            values, asked = chat.for_turn(turn)
            rendered = self.render(values, options.get("functions"))
            return chat.place(build_request(self.document, rendered, values, model)[0], asked)

        return _build_agent(self, model, build, options, sessions=sessions)


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
        template: PromptTemplate,
        reply: Reply,
        outcome: TemplateOutcome,
        diagnostics: Sequence[Diagnostic],
    ) -> None:
        self.reply = reply
        self.text = reply.text
        declared = template.settings.get("outputs")
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


class _Run:
    """One run: a rendering, and an agent around it."""

    def __init__(
        self,
        template: PromptTemplate,
        inputs: Mapping[str, Any] | None,
        options: TemplateOptions,
    ) -> None:
        _check_options(options)
        if inputs is not None and not isinstance(inputs, Mapping):
            kind = type(inputs).__name__
            raise ValidationError(f"the inputs are values by name, and no {kind}: give a mapping")
        self._template = template
        self._inputs = dict(inputs or {})
        self._options = options
        self._model = resolve_template_model(template.document, options.get("model"))
        self._outcome = TemplateOutcome()
        self._diagnostics: list[Diagnostic] = []
        self.session_id = str(uuid.uuid4())
        self.question = template.name

    def render(self) -> None:
        document = self._template.document
        rendered = self._template.render(self._inputs, self._options.get("functions"))
        self._request, doubts = build_request(document, rendered, self._inputs, self._model)
        found = [*document.diagnostics, *rendered.diagnostics, *doubts]
        found += check_given_inputs(document, self._inputs)
        self._diagnostics = list(dict.fromkeys(found))

    async def arender(self) -> None:
        """Renders it; functions that it calls may block, or wait for this event loop."""
        if self._options.get("functions"):
            await in_thread_of_loop(self.render)
        else:
            self.render()

    def open_agent(self) -> Agent:
        def build(_: object) -> TemplateRequest:
            return self._request

        return _build_agent(self._template, self._model, build, self._options, self._outcome)

    def stream(self) -> Generator[Event, None, None]:
        with self.open_agent() as agent:
            yield from agent.stream(self.question, self.session_id)

    def build_result(self, reply: Reply) -> TemplateResult:
        _ = reply.trace  # is built when it is first read, which needs the agent open
        return TemplateResult(self._template, reply, self._outcome, self._diagnostics)


def _build_agent(
    template: PromptTemplate,
    model: Model,
    build: Callable[[Any], TemplateRequest],
    options: TemplateOptions,
    outcome: TemplateOutcome | None = None,
    *,
    sessions: Sessions | SessionStore | str | Path | None = None,
) -> Agent:
    functions = options.get("tools") or {}
    orchestration = TemplateOrchestration(template.name, build, functions, outcome)
    return Agent(
        _NAME,
        "Run a template.",
        model,
        limits=options.get("limits"),
        sessions=sessions,
        features=Features(orchestration=orchestration),
    )


def _check_options(options: Mapping[str, Any]) -> None:
    known = TemplateOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise TypeError(f"unknown options {sorted(unknown)}; there are {', '.join(known)}")
    for name in ("tools", "functions"):
        check_functions(options.get(name))


def load_template(
    path: str | Path, *, language: str | None = None, **options: Any
) -> PromptTemplate:
    """Reads a template from a file, or from a folder with `skprompt.txt` (Semantic Kernel).

    It may name files beside it, and a Prompty file variables of the process: load only what you
    trust to do so.

    Args:
        path: The file, or the folder.
        language: Its language, where the file's ending does not tell it: `prompty`,
            `semantic-kernel`, `handlebars`, `jinja2` or `ppe`.
        **options: Options of the language: for Prompty `dialect`, `params`, `roots`, `strict`; for
            the prompts of Semantic Kernel `strict` and `functions`.

    Raises:
        ResourceNotFound: There is no such file.
        TemplateError: It is wrong, with its place.
        ValidationError: Nothing tells its language, or it has no such option.
    """
    return PromptTemplate(languages.load_template(path, language=language, **options))
