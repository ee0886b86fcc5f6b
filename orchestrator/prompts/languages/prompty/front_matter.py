"""The front matter of a Prompty file: what it says of its inputs, the model and the template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError
from orchestrator.message import AUTHOR
from orchestrator.prompts.languages.base import sort_options
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import Source, warn
from orchestrator.prompts.template_files import read_text
from orchestrator.support.documents import Rules, parse

_FENCE = re.compile(r"(?:---|\+\+\+)[ \t]*")
_REFERENCE = re.compile(r"\$\{(\w+):(.*)\}", re.DOTALL)
_IN_TEXT = re.compile(r"\$\{(?:env|file|params):[^{}\n]*\}", re.IGNORECASE)
# Prompty's own reader is PyYAML's, which is one of YAML 1.1.
_RULES = Rules(scalars="1.1", max_depth=40, error=TemplateError)
_TEXT_RULES = replace(_RULES, scalars="text")


@dataclass(frozen=True, slots=True)
class Front:
    """A file's front matter as YAML, its body, and the line that the body begins in, from 1."""

    text: str
    body: str
    line: int


def split_front(text: str, source: str | None = None) -> Front:
    """Splits a file.

    The front matter is between two lines of `---` or `+++`; without a first one all is the body.
    """
    # Prompty's own expression ends the front matter at any `---`, even inside of a line.
    lines = text.replace("\r\n", "\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    if first == len(lines) or not _FENCE.fullmatch(lines[first].lstrip()):
        return Front("", "\n".join(lines), 1)
    end = next((at for at in range(first + 1, len(lines)) if _FENCE.fullmatch(lines[at])), None)
    if end is None:
        raise TemplateError(
            "the front matter has no end: write --- in a line of its own below it",
            file=source,
            line=first + 1,
            column=1,
        )
    body = next((at for at in range(end + 1, len(lines)) if lines[at].strip()), len(lines))
    # The line breaks before it keep its lines those of the file.
    front = "\n" * (first + 1) + "\n".join([*lines[first + 1 : end], ""])
    return Front(front, "\n".join(lines[body:]).lstrip(), body + 1)


def read_yaml(text: str, source: str | None, line: int = 1, *, texts: bool = False) -> Any:
    """Parses YAML that an author wrote; with `texts` all scalars are the texts that are written."""
    rules = _TEXT_RULES if texts else _RULES
    return parse(text, source or "", rules, line=line).data


@dataclass(slots=True, repr=False)  # which would show the variables
class References:
    """Resolves `${env:NAME:default}`, `${file:name}` and `${params:name}`."""

    source: str | None
    folder: Path | None  # where files are; without a folder there are none
    roots: Sequence[str | Path]
    # Without variables, as in an agent's template, a reference is its default or stays as it is:
    # a prompt goes to others, and must not take secrets of the process with it.
    environ: Mapping[str, str] | None
    params: Mapping[str, Any] | None  # without parameters (dialect `v2`) a reference stays as it is
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _open: list[Path] = field(default_factory=list)

    def fresh(self) -> References:
        """The same, for one rendering."""
        return replace(self, diagnostics=[], _open=[])

    def resolve(self, value: Any) -> Any:
        """A value with all references in it resolved. Only a whole text can be one."""
        if isinstance(value, dict):
            return {key: self.resolve(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.resolve(one) for one in value]
        found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        protocol, name = found[1].lower(), found[2]
        if protocol == "env":
            return self._variable(name, value)
        if protocol == "file":
            return self._file(name)
        if protocol == "params" and self.params is not None:
            if name not in self.params:
                raise self._error(f"there is no parameter {name!r}; give params={{{name!r}: ...}}")
            return self.params[name]
        return value

    def _variable(self, reference: str, value: str) -> str:
        name, _, default = reference.partition(":")
        found = (self.environ or {}).get(name)
        if found is not None:
            return found
        if default:
            return default
        if self.environ is None:
            what = "an agent's template reads no variables of the process"
            message = f"{value!r} stays as it is: {what}"
            instead = f"give a default: ${{env:{name}:...}}"
            self.diagnostics.append(warn("unread-variable", message, instead, self.source))
            return value
        raise self._error(f"the environment variable {name!r} is not set, and has no default")

    def _file(self, name: str) -> Any:
        if self.folder is None:
            raise self._error(f"the file {name!r}: a template that is no file names no other files")
        root = self.folder.resolve()
        path = (root / name).resolve()
        roots = [root, *(Path(one).resolve() for one in self.roots)]
        if not any(path.is_relative_to(one) for one in roots):
            what = f"the file {name!r} is outside of the template's folder"
            raise self._error(f"{what}, and of the roots that are allowed (roots=)")
        if not path.is_file():
            raise self._error(f"there is no file {name!r} beside the template")
        if path in self._open:
            raise self._error(f"the file {name!r} refers to itself")
        self._open.append(path)
        try:
            return self._read(path)
        finally:
            self._open.pop()

    def _read(self, path: Path) -> Any:
        """What a file has: a text, or data with its references resolved."""
        text = read_text(path)
        if path.suffix.lower() in (".yaml", ".yml"):
            return self.resolve(read_yaml(text, str(path)))
        if path.suffix.lower() != ".json":
            return text
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TemplateError(f"not JSON: {error}", file=path) from None
        return self.resolve(data)

    def _error(self, what: str) -> TemplateError:
        return TemplateError(what, file=self.source)


def resolve_body_references(body: str, line: int, references: References) -> dict[str, Any]:
    """The values of the references in a body (Prompt Section: Replacement Constructs)."""
    values: dict[str, Any] = {}
    for found in _IN_TEXT.finditer(body):
        if found[0] in values:
            continue
        try:
            value = references.resolve(found[0])
        except TemplateError as error:
            source = Source(body, references.source, line=line)
            raise source.error(error.reason, found.start()) from None
        if value != found[0]:
            values[found[0]] = value
    return values


def replace_references(pieces: Iterable[Piece], texts: Mapping[str, str]) -> Iterator[Piece]:
    """Pieces with the author's references replaced; a reference is the origin of its text."""
    for origin, text in pieces:
        last = 0
        for found in _IN_TEXT.finditer(text) if origin == AUTHOR else ():
            if found[0] in texts:
                yield AUTHOR, text[last : found.start()]
                yield found[0], texts[found[0]]
                last = found.end()
        yield origin, text[last:]


def read_inputs(
    data: Mapping[str, Any], source: str | None, *, legacy: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The inputs that a front matter declares: their names and members."""
    given: Any = data.get("inputs")
    if given is None and legacy:
        given = data.get("inputSchema")
    if isinstance(given, Mapping) and isinstance(given.get("properties"), list | dict):
        given = given["properties"]
    if given is None:
        return
    if isinstance(given, Mapping):
        for name, spec in given.items():
            yield str(name), _property(spec)
        return
    if not isinstance(given, list):
        raise TemplateError("'inputs' must be a list or a map", file=source)
    for one in given:
        if isinstance(one, str):
            yield one, {}
        elif isinstance(one, Mapping) and isinstance(one.get("name"), str):
            yield one["name"], dict(one)
        else:
            raise TemplateError(f"an input needs a name: {one!r}", file=source)


def _property(spec: Any) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return dict(spec)
    kinds = {bool: "boolean", int: "integer", float: "float", list: "array", dict: "object"}
    return {} if spec is None else {"default": spec, "kind": kinds.get(type(spec), "string")}


def settings_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model and the call, in Bedrock's names where there are any."""
    settings = {
        key: data[key] for key in ("name", "description", "outputs", "tools") if key in data
    }
    model = data.get("model")
    if isinstance(model, str):
        model = {"id": model}
    if not isinstance(model, Mapping):
        return settings
    if model.get("id"):
        settings["model"] = str(model["id"])
    options = model.get("options", model.get("parameters"))
    options = dict(options) if isinstance(options, Mapping) else {}
    extra = options.pop("additionalProperties", None)
    return settings | sort_options({**options, **(extra if isinstance(extra, Mapping) else {})})
