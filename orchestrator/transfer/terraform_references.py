"""What the expressions of a Terraform configuration refer to, through modules and their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_MOST_STEPS = 20


class References:
    """The references in a plan's `configuration`; a state has none."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        configuration = plan.get("configuration")
        root = _as_mapping(configuration).get("root_module")
        self._root = _as_mapping(root)

    def resolve_member(self, place: str, member: str) -> set[str]:
        """The addresses, without indexes, of the resources that a resource's member refers to.

        Args:
            place: The resource's address without indexes.
            member: The member, with all blocks inside.
        """
        path, own = _split_address(place)
        expressions = self._find_expressions(path, own)
        return set(self._resolve(path, _iter_references(expressions.get(member)), 0))

    def find_referring_members(self, place: str) -> set[str]:
        """The members of a resource whose values refer to something."""
        path, own = _split_address(place)
        found = self._find_expressions(path, own)
        return {name for name, value in found.items() if any(True for _ in _iter_references(value))}

    def _find_expressions(self, path: tuple[str, ...], own: str) -> Mapping[str, Any]:
        resources = self._find_module(path).get("resources")
        for it in resources if isinstance(resources, list) else ():
            if isinstance(it, Mapping) and it.get("address") == own:
                return _as_mapping(it.get("expressions"))
        return {}

    def _find_module(self, path: tuple[str, ...]) -> Mapping[str, Any]:
        module = self._root
        for name in path:
            call = _as_mapping(_as_mapping(module.get("module_calls")).get(name))
            module = _as_mapping(call.get("module"))
        return module

    def _resolve(
        self, path: tuple[str, ...], references: Iterable[str], steps: int
    ) -> Iterator[str]:
        if steps > _MOST_STEPS:
            return
        for reference in references:
            kind, *rest = reference.replace("[", ".").split(".")
            if kind == "var" and path and rest:
                calls = _as_mapping(self._find_module(path[:-1]).get("module_calls"))
                given = _as_mapping(_as_mapping(calls.get(path[-1])).get("expressions")).get(
                    rest[0]
                )
                yield from self._resolve(path[:-1], _iter_references(given), steps + 1)
            elif kind == "module" and len(rest) > 1:
                inner = (*path, rest[0])
                outputs = _as_mapping(self._find_module(inner).get("outputs"))
                names = [name for name in rest[1:] if name in outputs]
                for name in names[:1]:
                    told = _iter_references(_as_mapping(outputs[name]).get("expression"))
                    yield from self._resolve(inner, told, steps + 1)
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
        told = expression.get("references")
        if isinstance(told, list) and all(isinstance(it, str) for it in told):
            yield from told
        else:
            for it in expression.values():
                yield from _iter_references(it)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
