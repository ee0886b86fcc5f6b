"""JSON and YAML documents that know their file, for errors with line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.actions.schemas import Where
from orchestrator.errors import DefinitionError
from orchestrator.support.safe_json import too_deep

__all__ = ["Document"]

_MAX_CHARS = 2_000_000
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document and where it came from.

    Attributes:
        content: The parsed mapping.
        text: Its text; empty when it was given as a mapping.
        file: Its file, when it has one.
    """

    content: Mapping[str, Any]
    text: str = ""
    file: Path | None = None

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | Path) -> Document:
        """Reads a mapping, a JSON or YAML text, or the file at a `Path`.

        Raises:
            DefinitionError: The file cannot be read, or its text is broken, too large, has a
                key twice or is no mapping.
        """
        if isinstance(source, Mapping):
            return cls(source)
        file = source if isinstance(source, Path) else None
        text = _file_text(file) if file is not None else str(source)
        if len(text) > _MAX_CHARS:
            raise DefinitionError(f"the schema has more than {_MAX_CHARS} characters", file=file)
        try:
            content = _json(text, file) if text.lstrip()[:1] == "{" else _yaml(text, file)
        except RecursionError as error:
            raise DefinitionError("the schema is nested too deeply", file=file) from error
        if not isinstance(content, Mapping):
            raise DefinitionError(
                "the schema must be an OpenAPI document, an object with `openapi` and `paths`",
                file=file,
                line=1 if file else None,
            )
        return cls(content, text, file)

    def error(self, message: str, where: Where) -> DefinitionError:
        """The error `message` about the place `where`, with line and column if there is a text."""
        line = column = None
        if self.text:
            line, column = _mark(self.text, where)
        place = " > ".join(str(key) for key in where)
        if place:
            message = f"{message} (at {place})"
        return DefinitionError(message, file=self.file, line=line, column=column)


def _file_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DefinitionError(f"the schema cannot be read: {reason}", file=file) from error


def _json(text: str, file: Path | None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise DefinitionError(
            f"broken JSON: {error.msg}", file=file, line=error.lineno, column=error.colno
        ) from error
    except _Twice as error:
        raise DefinitionError(f"the key {error.args[0]!r} is there twice", file=file) from None


class _Twice(Exception):
    """A key is in an object twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return found


@cache
def _loader() -> type[Any]:
    """PyYAML's safe loader with YAML 1.2's scalars: `no` and `2027-01-31` are texts."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    dropped = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    Loader.yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in resolvers if tag not in dropped]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    booleans = re.compile("true|True|TRUE|false|False|FALSE")
    Loader.add_implicit_resolver(dropped[0], booleans, list("tTfF"))
    return Loader


def _yaml(text: str, file: Path | None) -> Any:
    import yaml

    try:
        if mark := too_deep(text, _loader(), _MAX_DEPTH):
            raise _at(mark, "the schema is nested too deeply", file)
        loader = _loader()(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_keys(node, file, (), set())
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _at(error.problem_mark, f"broken YAML: {error.problem}", file) from error
    except (yaml.YAMLError, ValueError) as error:
        raise DefinitionError(f"broken YAML: {error}", file=file) from error


def _at(mark: Any, message: str, file: Path | None) -> DefinitionError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    return DefinitionError(message, file=file, line=line, column=column)


def _check_keys(node: Any, file: Path | None, above: tuple[int, ...], seen: set[int]) -> None:
    """Refuses a key that is twice in a mapping, and an alias inside what it stands for."""
    if id(node) in above:
        raise _at(node.start_mark, "the YAML contains itself", file)
    if id(node) in seen or not isinstance(node.value, list):
        return
    seen.add(id(node))
    keys: set[str] = set()
    above = (*above, id(node))
    for item in node.value:
        if not isinstance(item, tuple):
            _check_keys(item, file, above, seen)
            continue
        key, value = item
        if key.value in keys and key.tag != "tag:yaml.org,2002:merge":
            raise _at(key.start_mark, f"the key {key.value!r} is there twice", file)
        if isinstance(key.value, str):
            keys.add(key.value)
        _check_keys(value, file, above, seen)


def _mark(text: str, where: Where) -> tuple[int | None, int | None]:
    """Line and column of the place `where`, or of the nearest one above it."""
    import yaml

    try:
        node = _loader()(text).get_single_node()
    except yaml.YAMLError:
        return None, None
    mark = node.start_mark
    for step in where:
        if isinstance(step, int) and isinstance(node, yaml.SequenceNode) and step < len(node.value):
            node = node.value[step]
            mark = node.start_mark
            continue
        found = _member(node, step)
        if found is None:
            break
        mark, node = found[0].start_mark, found[1]
    return mark.line + 1, mark.column + 1


def _member(node: Any, name: object) -> Any:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    return next((item for item in node.value if item[0].value == str(name)), None)
