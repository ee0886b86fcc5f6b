"""A script's `input` and `output`: described for models, read, and validated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.flows.ppe.data import map_of
from orchestrator.flows.ppe.json_schemas import describe_mismatch
from orchestrator.flows.tree import ScriptError
from orchestrator.support.documents import parse
from orchestrator.support.safe_json import json_or, read_json

_FENCE = re.compile(r"```[ \t]*(?:\w+[ \t]*)?\n(.*?)```", re.S)
_FEW = 5


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a script."""

    name: str  # its name
    required: bool = False  # whether an argument is necessary
    index: int | None = None  # its place among arguments without names
    default: Any = None  # its value without an argument; `None` for none
    schema: Mapping[str, Any] | None = None  # what it must be, as a JSON Schema
    about: str = ""  # what it is, for a model that may call the script
    hidden: bool = False  # whether such a model does not see it


def inputs_of(declared: Any) -> list[Input]:
    """The inputs that front matter declares: names, or mappings from names to settings."""
    items = list(declared.items()) if isinstance(declared, dict) else declared or []
    found = []
    for one in items:
        if isinstance(one, tuple):
            found.append(_input(*one))
        elif isinstance(one, dict):
            found += [_input(name, settings) for name, settings in one.items()]
        else:
            found.append(Input(str(one)))
    return found


def _input(name: str, settings: Any) -> Input:
    if not isinstance(settings, dict):
        return Input(name)
    schema = {key: settings[key] for key in ("type", "enum") if key in settings}
    index = settings.get("index")
    return Input(
        name,
        settings.get("required") is True,
        index if isinstance(index, int) else None,
        settings.get("default"),
        schema or None,
        str(settings.get("description") or ""),
        settings.get("hidden") is True,
    )


def text_input(inputs: Sequence[Input]) -> str:
    """The input that an argument without a name is."""
    return next((one.name for one in inputs if one.index == 0), "content")


def bind_arguments(
    inputs: Sequence[Input],
    args: Sequence[Any],
    named: Mapping[str, Any],
    front: Mapping[str, Any],
) -> dict[str, Any]:
    """Arguments by name; inputs without an argument take the front matter's values."""
    values = dict(named)
    places = {one.index: one.name for one in inputs if one.index is not None}
    for at, value in enumerate(args):
        name = places.get(at, "content" if at == 0 else None)
        if name is None:
            raise ScriptError(
                f"there is no input for the argument {at + 1} without a name",
                f"第 {at + 1} 个未命名的参数没有对应的输入",
            )
        values.setdefault(name, value)
    for one in inputs:
        if one.name not in values and one.default is not None:
            values[one.name] = one.default
        if one.required and values.get(one.name, front.get(one.name)) is None:
            raise ScriptError(
                f"the required input {one.name!r} is missing", f"缺少必需的输入 {one.name!r}"
            )
        if (
            one.schema
            and one.name in values
            and (wrong := describe_mismatch(values[one.name], one.schema))
        ):
            raise ScriptError(
                f"the input {one.name!r} is wrong: {wrong}", f"输入 {one.name!r} 有误: {wrong}"
            )
    return values


def describe_schema(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in words, for a model: `* "a" is a required number`."""
    if not isinstance(schema.get("properties"), dict):
        return f"a {schema.get('type', 'value')}"
    return "\n".join(_describe_members(schema))


def _describe_members(schema: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A line for each member, and below it those of the maps in it."""
    names = schema.get("required")
    required = names if isinstance(names, list) else ()  # `true` says that the map is
    for name, one in schema["properties"].items():
        member = map_of(one)
        items = map_of(member.get("items"))
        what = f"{'a required' if name in required else 'an optional'} {_describe_kind(member)}"
        if isinstance(member.get("enum"), list):
            what += f", one of {', '.join(map(_to_json, member['enum']))}"
        about = member.get("description")
        yield f'{indent}* "{name}" is {what}' + (f": {about}" if about else "")
        for inner in (member, items):
            if isinstance(inner.get("properties"), dict):
                yield from _describe_members(inner, f"{indent}  ")


def _describe_kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "value")
    item = map_of(schema.get("items")).get("type")
    if kind == "array" and isinstance(item, str):
        return f"array of {item}s"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def read_output(reply: str, format: str, schema: Mapping[str, Any] | None) -> Any:
    """A reply as data that fits a schema; the format is `json`, `yaml` or `nobj`.

    A fence around the data, and text around the fence, are passed over.
    """
    found = _FENCE.search(reply)
    text = (found[1] if found else reply).strip()
    value = _PARSERS[format](text)
    if schema and (wrong := describe_mismatch(value, schema)):
        raise ScriptError(wrong, wrong)
    return value


def _json(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"no JSON: {error}", f"不是有效的 JSON: {error}") from None


def _yaml(text: str) -> Any:
    try:
        return parse(text).data
    except DefinitionError as error:
        raise ScriptError(f"no YAML: {error}", f"不是有效的 YAML: {error}") from None


def _flat(text: str) -> Any:
    """`key: value` lines; commas make lists, a blank line begins the next object."""
    objects = []
    for block in re.split(r"\n\s*\n", text.strip()):
        flat: dict[str, Any] = {}
        for line in block.splitlines():
            key, colon, value = line.partition(":")
            if not colon:
                raise ScriptError(f"{line!r} is no 'key: value'", f"{line!r} 不是 'key: value'")
            flat[key.strip().replace(" ", "_")] = _flat_value(value.strip())
        objects.append(flat)
    return objects[0] if len(objects) == 1 else objects


def _flat_value(text: str) -> Any:
    if "," in text:
        return [one.strip() for one in text.split(",")]
    return json_or(text, text)


_PARSERS = {"json": _json, "yaml": _yaml, "nobj": _flat}
