"""Semantic Kernel's prompts: `<message>` tags on top of three template engines.

The decision record of the syntax has three options, and all are read: messages by a function
(`{{message role="user"}}`), by blocks of the engine (`{{#user}}`), and by tags (`<message>`).

A prompt is text, or a YAML file with `template`, `template_format`, `input_variables` and
`execution_settings`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError, ValidationError
from orchestrator.prompts.languages.base import (
    Input,
    Rendered,
    describe_missing_input,
    sort_options,
)
from orchestrator.prompts.languages.semantic_kernel.content import Filler
from orchestrator.prompts.languages.semantic_kernel.engine import (
    Engine,
    Functions,
    Rendering,
    find_function,
)
from orchestrator.prompts.languages.semantic_kernel.tags import Tags
from orchestrator.prompts.languages.semantic_kernel.values import complete_messages
from orchestrator.prompts.source import Source, warn
from orchestrator.prompts.template_files import read_text, read_yaml
from orchestrator.support.documents import Rules, compose, parse_json
from orchestrator.support.spelling import find_close

# The template engines (Semantic Kernel: `template_format`): modules and classes, imported when they
# are needed.
_ENGINES = {
    "semantic-kernel": ("blocks", "Blocks"),
    "handlebars": ("handlebars", "Handlebars"),
    "jinja2": ("jinja2_prompts", "Jinja2Prompts"),
}
FORMATS = tuple(_ENGINES)

_MEMBERS = (
    *("name", "description", "template", "template_format", "input_variables"),
    *("execution_settings", "allow_dangerously_set_content"),
)
_ALSO = ("output_variable", "schema", "type", "template_id", "prompt_type")
# Members of `config.json` before Semantic Kernel 1.0.
_OLD = ("completion", "input", "default_services", "default_backends", "is_sensitive")
_YAML = re.compile(r"^template:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Config:
    """The template, and what a YAML file says beside it."""

    source: Source
    format: str = "semantic-kernel"
    inputs: tuple[Input, ...] = ()
    trusted: Collection[str] | None = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    doubts: tuple[Diagnostic, ...] = ()


def read(
    text: str,
    source: str | None = None,
    *,
    format: str | None = None,
    strict: bool = True,
    functions: Functions | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> MessagesDocument:
    """Reads a prompt of Semantic Kernel; the arguments are those of `read_template`, and options.

    It names no variables of the process, and files only in Jinja2. A file with the ending `.yaml`
    or `.yml` is YAML.

    - `format`: the template engine, one of `FORMATS`; else the file says it.
    - `strict`: refuse tags that are no XML. If not, such a prompt is one message of the user, as it
      is in Semantic Kernel, with a diagnostic.
    - `functions`: what the template may call, by `plugin.function`.
    - `config`: the file `config.json` that belongs to the prompt.
    """
    settings = _read_config(text, source) if config is None else _read_json(text, source, config)
    format = format or settings.format
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise ValidationError(f"there is no template format {format!r}; there are {known}")
    return MessagesDocument(
        text, settings, format, strict=strict, functions=functions or {}, folder=folder
    )


class MessagesDocument:
    """A prompt that was read; a `Document`."""

    def __init__(
        self,
        text: str,
        config: _Config,
        format: str,
        *,
        strict: bool,
        functions: Functions,
        folder: Path | None = None,
    ) -> None:
        self.language = format
        self.text = text
        self.source = config.source.file
        self.settings = config.settings
        source = config.source.refuse_tokens()
        source = source.with_newlines() if format == "jinja2" else source
        self._source = source
        self._strict = strict
        self._functions = functions
        self._trusted = config.trusted
        self._doubts = config.doubts
        module, name = _ENGINES[format]
        engine = getattr(import_module(f"{__package__}.{module}"), name)
        beside = {"folder": folder} if format == "jinja2" else {}
        self._engine: Engine = engine(source, tuple(functions), **beside)
        self.straight = self._engine.straight and config.trusted == () and not functions
        self._tags: Tags | None = None
        if self._engine.parts is not None:
            self._tags = Tags(self._engine.parts, source, strict=strict)
            if self._tags.root is not None:
                Filler(self._tags, (), self._source).check(self._tags.root)
        self.inputs: Sequence[Input] = tuple(self._build_inputs(config.inputs))
        self.calls = tuple(self._engine.calls)  # the functions that it calls
        self.diagnostics: Sequence[Diagnostic] = tuple(self._find_diagnostics())

    def _build_inputs(self, declared: Sequence[Input]) -> Iterator[Input]:
        known = {one.name: one for one in declared}
        for name, at in self._engine.names.items():
            line, column = self._source.place(at)
            one = known.pop(name, Input(name))
            yield replace(one, line=line, column=column, used=True)
        yield from known.values()

    def _find_diagnostics(self) -> Iterator[Diagnostic]:
        yield from self._doubts
        yield from self._engine.diagnostics
        for name, at in self._engine.calls.items():
            if find_function(self._functions, name) is None:
                message = f"the template calls {name!r}, which it is not given"
                instead = f"give functions={{{name!r}: ...}}, or --tool {name}=FILE:FUNCTION"
                yield self._source.warn("unknown-function", message, at, instead)
        if self._trusted is None or self._trusted:
            names = "all values" if self._trusted is None else ", ".join(sorted(self._trusted))
            member = "allow_dangerously_set_content"
            message = f"tags in {names} count as the author's own ({member})"
            instead = f"leave {member} out: values need no encoding here"
            yield self._source.warn("trusted-values", message, 0, instead)

    def render(self, inputs: Mapping[str, Any], functions: Functions | None = None) -> Rendered:
        """Renders it; see `Document.render`. It may call these functions, too."""
        values, known = self._build_values(inputs), {**self._functions, **(functions or {})}
        rendering = Rendering(self._source, values, known, self._trusted)
        try:
            parts, fillings = self._engine.render(rendering)
            tags = self._tags
            if tags is None or parts is not self._engine.parts:
                tags = Tags(parts, self._source, strict=self._strict)
            items, found = Filler(tags, fillings, self._source).fill()
        except RecursionError:
            raise self._source.error("the template or a value is nested too deeply", 0) from None
        return Rendered(tuple(items), diagnostics=tuple(found), source=self.source)

    def _build_values(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: complete_messages(value) for name, value in inputs.items()}
        for one in self.inputs:
            if values.get(one.name) is not None:
                continue
            if one.required and one.name not in values:
                raise ValidationError(describe_missing_input(one, self.source))
            if one.default is not None:
                values[one.name] = one.default
        return values


def _read_config(text: str, source: str | None) -> _Config:
    ending = source is not None and source.lower().endswith((".yaml", ".yml"))
    if not ending and not (source is None and _YAML.search(text) and _is_config(text)):
        return _Config(Source(text, source))
    file = _File(text, source, read_yaml(text, Path(source or "<text>")))
    return file.config(file.template())


def _read_json(text: str, source: str | None, config: Path) -> _Config:
    """The configuration of a prompt in a folder (Semantic Kernel: `config.json`)."""
    written = read_text(config)
    rules = Rules(error=TemplateError)
    data = parse_json(written, str(config), rules).data
    if not isinstance(data, Mapping):
        message = 'the file must be a map, such as {"input_variables": []}'
        raise TemplateError(message, file=config, line=1, column=1)
    return _File(written, str(config), data).config(Source(text, source))


def _is_config(text: str) -> bool:
    # A text without a file may be a prompt that only has `template:` at the beginning of a line.
    try:
        data = read_yaml(text, Path("<text>"))
    except TemplateError:
        return False
    return isinstance(data.get("template"), str) and set(data) <= {*_MEMBERS, *_ALSO}


@dataclass(frozen=True, slots=True)
class _File:
    """A prompt in a YAML file (Semantic Kernel: `PromptTemplateConfig`)."""

    text: str
    source: str | None
    data: Mapping[str, Any]

    def config(self, template: Source) -> _Config:
        """What it says beside the template."""
        variables = list(self._variables())
        trusted = tuple(str(one["name"]) for one in variables if _trusts(one))
        return _Config(
            template,
            str(self.data.get("template_format") or FORMATS[0]),
            tuple(map(_read_input, variables)),
            None if _trusts(self.data) else trusted,
            self._settings(),
            tuple(self._find_unknown_members()),
        )

    def _find_unknown_members(self) -> Iterator[Diagnostic]:
        known = (*_MEMBERS, *_ALSO, *_OLD)
        for name in self.data:
            if name not in known:
                close = find_close(str(name)[:80], known, 0.7)
                instead = (
                    f"did you mean {close!r}?" if close else f"there are {', '.join(_MEMBERS)}"
                )
                message = f"there is no member {str(name)[:80]!r}; it has no effect"
                place = self._line(str(name))
                yield warn("unknown-member", message, instead, self.source, place, 1)

    def _variables(self) -> Iterator[Mapping[str, Any]]:
        given = self.data.get("input_variables") or self._old_variables()
        if not isinstance(given, list):
            raise self._error("input_variables", "'input_variables' must be a list")
        for one in given:
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                raise self._error("input_variables", "each of 'input_variables' has a 'name'")
            yield one

    def _old_variables(self) -> list[Any]:
        old = self.data.get("input")
        given = old.get("parameters") if isinstance(old, Mapping) else None
        return [
            {**one, "default": one.get("defaultValue")} if isinstance(one, Mapping) else one
            for one in given or ()
        ]

    def _settings(self) -> dict[str, Any]:
        settings = {k: self.data[k] for k in ("name", "description") if self.data.get(k)}
        services = self.data.get("execution_settings") or {}
        if isinstance(services, list):
            services = {str(at): one for at, one in enumerate(services)}
        if not services and self.data.get("completion"):
            services = {"default": self.data["completion"]}
        if not isinstance(services, Mapping) or not all(
            isinstance(one, Mapping) for one in services.values()
        ):
            raise self._error("execution_settings", "'execution_settings' are settings by service")
        if not services:
            return settings
        chosen = services.get("default") or next(iter(services.values()))
        if model := chosen.get("ai_model_id") or chosen.get("model_id"):
            settings["model"] = model
        return settings | sort_options({k: v for k, v in chosen.items() if k not in _NO_OPTIONS})

    def template(self) -> Source:
        """The template, and where it begins in the file."""
        template = self.data.get("template")
        if not isinstance(template, str):
            raise self._error("template", "'template' must be the prompt's text")
        root: Any = compose(self.text)
        node = next(value for key, value in root.value if key.value == "template")
        line = node.line
        if node.style not in ("|", ">"):
            return Source(template, self.source, line=line, indent=node.column - 1)
        lines = self.text.splitlines()[line:]
        first = next((one for one in lines if one.strip()), "")
        indent = len(first) - len(first.lstrip(" "))
        return Source(template, self.source, line=line + 1, indent=indent)

    def _error(self, member: str, message: str) -> TemplateError:
        return TemplateError(message, file=self.source, line=self._line(member), column=1)

    def _line(self, member: str) -> int:
        found = re.search(rf"^[ \t]*\"?{re.escape(member)}\"?\s*:", self.text, re.MULTILINE)
        return self.text.count("\n", 0, found.end() if found else 0) + 1


_NO_OPTIONS = (
    *("ai_model_id", "model_id", "service_id", "extension_data"),
    "function_choice_behavior",  # which functions the model may call, is said by who runs it
)


def _read_input(one: Mapping[str, Any]) -> Input:
    schema = one.get("json_schema")
    kind = schema.get("type", "") if isinstance(schema, Mapping) else ""
    default = one.get("default")
    required = one.get("is_required") is True and default is None
    return Input(
        one["name"], used=False, kind=str(kind), required=required, default=default, declared=True
    )


def _trusts(data: Mapping[str, Any]) -> bool:
    return data.get("allow_dangerously_set_content") is True
