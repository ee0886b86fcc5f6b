"""The JSON Schema of an `agent.yaml`, for editors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.fields import Part

SCHEMA_ID = "urn:bedrock-orchestrator:agent-definition:1"


def definition_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a definition.

    It has Bedrock's spelling only, so that editors offer one; documents in Python's spelling load
    all the same. Descriptions are those of the classes' docstrings.
    """
    schema = AgentDefinition.model_json_schema(by_alias=True)
    models = {model.__name__: model for model in _parts(Part)}
    for name, part in [("AgentDefinition", schema), *schema.get("$defs", {}).items()]:
        _describe(part, models[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **schema,
        "title": "An agent",
    }


def _parts(model: type[Part]) -> Iterator[type[Part]]:
    for inner in model.__subclasses__():
        yield inner
        yield from _parts(inner)


def _describe(schema: dict[str, Any], model: type[Part]) -> None:
    schema["description"], members = _parse_docstring(model)
    schema.pop("title", None)
    for name, field in model.model_fields.items():
        member = schema["properties"][str(field.alias)]
        member.pop("title", None)
        _require_a_value(member, field.default)
        if "patternProperties" in member:
            member["additionalProperties"] = False
        member["description"] = members[name]


# Null is read as "left out"; editors need not offer it where it has no meaning itself.
def _require_a_value(member: dict[str, Any], default: Any) -> None:
    if default is not None:
        return
    member.pop("default", None)
    for choice in member.pop("anyOf", ()):
        if choice != {"type": "null"}:
            member.update(choice)


# Editors show these texts: they have one source, the docstrings.
def _parse_docstring(model: type[Part]) -> tuple[str, dict[str, str]]:
    text, _, section = cleandoc(model.__doc__ or "").partition("\nAttributes:\n")
    members: dict[str, str] = {}
    for found in re.finditer(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE):
        members[found[1]] = " ".join(found[2].split())
    return " ".join(text.partition("\n\n")[0].split()), members
