"""`PromptTemplate`: a template that was read, to render, to run with a model, or to chat with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Unpack

from orchestrator.agent.agent import Agent
from orchestrator.agent.template_chat import ChatInputs
from orchestrator.agent.template_model import resolve_template_model
from orchestrator.agent.template_request import build_request
from orchestrator.agent.template_run import (
    Functions,
    TemplateOptions,
    TemplateResult,
    TemplateRun,
    build_agent,
    check_inputs,
    check_options,
)
from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.trace.reply import Event
from orchestrator.errors import ValidationError
from orchestrator.flows.template_loop import TemplateRequest
from orchestrator.prompts import languages
from orchestrator.prompts.languages.base import Document, Input, Rendered
from orchestrator.sessions import Sessions, SessionStore


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
            ValidationError: A required input is missing, the inputs are no values by name, or its
                language has no functions.
        """
        check_inputs(inputs)
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
        run = TemplateRun(self, inputs, options)
        run.render()
        return run.run()

    async def arun(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> TemplateResult:
        """`run`, for an event loop; its asynchronous functions run in this loop."""
        run = TemplateRun(self, inputs, options)
        await run.arender()
        return await run.arun()

    def stream(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> Generator[Event, None, None]:
        """`run`, which yields events as they happen; closing the iterator stops it.

        Yields:
            The events of `Agent.stream`: pieces of the answer, trace parts, and a `TurnEnd`.
        """
        run = TemplateRun(self, inputs, options)
        run.render()
        return run.stream()

    async def astream(
        self, inputs: Mapping[str, Any] | None = None, **options: Unpack[TemplateOptions]
    ) -> AsyncGenerator[Event, None]:
        """`stream`, for an event loop."""
        run = TemplateRun(self, inputs, options)
        await run.arender()
        async with aclosing(run.astream()) as events:
            async for event in events:
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
        check_options(options)
        model = resolve_template_model(self.document, options.get("model"))
        chat = ChatInputs(self.document, inputs or {})

        def build(turn: Any) -> TemplateRequest:
            values, asked = chat.for_turn(turn)
            rendered = self.render(values, options.get("functions"))
            return chat.place(build_request(self.document, rendered, values, model)[0], asked)

        return build_agent(self, model, build, options, sessions=sessions)


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
