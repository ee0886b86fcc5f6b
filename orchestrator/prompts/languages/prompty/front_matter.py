"""The front matter of a Prompty file: what it says of its inputs, the model and the template."""

from __future__ import annotations

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
from orchestrator.prompts.template_files import find_beside, read_text
from orchestrator.support.documents import Keys, Place, Rules, parse
from orchestrator.support.safe_json import read_json

_FENCE = re.compile(r"(?:---|\+\+\+)[ \t]*")
_REFERENCE = re.compile(r"\$\{(\w+):(.*)\}", re.DOTALL)
_IN_TEXT = re.compile(r"\$\{(?:env|file|params):[^{}\n]*\}", re.IGNORECASE)
# Prompty's own reader is PyYAML's, which is one of YAML 1.1. What aliases repeat is counted.
FRONT_RULES = Rules(scalars="1.1", aliases=True, merge_keys=True, max_depth=40, error=TemplateError)
# Sections of a body have values in them.
_RULES = replace(FRONT_RULES, aliases=False, merge_keys=False)
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


@dataclass(frozen=True, slots=True)
class Places:
    """Where the members of a front matter are."""

    source: str | None
    root: Place

    def error(self, message: str, *keys: str | int) -> TemplateError:
        """An error about the value at `keys`, or else about the nearest one around it."""
        place, _ = self.root.follow(keys)
        return TemplateError(message, file=self.source, line=place.line, column=place.column)

    def warn(self, code: str, message: str, suggestion: str, *keys: str | int) -> Diagnostic:
        """A finding about the value at `keys`, or else about the nearest one around it."""
        place, _ = self.root.follow(keys)
        return warn(code, message, suggestion, self.source, place.line, place.column)


def read_members(front: Front, source: str | None) -> tuple[dict[str, Any], Places]:
    """The members of a front matter, and where they are."""
    read = parse(front.text, source or "", FRONT_RULES)
    # The front matter begins in the line below its fence, and may be empty.
    place = Place(1, 1, children=read.root.children)
    if read.data is not None and not isinstance(read.data, dict):
        line, column = read.root.line, read.root.column
        message = "the front matter must be a map"
        raise TemplateError(message, file=source, line=line, column=column)
    return read.data or {}, Places(source, place)


class Unset(str):
    """A reference to a variable that is not set, as it is written; `error` says so with its place.

    A file may be of use without it: its connection is not needed by who gives another model.
    """

    __slots__ = ("error",)
    error: TemplateError


def check_set(value: Any) -> Any:
    """The value, which is used now.

    Raises:
        TemplateError: A variable that it refers to is not set.
    """
    if isinstance(value, Unset):
        raise value.error
    inner = value.values() if isinstance(value, Mapping) else value
    for one in inner if isinstance(value, Mapping | list | tuple) else ():
        check_set(one)
    return value


def is_left_reference(value: Any) -> bool:
    """Whether a value is a reference to a variable that was left as it is, and reported."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return found is not None and found[1].lower() == "env"


@dataclass(slots=True, repr=False)  # which would show the variables
class References:
    """Resolves `${env:NAME:default}`, `${file:name}` and `${params:name}`."""

    places: Places
    folder: Path | None  # where files are; without a folder there are none
    roots: Sequence[str | Path]
    # Without variables, as in an agent's template, a reference is its default or stays as it is:
    # a prompt goes to others, and must not take secrets of the process with it.
    environ: Mapping[str, str] | None
    params: Mapping[str, Any] | None  # without parameters (dialect `v2`) a reference stays as it is
    strict: bool = False  # whether a variable that is not set is an error wherever it stands
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _open: list[Path] = field(default_factory=list)

    def fresh(self) -> References:
        """The same, for one rendering."""
        return replace(self, diagnostics=[], _open=[])

    def resolve(self, value: Any, *keys: str | int) -> Any:
        """A value with all references in it resolved. Only a whole text can be one.

        `keys` say where the value is in the front matter. A variable that is not set gives an
        `Unset`.
        """
        if isinstance(value, dict):
            return {key: self.resolve(one, *keys, key) for key, one in value.items()}
        if isinstance(value, list):
            return [self.resolve(one, *keys, at) for at, one in enumerate(value)]
        found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        protocol, name = found[1].lower(), found[2]
        if protocol == "env":
            return self._variable(name, value, keys)
        if protocol == "file":
            return self._file(name, keys)
        if protocol == "params" and self.params is not None:
            if name not in self.params:
                message = f"there is no parameter {name!r}; give params={{{name!r}: ...}}"
                raise self.places.error(message, *keys)
            return self.params[name]
        return value

    def _variable(self, reference: str, value: str, keys: Keys) -> str:
        name, _, default = reference.partition(":")
        found = (self.environ or {}).get(name)
        if found is not None or default:
            return default if found is None else found
        if self.environ is None:
            what = "an agent's template reads no variables of the process"
            message = f"{value!r} stays as it is: {what}"
            instead = f"give a default: ${{env:{name}:...}}"
            self.diagnostics.append(self.places.warn("unread-variable", message, instead, *keys))
            return value
        message = f"the environment variable {name!r} is not set, and has no default"
        instead = f"set it, or write ${{env:{name}:default}}"
        unset = Unset(value)
        unset.error = self.places.error(f"{message}; {instead}", *keys)
        if self.strict:
            raise unset.error
        self.diagnostics.append(self.places.warn("unset-variable", message, instead, *keys))
        return unset

    def _file(self, name: str, keys: Keys) -> Any:
        if self.folder is None:
            message = f"the file {name!r}: a template that is no file names no other files"
            raise self.places.error(message, *keys)
        path = find_beside(self.folder, name, self.roots)
        if path is None:
            what = f"the file {name!r} is outside of the template's folder"
            message = f"{what}, and of the roots that are allowed (roots=)"
            raise self.places.error(message, *keys)
        if not path.is_file():
            raise self.places.error(f"there is no file {name!r} beside the template", *keys)
        if path in self._open:
            raise self.places.error(f"the file {name!r} refers to itself", *keys)
        self._open.append(path)
        try:
            return self._read(path, keys)
        finally:
            self._open.pop()

    def _read(self, path: Path, keys: Keys) -> Any:
        """What a file has: a text, or data with its references resolved."""
        text = read_text(path)
        if path.suffix.lower() in (".yaml", ".yml"):
            return self.resolve(read_yaml(text, str(path)), *keys)
        if path.suffix.lower() != ".json":
            return text
        try:
            data = read_json(text)
        except (ValueError, RecursionError) as error:
            raise TemplateError(f"not JSON: {error}", file=path) from None
        return self.resolve(data, *keys)


def resolve_body_references(body: str, line: int, references: References) -> dict[str, Any]:
    """The values of the references in a body (Prompt Section: Replacement Constructs)."""
    values: dict[str, Any] = {}
    for found in _IN_TEXT.finditer(body):
        if found[0] in values:
            continue
        try:
            value = check_set(references.resolve(found[0]))
        except TemplateError as error:
            source = Source(body, references.places.source, line=line)
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
    data: Mapping[str, Any], places: Places, *, legacy: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The inputs that a front matter declares: their names and members.

    The first version's `sample` has values for inputs that nobody gives.
    """
    samples = data.get("sample")
    samples = {str(k): it for k, it in samples.items()} if isinstance(samples, Mapping) else {}
    for name, spec in _read_declared(data, places, legacy=legacy):
        sample = samples.pop(name, spec.get("sample"))
        if sample is not None and spec.get("default") is None and not spec.get("required"):
            spec = {**spec, "default": sample, "sampled": True}
        yield name, spec
    for name, sample in samples.items():
        yield name, {**_property(sample), "sampled": True, "undeclared": True}


def _read_declared(
    data: Mapping[str, Any], places: Places, *, legacy: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
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
        raise places.error("'inputs' must be a list or a map", "inputs")
    for at, one in enumerate(given):
        if isinstance(one, str):
            yield one, {}
        elif isinstance(one, Mapping) and isinstance(one.get("name"), str):
            yield one["name"], dict(one)
        else:
            raise places.error(f"an input needs a name: {one!r:.80}", "inputs", at)


# Members that only a description of an input has; a map without them is the input's value.
_OF_AN_INPUT = frozenset(
    "type kind default description required sample example enum enumValues strict title items "
    "properties json_schema".split()
)


def _property(spec: Any) -> dict[str, Any]:
    if isinstance(spec, Mapping) and (not spec or _OF_AN_INPUT & spec.keys()):
        return dict(spec)
    kinds = {bool: "boolean", int: "integer", float: "float", list: "array", dict: "object"}
    return {} if spec is None else {"default": spec, "kind": kinds.get(type(spec), "string")}


def settings_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model and the call, in Bedrock's names where there are any."""
    settings = {key: data[key] for key in ("name", "description", "outputs") if key in data}
    model = data.get("model")
    model = {"id": model} if isinstance(model, str) else model
    model = model if isinstance(model, Mapping) else {}
    options = model.get("options", model.get("parameters"))
    options = dict(options) if isinstance(options, Mapping) else {}
    tools = [data.get("tools"), *(options.pop(name, None) for name in ("tools", "functions"))]
    if any(tools):
        settings["tools"] = [tool for some in tools for tool in _read_tools(some)]
    name = model.get("id") or options.pop("model_id", None)
    if name and isinstance(name, str):
        settings["model"] = name
    extra = options.pop("additionalProperties", None)
    return settings | sort_options({**options, **(extra if isinstance(extra, Mapping) else {})})


def _read_tools(given: Any) -> Iterator[dict[str, Any]]:
    """Tools, of a list or by name."""
    if isinstance(given, Mapping):
        given = [{"name": str(name), **it} for name, it in given.items() if isinstance(it, Mapping)]
    for one in given if isinstance(given, list) else ():
        if isinstance(one, Mapping):
            yield dict(one)


def read_connection(data: Mapping[str, Any]) -> dict[str, Any]:
    """Where a front matter says that its model is, with the references as they are written.

    The first version of Prompty calls it `configuration`.
    """
    model = data.get("model")
    found: dict[str, Any] = {}
    for name in ("configuration", "connection"):
        if isinstance(model, Mapping) and model.get(name) is not None:
            found[name] = model[name]
    return found
