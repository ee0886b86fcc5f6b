"""What refers to what in the configuration of a Terraform plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.transfer.build_document import as_mapping, list_mappings

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

    def find_expressions(self, place: str) -> Mapping[str, Any]:
        """The expressions of a resource's members."""
        return self._find_expressions(*_split_address(place))

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
