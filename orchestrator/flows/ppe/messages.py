"""A script of nothing but messages, as a template (`orchestrator.prompts.languages`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.errors import FlowError, TemplateError, ValidationError
from orchestrator.flows.ppe.data import map_of
from orchestrator.flows.ppe.nodes import Say, Script
from orchestrator.flows.ppe.parameters import inference_of
from orchestrator.flows.ppe.reader import read_script
from orchestrator.flows.ppe.scope import Data
from orchestrator.flows.ppe.texts import Text
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import ScriptError
from orchestrator.message import AUTHOR
from orchestrator.prompts.languages.base import (
    Input,
    Rendered,
    RenderedMessage,
    TextContent,
    Thread,
    describe_missing_input,
    first_uses,
)
from orchestrator.prompts.languages.values import Placement, Tokens, Values, strip_pieces
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.mistakes import Mistake

_WAY_OUT = "a template has only roles and {{ }}; to run it as a script, use it as an orchestration"


def read(
    text: str,
    source: str | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> MessagesDocument:
    """Reads a template.

    Args:
        text: The script.
        source: The file that it is from, for messages.
        folder: Not used: messages name no files.
        environ: Not used: messages name no variables of the process.

    Raises:
        TemplateError: It is wrong, or has more than messages, with its place.
    """
    try:
        script = read_script(text, "template", source)
    except FlowError as error:
        raise TemplateError(
            error.reason, file=error.file, line=error.line, column=error.column
        ) from None
    return MessagesDocument(text, source, script)


class MessagesDocument:
    """A template; see `orchestrator.prompts.languages.base.Document`."""

    language = "ppe"
    diagnostics = ()

    def __init__(self, text: str, source: str | None, script: Script) -> None:
        self.text = text
        self.source = source
        self._messages = [self._check_message(one) for one in script.body]
        self._prompt = map_of(script.front.get("prompt"))
        self._front = {k: v for k, v in script.front.items() if k not in ("prompt", "messages")}
        parts = [part for one in self._messages for part in one.text.parts]
        plain = all(part.template is None or part.template.straight for part in parts)
        data = repr((self._front, self._prompt))
        self.straight = plain and "{{" not in data and "{%" not in data
        self.settings = _settings(script.front, self._prompt)
        self.inputs: Sequence[Input] = tuple(self._inputs(script.front.get("input")))

    def _check_message(self, statement: Any) -> Say:
        if not isinstance(statement, Say):
            raise self._error(f"this is no message: {_WAY_OUT}", statement.place)
        if statement.to:
            raise self._error(f"this is a group chat: {_WAY_OUT}", statement.place)
        if statement.text.biases:
            raise self._error(f"tokens are biased here: {_WAY_OUT}", statement.place)
        for part in statement.text.parts:
            if part.substitution or part.inlines:
                what = "is a substitution" if part.substitution else "is a call or an expression"
                raise self._error(f"there {what} here: {_WAY_OUT}", statement.place)
        return statement

    def _error(self, message: str, place: Place) -> TemplateError:
        return TemplateError(message, file=self.source, line=place.line, column=place.column)

    def _inputs(self, schema: Any) -> Iterator[Input]:
        names = {name for one in self._messages for name in _names(one.text)}
        names = set(Data({**self._front}, self._prompt).reads(frozenset(names)))
        required = schema.get("required", ()) if isinstance(schema, dict) else ()
        properties = schema.get("properties", schema) if isinstance(schema, dict) else {}
        places = first_uses(self.text, names)
        for name in (*places, *sorted(names - places.keys())):
            property = map_of(properties.get(name))
            line, column = places.get(name, (1, 1))
            default = self._prompt.get(name, self._front.get(name, property.get("default")))
            yield Input(
                name,
                line,
                column,
                kind=str(property.get("type", "")),
                required=name in required or property.get("required") is True,
                default=default,
            )

    def render(self, inputs: Mapping[str, Any]) -> Rendered:
        """Renders it; see `Document.render`.

        What is given is above the front matter's values, whose own templates are rendered, too.
        """
        for one in self.inputs:
            if one.required and one.default is None and one.name not in inputs:
                raise ValidationError(describe_missing_input(one, self.source))
        values = Values()
        for name, value in inputs.items():
            values.add(name, value)
        prompt = {name: it for name, it in self._prompt.items() if name not in inputs}
        defaults = {it.name: it.default for it in self.inputs if it.default is not None}
        data = Data({**defaults, **self._front, **values.given}, prompt)
        items: list[RenderedMessage | Thread] = []
        for message in self._messages:
            items += self._render_message(message, data, values)
        return Rendered(items, source=self.source)

    def _render_message(
        self, one: Say, data: Data, values: Values
    ) -> Iterator[RenderedMessage | Thread]:
        pieces: list[Piece] = []
        try:
            for part in one.text.parts:
                if part.template is None:
                    pieces.append((AUTHOR, part.source))
                else:
                    pieces += part.template.pieces(data.context(part.template.names))
            tokens = Tokens[Placement](values.insert_placements(pieces))
        except Mistake as mistake:
            place = Place(one.place.line + mistake.line - 1)
            raise self._error(mistake.message, place) from mistake
        except ScriptError as wrong:
            raise self._error(wrong.message, one.place) from None
        held: list[Piece] = []
        parted = False
        for it in tokens.parts(tokens.text):
            if not isinstance(it, Placement):
                held.append(it)
                continue
            parted = True
            yield from _words(one, held, parted=True)
            held = []
            yield from it.items
        yield from _words(one, held, parted=parted)


def _words(one: Say, pieces: list[Piece], *, parted: bool) -> Iterator[RenderedMessage]:
    if parted:
        pieces = strip_pieces(pieces)
        if not pieces:
            return
    yield RenderedMessage(one.role, (TextContent(tuple(pieces)),), {}, one.place.line)


def _names(text: Text) -> Iterator[str]:
    for part in text.parts:
        if part.template is not None:
            yield from part.template.names


def _settings(front: Mapping[str, Any], prompt: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model and the call in the front matter."""
    made = {name: str(front[name]) for name in ("name", "description") if name in front}
    inference = inference_of(map_of(front.get("parameters")))
    return {**made, "inference": inference} if inference else dict(made)
