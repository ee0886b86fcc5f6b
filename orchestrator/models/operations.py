"""What the operations of a request are about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.models.base import CallFormat, OperationFormat
from orchestrator.models.grammar import find_kind
from orchestrator.support.words import part_camel_case


def find_operation(form: CallFormat, name: str) -> OperationFormat | None:
    """The operation with a tool name."""
    return next((one for one in form.operations if one.name == name), None)


def describe_operation(operation: OperationFormat) -> str:
    """All words that say what an operation is about."""
    properties = operation.schema.get("properties") or {}
    words = (f"{name} {schema.get('description', '')}" for name, schema in properties.items())
    text = part_camel_case(" ".join([operation.name, operation.description, *words]))
    return re.sub(r"[\W_]+", " ", text)


def find_required_ids(operation: OperationFormat) -> list[Mapping[str, Any]]:
    """The schemas of its parameters that have to be ids."""
    properties = operation.schema.get("properties") or {}
    schemas = [properties.get(name) or {} for name in operation.schema.get("required") or ()]
    texts = [one for one in schemas if one.get("type") == "string" and "enum" not in one]
    return [one for one in texts if find_kind(one) == "grounded"]
