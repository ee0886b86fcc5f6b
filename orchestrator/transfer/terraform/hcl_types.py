"""Terraform's type constraints, as far as they change values: attributes that may be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.transfer.terraform.hcl import iter_nodes, name_of, read_name, unwrap

_COLLECTIONS = ("list", "set", "map")


def complete_value(type_: Any, value: Any, evaluate: Callable[[Any], Any]) -> Any:
    """The value of a variable with what its type says of attributes that are not set.

    `type_` is a node of the parser's tree, and `evaluate` works out the defaults in it.
    """
    name, arguments = _read_call(type_)
    if name == "optional" and arguments:
        if value is None and len(arguments) > 1:
            value = evaluate(arguments[1])
        return complete_value(arguments[0], value, evaluate)
    if name == "object" and arguments and isinstance(value, dict):
        return {**value, **_complete_attributes(arguments[0], value, evaluate)}
    if name in _COLLECTIONS and arguments and isinstance(value, dict):
        return {key: complete_value(arguments[0], it, evaluate) for key, it in value.items()}
    if name in _COLLECTIONS and arguments and isinstance(value, list):
        return [complete_value(arguments[0], it, evaluate) for it in value]
    return value


def _complete_attributes(
    object_: Any, value: dict[str, Any], evaluate: Callable[[Any], Any]
) -> dict[str, Any]:
    attributes = {}
    for element in iter_nodes(unwrap(object_)):
        if name_of(element) == "object_elem":
            key, _, inner = iter_nodes(element)
            name = read_name(key)
            # Terraform: an attribute that is null has its default, too.
            if name in value or _read_call(inner)[0] == "optional":
                attributes[name] = complete_value(inner, value.get(name), evaluate)
    return attributes


def _read_call(node: Any) -> tuple[str, list[Any]]:
    """The name and arguments of a type such as `list(string)`; an empty name for any other."""
    node = unwrap(node)
    if name_of(node) != "function_call":
        return "", []
    name, *parts = (it for it in iter_nodes(node) if name_of(it) in ("identifier", "arguments"))
    return read_name(name), [it for part in parts for it in iter_nodes(part)]
