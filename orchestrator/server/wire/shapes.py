"""A shape of a service model, compiled to one function that checks and reads, or writes, a value.

Both directions are one pass over the value. A path is spelled out only when something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from threading import RLock
from typing import Any

from botocore.loaders import Loader
from botocore.model import ListShape, MapShape, OperationModel, ServiceModel, Shape, StructureShape

from orchestrator.server.wire.values import (
    HIDDEN,
    NULL,
    SCALARS_READ,
    SCALARS_WRITTEN,
    Path,
    Problems,
    Walk,
    is_deeper,
    make_length_check,
    walk_document,
)

_DEEPEST = 100


class Structure:
    """A structure's members, by the names that they have in what is walked.

    Unknown members of a request are ignored, as AWS does; those of an answer are a defect.
    """

    __slots__ = ("_strict", "members", "recursive", "required", "union")

    def __init__(self, strict: bool) -> None:
        self.members: dict[str, tuple[str, str, Walk]] = {}
        self.required: tuple[str, ...] = ()
        self.union = False
        self.recursive = False
        self._strict = strict

    def walk(self, value: Any, path: Path, problems: Problems) -> Any:
        """Gives the members of `value` that the shape has; `None` is a member left out."""
        if type(value) is not dict and not isinstance(value, Mapping):
            problems.add(path, "Member must be a structure")
            return value
        if self.recursive and is_deeper(path, _DEEPEST):
            problems.add(path, f"Member must not be deeper than {_DEEPEST} names")
            return value
        result: dict[str, Any] = {}
        seen = 0
        members = self.members
        for key, item in value.items():
            if item is None:
                continue
            member = members.get(key)
            if member is not None:
                name, other, walk = member
                result[other] = walk(item, (path, name), problems)
                seen += name in self.required
            elif self._strict:
                problems.add(path, f"Member must have no member {key!r}")
        if seen < len(self.required):
            self._report_missing(value, path, problems)
        if self.union and len(result) != 1:
            problems.add(path, f"Member must have exactly one of {sorted(members)}")
        return result

    def _report_missing(self, value: Mapping[str, Any], path: Path, problems: Problems) -> None:
        there = {name for key, (name, _, _) in self.members.items() if value.get(key) is not None}
        for name in self.required:
            if name not in there:
                problems.add((path, name), NULL, None)


class Walks:
    """Compiles a service's shapes for one direction; a structure once, whatever it is part of."""

    def __init__(self, writing: bool) -> None:
        self._scalars = SCALARS_WRITTEN if writing else SCALARS_READ
        self._writing = writing
        self._known: dict[tuple[str, bool], Structure] = {}
        self._open: set[tuple[str, bool]] = set()
        self._filling = RLock()

    def walk(self, shape: Shape, hidden: bool = False) -> Walk:
        """The function for a shape; problems do not show values of a sensitive one."""
        hidden = hidden or bool(shape.metadata.get("sensitive"))
        if isinstance(shape, StructureShape):
            return walk_document if shape.is_document_type else self.structure(shape, hidden).walk
        if isinstance(shape, ListShape):
            return self._make_list_walk(shape, self.walk(shape.member, hidden))
        if isinstance(shape, MapShape):
            return self._make_map_walk(
                shape, self.walk(shape.key, hidden), self.walk(shape.value, hidden)
            )
        return self._scalars[shape.type_name](shape, hidden)

    def structure(
        self, shape: StructureShape, hidden: bool = False, names: frozenset[str] | None = None
    ) -> Structure:
        """The structure of a shape, or of those of its members that are named."""
        if names is not None:
            return self._fill(Structure(self._writing), shape, hidden, names)
        key = (shape.name, hidden)
        with self._filling:
            target = self._known.get(key)
            if target is None:
                # Known before it is filled, for shapes within themselves.
                target = self._known[key] = Structure(self._writing)
                self._open.add(key)
                self._fill(target, shape, hidden, frozenset(shape.members))
                self._open.remove(key)
            elif key in self._open:
                target.recursive = True
            return target

    def _fill(
        self, target: Structure, shape: StructureShape, hidden: bool, names: frozenset[str]
    ) -> Structure:
        target.required = tuple(name for name in shape.required_members if name in names)
        target.union = shape.is_tagged_union
        for name, member in shape.members.items():
            if name in names:
                wire = member.serialization.get("name", name)
                here, there = (name, wire) if self._writing else (wire, name)
                target.members[here] = (name, there, self.walk(member, hidden))
        return target

    def _make_list_walk(self, shape: ListShape, part: Walk) -> Walk:
        check = make_length_check(shape)

        def walk(value: Any, path: Path, problems: Problems) -> Any:
            if not isinstance(value, list | tuple):
                problems.add(path, "Member must be a list")
                return value
            check(len(value), path, problems, HIDDEN)
            result = []
            for number, item in enumerate(value, 1):
                place = ((path, str(number)), "member")
                if item is None:
                    problems.add(place, NULL, None)
                else:
                    result.append(part(item, place, problems))
            return result

        return walk

    def _make_map_walk(self, shape: MapShape, key: Walk, part: Walk) -> Walk:
        check = make_length_check(shape)

        def walk(value: Any, path: Path, problems: Problems) -> Any:
            if not isinstance(value, Mapping):
                problems.add(path, "Member must be a map")
                return value
            check(len(value), path, problems, HIDDEN)
            result = {}
            for name, item in value.items():
                place = (path, str(name))
                if item is None:
                    problems.add(place, NULL, None)
                else:
                    result[key(name, place, problems)] = part(item, place, problems)
            return result

        return walk


@cache
def get_read_walks(service: str) -> Walks:
    """From JSON as it was received to what a boto3 caller gave."""
    return Walks(writing=False)


@cache
def get_write_walks(service: str) -> Walks:
    """From what a boto3 caller will get to JSON."""
    return Walks(writing=True)


SERVICES = ("bedrock-agent", "bedrock-agent-runtime", "bedrock-runtime", "bedrock")
"""The services on the port. Where a path is in two, the first one's operation is tried first."""


@cache
def service_model(service: str) -> ServiceModel:
    """The model of a service, loaded once in a process."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


@cache
def operation_model(service: str, operation: str) -> OperationModel:
    """The model of an operation; the same object for the same names, for all that is made of it."""
    return service_model(service).operation_model(operation)


Converted = Callable[[Any], Any]

_SERVICE = "bedrock-agent-runtime"


@cache
def get_converter(shape: str) -> Converted:
    """What makes a value of a shape as a handler gives it: times for texts, and no more members.

    Members that the shape does not have are left out: those of agents that inline agents' traces
    do not have, and what knowledge bases and remote agents say besides.
    """
    return _build_converter(service_model(_SERVICE).shape_for(shape), ()) or (lambda value: value)


def _build_converter(shape: Any, above: tuple[str, ...]) -> Converted | None:
    """How a value of a shape is converted; `None` when it is written as it is."""
    if shape.type_name == "timestamp":
        return _parse_time
    # Filters hold themselves, and are the caller's own.
    if shape.name in above:
        return None
    if shape.type_name == "structure" and not shape.is_document_type:
        above = (*above, shape.name)
        return _build_structure_converter(
            {name: _build_converter(it, above) for name, it in shape.members.items()}
        )
    if shape.type_name == "list":
        convert = _build_converter(shape.member, (*above, shape.name))
        return convert and (lambda value: [convert(one) for one in value])
    return None


def _build_structure_converter(members: Mapping[str, Converted | None]) -> Converted:
    def convert_structure(value: Any) -> Any:
        result = {}
        for name, one in value.items():
            if name in members:
                convert = members[name]
                result[name] = one if convert is None else convert(one)
        return result

    return convert_structure


def _parse_time(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
