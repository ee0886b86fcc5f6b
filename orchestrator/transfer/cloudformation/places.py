"""Where in a CloudFormation template a value is used that only a deployment knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.support.documents import Place

_NAME = re.compile(r"[\w:]+(?:\.[\w.]+)?$")


def find_expression(node: Any, resource: Place | None, expression: str) -> int | None:
    """The line of a resource's properties, `node`, where an expression stands; `None` if nowhere.

    The expression is as `Intrinsics` names it, such as `Ref Rules` or `the parameter Model`.
    """
    found = _NAME.search(expression)
    # A dynamic reference stands there as it is.
    name = expression if expression.startswith("{{") else found[0] if found else ""
    properties = resource.child("Properties") if resource else None
    if not name or properties is None:
        return None
    name = name.removesuffix(".Ref")
    return next((it.line for it in _iter_places(node, properties, name)), None)


def _iter_places(node: Any, place: Place, name: str) -> Iterator[Place]:
    if isinstance(node, str) and _names(node, name):
        yield place
    if isinstance(node, list) and ".".join(map(str, node)) == name:
        yield place
    pairs = node.items() if isinstance(node, Mapping) else ()
    for key, inner in enumerate(node) if isinstance(node, list) else pairs:
        # A function in the short form, such as `!Ref Rules`, has no place of its own.
        yield from _iter_places(inner, place.children.get(key, place), name)


def _names(text: str, name: str) -> bool:
    return text == name or "${" + name + "}" in text
