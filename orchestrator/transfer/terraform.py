"""Agents in a Terraform plan or state (`terraform show -json`) → `Document`s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import DefinitionError
from orchestrator.transfer.build_document import (
    as_mapping,
    build_document,
    list_mappings,
)
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.remote import parse_alias_arn
from orchestrator.transfer.unknown_values import make_placeholder_id

_AGENT = "aws_bedrockagent_agent"
_GROUP = "aws_bedrockagent_agent_action_group"
_BASE = "aws_bedrockagent_agent_knowledge_base_association"
_MEMBER = "aws_bedrockagent_agent_collaborator"
_ALIAS = "aws_bedrockagent_agent_alias"

_MOST_LEVELS_OF_MODULES = 30
_NOT_OF_A_PART = ("agent_version", "prepare_agent")


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource of the plan."""

    address: str  # its address, such as `module.hr.aws_bedrockagent_agent.this["eu"]`
    kind: str  # its type
    name: str  # its name in the configuration
    values: Mapping[str, Any]  # what is known of it

    @property
    def place(self) -> str:
        # Terraform: `configuration` has no indexes, `planned_values` has.
        return re.sub(r"\[[^\]]*\]", "", self.address)

    @property
    def indexes(self) -> list[str]:
        return re.findall(r"\[[^\]]*\]", self.address)


def is_terraform(data: Mapping[str, Any]) -> bool:
    """Whether data is a plan or a state of Terraform."""
    values = data.get("planned_values", data.get("values"))
    return isinstance(values, Mapping) and "root_module" in values


def read_terraform(plan: Mapping[str, Any]) -> dict[str, Document]:
    """The agents of a plan or state, by their addresses, with those of it that they lead.

    What a plan does not know yet is found by the configuration's references, or noted.

    Raises:
        DefinitionError: An agent is wrong, or modules are nested without end.
    """
    reader = _Reader(plan)
    return {it.address: reader.read_agent(it, ()) for it in reader.find_by_type(_AGENT)}


def _iter_resources(module: Mapping[str, Any], depth: int = 0) -> Iterator[_Resource]:
    if depth > _MOST_LEVELS_OF_MODULES:
        raise DefinitionError("the modules are nested too deeply")
    for it in list_mappings(module.get("resources")):
        if it.get("mode", "managed") == "managed":
            address, kind, name = str(it.get("address")), str(it.get("type")), str(it.get("name"))
            yield _Resource(address, kind, name, as_mapping(it.get("values")))
    for child in list_mappings(module.get("child_modules")):
        yield from _iter_resources(child, depth + 1)


class _Reader:
    def __init__(self, plan: Mapping[str, Any]) -> None:
        values = as_mapping(plan.get("planned_values", plan.get("values")))
        self.resources = list(_iter_resources(as_mapping(values.get("root_module"))))
        self.references = References(plan)
        self.known: dict[str, Document] = {}

    def find_by_type(self, kind: str) -> list[_Resource]:
        return [it for it in self.resources if it.kind == kind]

    def read_agent(self, agent: _Resource, above: tuple[str, ...]) -> Document:
        if agent.address not in self.known:
            notes: list[Any] = []
            parts = [
                [
                    self.read_part(it, notes)
                    for it in self.find_by_type(kind)
                    if self.find_owner(it) is agent
                ]
                for kind in (_GROUP, _BASE, _MEMBER)
            ]
            values = {k: v for k, v in agent.values.items() if k != "agent_version"}
            document = build_document(values, parts, agent_id=agent.values.get("agent_id"))
            if document.name == "agent" and not agent.values.get("agent_name"):
                document.data["agentName"] = agent.name
            document.notes += notes
            for member in sorted(self.references.find_referring_members(agent.place)):
                if agent.values.get(member) is None:
                    text = f"{document.name}: {agent.address}.{member} is known only when applied"
                    way = "set it in agent.yaml if you need it"
                    document.notes.append(note("unknown", text, way))
            self.known[agent.address] = document
            self.read_team(document, agent, (*above, agent.address))
        return self.known[agent.address]

    def find_owner(self, part: _Resource) -> _Resource | None:
        return self.find_referenced(part, "agent_id", _AGENT, ("agent_id", "id"))

    def find_referenced(
        self, part: _Resource, member: str, kind: str, ids: tuple[str, ...]
    ) -> _Resource | None:
        # A state has values. A plan has only references for what is not made yet; of several
        # resources with one address, that with the same `count` or `for_each` index is meant.
        value = part.values.get(member)
        candidates = self.find_by_type(kind)
        if value is not None:
            known = [it for it in candidates if value in [it.values.get(id) for id in ids]]
            if known:
                return known[0]
        places = self.references.resolve_member(part.place, member)
        found = [it for it in candidates if it.place in places]
        same = [it for it in found if it.indexes == part.indexes]
        if same or len(found) == 1:
            return (same or found)[0]
        return None

    def read_part(self, part: _Resource, notes: list[Any]) -> dict[str, Any]:
        values = {k: v for k, v in part.values.items() if k not in _NOT_OF_A_PART}
        if part.kind == _GROUP:
            self.put_lambda(part, values, notes)
        if part.kind == _BASE and not values.get("knowledge_base_id"):
            places = sorted(self.references.resolve_member(part.place, "knowledge_base_id"))
            values["knowledge_base_id"] = make_placeholder_id(
                (places or [part.name])[0].split(".")[-1]
            )
            notes.append(
                _make_unknown_note(f"{part.address}.knowledge_base_id", values["knowledge_base_id"])
            )
        return values

    def put_lambda(self, part: _Resource, values: dict[str, Any], notes: list[Any]) -> None:
        # A plan does not know the ARN of a function that is not made yet; its name is enough for
        # a placeholder.
        executor = values.get("action_group_executor") or [{}]
        own = executor[0] if isinstance(executor, list) else executor
        if not isinstance(own, Mapping) or own.get("lambda") or own.get("custom_control"):
            return
        if values.get("parent_action_group_signature"):
            return
        places = self.references.resolve_member(part.place, "action_group_executor")
        functions = [it for it in self.resources if it.place in places and "lambda" in it.kind]
        names = [str(it.values.get("function_name") or it.name) for it in functions]
        name = (names or [it.split(".")[-1] for it in sorted(places)] or [part.name])[0]
        arn = f"arn:aws:lambda:us-east-1:000000000000:function:{name}"
        values["action_group_executor"] = [{"lambda": arn}]
        notes.append(_make_unknown_note(f"{part.address}.action_group_executor.lambda", arn))

    def read_team(self, document: Document, agent: _Resource, above: tuple[str, ...]) -> None:
        for part in self.find_by_type(_MEMBER):
            if self.find_owner(part) is not agent:
                continue
            led = self.find_collaborator(part)
            name = str(part.values.get("collaborator_name"))
            if led is not None and led.address not in above and len(above) < MOST_LEVELS:
                document.team[name] = self.read_agent(led, above)

    def find_collaborator(self, part: _Resource) -> _Resource | None:
        descriptor = part.values.get("agent_descriptor")
        block = descriptor[0] if isinstance(descriptor, list) and descriptor else descriptor
        if ids := parse_alias_arn(as_mapping(block).get("alias_arn")):
            known = [it for it in self.find_by_type(_AGENT) if it.values.get("agent_id") == ids[0]]
            return known[0] if known else None
        alias = self.find_referenced(part, "agent_descriptor", _ALIAS, ())
        return self.find_owner(alias) if alias is not None else None


def _make_unknown_note(what: str, value: str) -> Any:
    text = f"{what} is known only when applied; {value!r} stands for it"
    return note("unknown", text, "change it in agent.yaml, or put a file of yours in its place")


_MOST_STEPS = 20


class References:
    """The references in a plan's `configuration`; a state has none."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._root = as_mapping(as_mapping(plan.get("configuration")).get("root_module"))

    def resolve_member(self, place: str, member: str) -> set[str]:
        """The addresses, without indexes, of what a resource's member refers to."""
        path, own = _split_address(place)
        expressions = self._find_expressions(path, own)
        return set(self._resolve(path, _iter_references(expressions.get(member)), 0))

    def find_referring_members(self, place: str) -> set[str]:
        """The members of a resource whose values refer to something."""
        path, own = _split_address(place)
        found = self._find_expressions(path, own)
        return {name for name, value in found.items() if any(True for _ in _iter_references(value))}

    def _find_expressions(self, path: tuple[str, ...], own: str) -> Mapping[str, Any]:
        resources = list_mappings(self._find_module(path).get("resources"))
        found = (it.get("expressions") for it in resources if it.get("address") == own)
        return as_mapping(next(found, None))

    def _find_module(self, path: tuple[str, ...]) -> Mapping[str, Any]:
        module = self._root
        for name in path:
            call = as_mapping(as_mapping(module.get("module_calls")).get(name))
            module = as_mapping(call.get("module"))
        return module

    def _resolve(
        self, path: tuple[str, ...], references: Iterable[str], steps: int
    ) -> Iterator[str]:
        # A forged plan may refer in a circle.
        if steps > _MOST_STEPS:
            return
        for reference in references:
            kind, *rest = reference.replace("[", ".").split(".")
            if kind == "var" and path and rest:
                calls = as_mapping(self._find_module(path[:-1]).get("module_calls"))
                argument = as_mapping(as_mapping(calls.get(path[-1])).get("expressions")).get(
                    rest[0]
                )
                yield from self._resolve(path[:-1], _iter_references(argument), steps + 1)
            elif kind == "module" and len(rest) > 1:
                inner = (*path, rest[0])
                outputs = as_mapping(self._find_module(inner).get("outputs"))
                names = [name for name in rest[1:] if name in outputs]
                for name in names[:1]:
                    inside = _iter_references(as_mapping(outputs[name]).get("expression"))
                    yield from self._resolve(inner, inside, steps + 1)
            elif rest and kind not in ("var", "local", "data", "each", "count", "module"):
                yield "".join(f"module.{it}." for it in path) + f"{kind}.{rest[0]}"


def _split_address(place: str) -> tuple[tuple[str, ...], str]:
    parts = place.split(".")
    path = []
    while len(parts) > 2 and parts[0] == "module":
        path.append(parts[1])
        parts = parts[2:]
    return tuple(path), ".".join(parts)


def _iter_references(expression: Any) -> Iterator[str]:
    if isinstance(expression, list):
        for it in expression:
            yield from _iter_references(it)
    elif isinstance(expression, Mapping):
        names = expression.get("references")
        if isinstance(names, list) and all(isinstance(it, str) for it in names):
            yield from names
        else:
            for it in expression.values():
                yield from _iter_references(it)
