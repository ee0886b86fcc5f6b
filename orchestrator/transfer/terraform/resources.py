"""The resources of a Terraform plan or state, and what of them is not known yet.

Three forms hold them: `terraform show -json` of a plan (`planned_values`), of a state (`values`),
and the state's own file, `terraform.tfstate` (version 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.transfer.build_document import as_mapping, list_mappings

_MOST_LEVELS_OF_MODULES = 30
_MOST_LEVELS_OF_VALUES = 40
KNOWN_LATE = "is known only when applied"
REMOTE = "remote"
"""The mode of a module that is not here, and may make agents; its type is its source."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A member whose value is not known; `stand_in` is what stands for it, if anything."""

    path: str  # the member, such as `guardrail_configuration.guardrail_identifier`
    text: str = KNOWN_LATE  # what is the matter
    way: str = "set it in agent.yaml if you need it"
    stand_in: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or what a `data` block reads."""

    address: str  # its address, such as `module.hr.aws_bedrockagent_agent.this["eu"]`
    kind: str  # its type
    name: str  # its name in the configuration
    values: Mapping[str, Any]  # what is known of it
    mode: str = "managed"  # or `data`, or `REMOTE`
    gaps: tuple[Gap, ...] = ()  # what is not
    file: str | None = None
    line: int | None = None
    folder: str = ""  # the folder to which its paths are relative, from the project's

    @property
    def place(self) -> str:
        """The address without indexes, which a plan's `configuration` does not have."""
        return _INDEX.sub("", self.address)

    @property
    def indexes(self) -> list[str]:
        """The indexes in the address."""
        return _INDEX.findall(self.address)


_INDEX = re.compile(r"\[[^\]]*\]")


def is_terraform(data: Mapping[str, Any]) -> bool:
    """Whether data is a plan or a state of Terraform."""
    values = data.get("planned_values", data.get("values"))
    return _is_state_file(data) or (isinstance(values, Mapping) and "root_module" in values)


def _is_state_file(data: Mapping[str, Any]) -> bool:
    return data.get("version") == 4 and isinstance(data.get("resources"), list)


def read_resources(data: Mapping[str, Any]) -> list[Resource]:
    """The resources of a plan or state.

    Raises:
        DefinitionError: Modules are nested without end.
    """
    if _is_state_file(data):
        return [it for one in list_mappings(data["resources"]) for it in _iter_instances(one)]
    values = as_mapping(data.get("planned_values", data.get("values")))
    # A plan has read most of its `data` before.
    before = as_mapping(as_mapping(data.get("prior_state")).get("values"))
    earlier = _iter_resources(as_mapping(before.get("root_module")))
    known = [it for it in earlier if it.mode == "data"]
    after = find_after_unknown(data)
    planned = _iter_resources(as_mapping(values.get("root_module")))
    return [*(_note_variables(it, after.get(it.address)) for it in planned), *known]


def _note_variables(resource: Resource, after: Any) -> Resource:
    """A function whose variables a plan does not know yet has them as gaps; others stay."""
    blocks = list_mappings(as_mapping(after).get("environment"))
    unknown = blocks[0].get("variables") if blocks else None
    if resource.kind != "aws_lambda_function" or not unknown:
        return resource
    path = "environment.variables"
    names = [name for name, it in as_mapping(unknown).items() if it]
    paths = [f"{path}.{name}" for name in names] if isinstance(unknown, Mapping) else [path]
    return replace(resource, gaps=tuple(map(Gap, paths)))


def _iter_resources(module: Mapping[str, Any], depth: int = 0) -> Iterator[Resource]:
    if depth > _MOST_LEVELS_OF_MODULES:
        raise DefinitionError("the modules are nested too deeply")
    for it in list_mappings(module.get("resources")):
        address, kind, name = str(it.get("address")), str(it.get("type")), str(it.get("name"))
        mode = str(it.get("mode", "managed"))
        yield Resource(address, kind, name, as_mapping(it.get("values")), mode)
    for child in list_mappings(module.get("child_modules")):
        yield from _iter_resources(child, depth + 1)


def _iter_instances(resource: Mapping[str, Any]) -> Iterator[Resource]:
    # Terraform: an instance with `deposed` waits to be destroyed.
    kind, name = str(resource.get("type")), str(resource.get("name"))
    mode, module = str(resource.get("mode", "managed")), str(resource.get("module") or "")
    parts = [it for it in (module, "data" if mode == "data" else "", kind, name) if it]
    for instance in list_mappings(resource.get("instances")):
        if not instance.get("deposed"):
            index = _format_index(instance.get("index_key"))
            values = as_mapping(instance.get("attributes"))
            yield Resource(".".join(parts) + index, kind, name, values, mode)


def _format_index(key: Any) -> str:
    if key is None:
        return ""
    return f"[{key}]" if isinstance(key, int) else f'["{key}"]'


def find_after_unknown(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan says is not known of each resource, by address."""
    changes = list_mappings(plan.get("resource_changes"))
    return {
        str(it.get("address")): as_mapping(it.get("change")).get("after_unknown") for it in changes
    }


def iter_missing(expression: Any, value: Any, path: str = "", level: int = 0) -> Iterator[str]:
    """The members whose expressions refer to something and which have no value.

    `expression` is a part of a plan's `configuration`, and `value` is the same part of its values.
    """
    if level > _MOST_LEVELS_OF_VALUES:
        return
    if isinstance(expression, list):
        values = value if isinstance(value, list) else []
        for index, inner in enumerate(expression):
            yield from iter_missing(
                inner, values[index] if index < len(values) else None, path, level + 1
            )
    elif isinstance(expression, Mapping):
        if isinstance(expression.get("references"), list):
            if value is None:
                yield path
        elif "constant_value" not in expression:
            for name, inner in expression.items():
                below = as_mapping(value).get(name)
                yield from iter_missing(inner, below, f"{path}.{name}".lstrip("."), level + 1)


def is_unknown_at(unknown: Any, path: Iterable[str]) -> bool:
    """Whether `after_unknown` says that the member at a path is not known, or something in it."""
    for name in path:
        while isinstance(unknown, list):
            unknown = unknown[0] if unknown else None
        if isinstance(unknown, Mapping):
            unknown = unknown.get(name)
    return bool(unknown)
