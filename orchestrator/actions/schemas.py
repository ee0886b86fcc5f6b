"""JSON Schemas out of one document: references followed, bounded, reduced to what models need.

References are resolved inside the document only (JSON pointers, by the `referencing` package);
nothing is ever fetched. What comes out has no `$ref`, no OpenAPI-only members and no `null` types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from orchestrator.actions.base import Parameter
from orchestrator.actions.names import check_text
from orchestrator.errors import DefinitionError
from orchestrator.support.spelling import did_you_mean

# A place in a document: the keys that lead to it.
Where = tuple[str | int, ...]

TYPES = ("string", "number", "integer", "boolean", "array", "object")

# References can multiply: a small document may stand for millions of parts, and for more text than
# any model reads.
_MAX_DEPTH = 24
_MAX_NODES = 5_000
_MAX_CHARS = 2_000_000
_MAX_REFERENCE = 1_000
_MEMBER = 10  # characters that a member costs, whatever its name

_KEPT = frozenset(
    "type description default format pattern minLength maxLength minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems required".split()
)
_LISTS = ("anyOf", "oneOf", "allOf")
# Members that are kept as they are, or read one by one.
_WEIGHED = ("enum", "const", "required", "type", "default", "format", "pattern")
_TEXT = "a name or description in the schema"
# Dots and hyphens are in the documents of many APIs and MCP servers.
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class SchemaSize:
    """What the schemas that share a bound have come to, with their references followed."""

    def __init__(self, most: int = _MAX_NODES) -> None:
        self.most = most  # parts
        self.nodes = self.chars = 0


class SchemaReader:
    """Reads schemas out of one document; its bounds hold for all of them together.

    `#/...` references point into `document`; `fail` makes the error for a message and a place, when
    a schema is wrong, too large or too deep, or a reference is remote, recursive or leads nowhere.
    With a `size`, the bounds hold for all readers that share it. `of_results` reads schemas of what
    calls return, and not of what they are given.
    """

    def __init__(
        self,
        document: Any,
        fail: Callable[[str, Where], DefinitionError],
        size: SchemaSize | None = None,
        *,
        of_results: bool = False,
    ) -> None:
        self._document = document
        self._fail = fail
        self._resolver: Any = None
        self._size = size or SchemaSize()
        # (OpenAPI: whom a property is not for.)
        self._hidden = "writeOnly" if of_results else "readOnly"

    def follow(self, node: Any, where: Where) -> Any:
        """`node`, or what its `$ref` points to, for places where OpenAPI allows a reference."""
        seen: tuple[str, ...] = ()
        while isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            ref = node["$ref"]
            if len(seen) >= _MAX_DEPTH:
                raise self._fail(f"the reference {ref!r} is one of more than {_MAX_DEPTH}", where)
            node, seen = self._lookup(ref, seen, where), (*seen, ref)
        return node

    def schema(self, node: Any, where: Where) -> dict[str, Any]:
        """The schema `node`, complete in itself."""
        return self._read(node, where, (), 0)

    def object_parameters(
        self, schema: Mapping[str, Any], location: str, where: Where
    ) -> tuple[Parameter, ...]:
        """The properties of an object that `schema` has read, each as a parameter in `location`."""
        required = schema.get("required", ())
        return tuple(
            Parameter(
                self.parameter_name(name, (*where, "properties", name)),
                kind_of(one),
                one.get("description", "").strip(),
                name in required,
                location,
                one,
            )
            for name, one in schema.get("properties", {}).items()
        )

    def parameter_name(self, name: object, where: Where) -> str:
        """`name`, when a parameter may have it."""
        if isinstance(name, str) and _PARAMETER_NAME.fullmatch(name):
            return name
        raise self._fail(
            f"the parameter name {name!r} is not possible: a letter, then up to 63 letters, "
            "digits, '_', '.' or '-'",
            where,
        )

    def text(self, value: object, what: str, where: Where) -> str:
        """`value`, when it is a text that hides nothing."""
        if isinstance(value, str):
            self._weigh(len(value), where)
        try:
            return check_text(value, what)
        except DefinitionError as error:
            raise self._fail(error.reason, where) from None

    def _lookup(self, ref: str, chain: tuple[str, ...], where: Where) -> Any:
        if len(ref) > _MAX_REFERENCE:
            raise self._fail(f"a reference has more than {_MAX_REFERENCE:,} characters", where)
        if not ref.startswith("#"):
            raise self._fail(
                f"the reference {ref!r} leads out of the document; only references such as "
                "'#/components/schemas/Name' are followed: copy the schema here",
                where,
            )
        if ref in chain:
            raise self._fail(
                f"the reference {ref!r} is recursive ({' -> '.join((*chain, ref))}); a model needs "
                "a finite schema: end it with a plain `type: object`",
                where,
            )
        import referencing.exceptions

        try:
            return self._pointers().lookup(ref).contents
        except (referencing.exceptions.Unresolvable, LookupError, ValueError, TypeError) as error:
            raise self._fail(f"the reference {ref!r} leads nowhere", where) from error

    def _pointers(self) -> Any:
        if self._resolver is None:
            from referencing import Registry, Resource, Specification

            resource = Resource.from_contents(
                self._document, default_specification=Specification.OPAQUE
            )
            self._resolver = Registry().with_resource("", resource).resolver()
        return self._resolver

    def _read(self, node: Any, where: Where, chain: tuple[str, ...], depth: int) -> dict[str, Any]:
        self._count(where, chain, depth)
        if node is True:
            return {}
        if not isinstance(node, Mapping):
            raise self._fail(f"a schema must be an object, not {node!r:.40}", where)
        ref = node.get("$ref")
        if not isinstance(ref, str):
            return self._members(node, where, chain, depth)
        target = self._lookup(ref, chain, where)
        read = self._read(target, where, (*chain, ref), depth + 1)
        if isinstance(node.get("description"), str):
            read = {**read, "description": self.text(node["description"], _TEXT, where)}
        return read

    def _count(self, where: Where, chain: tuple[str, ...], depth: int) -> None:
        size = self._size
        size.nodes += 1
        if depth <= _MAX_DEPTH and size.nodes <= size.most:
            return
        via = f" (through {' -> '.join(map(repr, chain))})" if chain else ""
        if depth > _MAX_DEPTH:
            raise self._fail(f"the schema is more than {_MAX_DEPTH} levels deep{via}", where)
        # All schemas of a document count together.
        raise self._fail(f"the schemas have more than {size.most} parts{via}", where)

    def _weigh(self, chars: int, where: Where) -> None:
        self._size.chars += chars
        if self._size.chars > _MAX_CHARS:
            raise self._fail(
                f"the schemas come to more than {_MAX_CHARS:,} characters with their references "
                "followed; shorten texts and lists of values that are used often",
                where,
            )

    def _members(
        self, node: Mapping[str, Any], where: Where, chain: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        def child(value: Any, *keys: str | int) -> dict[str, Any]:
            return self._read(value, (*where, *keys), chain, depth + 1)

        self._weigh_members(node, where)
        out = {key: value for key, value in node.items() if key in _KEPT and value is not None}
        if "description" in out:
            out["description"] = self.text(out["description"], _TEXT, where)
        self._enum(node, out, where)
        if isinstance(node.get("properties"), Mapping):
            self._properties(node["properties"], out, where, child)
        if isinstance(node.get("items"), Mapping):
            out["items"] = child(node["items"], "items")
        extra = node.get("additionalProperties")
        if extra is not None:
            out["additionalProperties"] = (
                child(extra, "additionalProperties") if isinstance(extra, Mapping) else bool(extra)
            )
        for key in _LISTS:
            if isinstance(node.get(key), list):
                out[key] = [child(one, key, i) for i, one in enumerate(node[key])]
        return self._normal(out, where)

    def _weigh_members(self, node: Mapping[str, Any], where: Where) -> None:
        properties = node.get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        self._weigh(_MEMBER * (len(node) + len(names)), where)
        for key in _WEIGHED:
            value = node.get(key)
            if isinstance(value, str):
                self._weigh(len(value), where)
            elif isinstance(value, list | Mapping):
                self._weigh(len(json.dumps(value, default=str, skipkeys=True)), where)

    def _properties(
        self,
        properties: Mapping[str, Any],
        out: dict[str, Any],
        where: Where,
        child: Callable[..., dict[str, Any]],
    ) -> None:
        found = out["properties"] = {}
        for name, value in properties.items():
            if not (isinstance(value, Mapping) and value.get(self._hidden) is True):
                found[self.text(name, _TEXT, where)] = child(value, "properties", name)
        required = out.get("required")
        if isinstance(required, list):
            out["required"] = [name for name in required if isinstance(name, str) and name in found]

    def _enum(self, node: Mapping[str, Any], out: dict[str, Any], where: Where) -> None:
        values = [node["const"]] if "const" in node else node.get("enum")
        if values is None:
            return
        if not isinstance(values, list) or not values:
            raise self._fail("`enum` must be a list with at least one value", where)
        for value in values:
            if isinstance(value, str):
                self.text(value, _TEXT, where)
        out["enum"] = [value for value in values if value is not None] or values

    def _normal(self, out: dict[str, Any], where: Where) -> dict[str, Any]:
        _merge(out, out.pop("allOf", ()))
        for key in ("anyOf", "oneOf"):
            if key in out:
                _branches(out, [one for one in out.pop(key) if one.get("type") != "null"])
        if isinstance(out.get("type"), list):
            kinds = _distinct_types(out.pop("type"))
            if len(kinds) == 1:
                out["type"] = kinds[0]
            else:
                out["anyOf"] = [{"type": kind} for kind in kinds]
        if "type" not in out and "anyOf" not in out:
            _infer(out)
        self._check_type(out, where)
        if not isinstance(out.get("required", []), list):
            del out["required"]  # `required: true` on a property is OpenAPI 2's
        return _bounds(out)

    def _check_type(self, out: Mapping[str, Any], where: Where) -> None:
        kinds: Iterable[Any] = (out, *out.get("anyOf", ()))
        for kind in (one.get("type", "string") for one in kinds):
            if kind not in TYPES and kind != "null":
                advice = did_you_mean(kind, TYPES)
                raise self._fail(
                    f"the type {kind!r} is unknown; allowed are {', '.join(TYPES)}{advice}", where
                )


def _distinct_types(kinds: list[Any]) -> list[Any]:
    known = sorted((kind for kind in TYPES if kind in kinds), key=kinds.index)
    unknown = (kind for kind in kinds if kind not in TYPES and kind != "null")
    return [*known, *islice(unknown, 1)]


# What stands first holds; all names that are required anywhere are.
def _merge(out: dict[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
    if not parts:
        return
    properties, required = dict(out.get("properties", {})), list_required(out)
    for part in parts:
        required.update(list_required(part))
        for name, one in part.get("properties", {}).items():
            properties.setdefault(name, one)
        for key, value in part.items():
            out.setdefault(key, value)
    if "properties" in out:
        out["properties"] = properties
    if "required" in out:
        out["required"] = list(required)


def list_required(schema: Mapping[str, Any]) -> dict[str, None]:
    """The names of required members; servers write anything there, and what is no name is none."""
    names = schema.get("required")
    found = names if isinstance(names, list | tuple) else ()
    return {name: None for name in found if isinstance(name, str)}


# One alternative that is left over becomes the schema itself.
def _branches(out: dict[str, Any], branches: list[dict[str, Any]]) -> None:
    if len(branches) == 1:
        for key, value in branches[0].items():
            out.setdefault(key, value)
    elif branches:
        out["anyOf"] = [*out.get("anyOf", []), *branches]


_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string"}


# Authors leave `type` out; the other members mostly imply it.
def _infer(out: dict[str, Any]) -> None:
    if "properties" in out:
        out["type"] = "object"
    elif "items" in out:
        out["type"] = "array"
    elif "enum" in out:
        kinds = {_KINDS.get(type(value)) for value in out["enum"]}
        if len(kinds) == 1 and None not in kinds:
            out["type"] = kinds.pop()


# OpenAPI 3.0's `exclusiveMinimum` is a boolean beside `minimum`; JSON Schema's is the number.
def _bounds(out: dict[str, Any]) -> dict[str, Any]:
    for side in ("Minimum", "Maximum"):
        exclusive = out.get(f"exclusive{side}")
        if isinstance(exclusive, bool):
            del out[f"exclusive{side}"]
            if exclusive and side.lower() in out:
                out[f"exclusive{side}"] = out.pop(side.lower())
    return out


def kind_of(schema: Mapping[str, Any]) -> str:
    """The one of Bedrock's types that describes `schema` best."""
    kind = schema.get("type")
    if kind is None:
        kind = next((one["type"] for one in schema.get("anyOf", ()) if "type" in one), "string")
    return str(kind)
