"""Values that a file does not hold, such as a parameter's without a default.

A reader writes `make_unknown(name)` for them. Where that is not of the form that a member needs,
`fit_unknown_values` puts one there that is, or leaves the member out, so that the agent loads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

from orchestrator.support.documents import Keys
from orchestrator.transfer.request_members import get_input_shape, matches_pattern

_MARK = "UNKNOWN-"
_UNKNOWN = re.compile(rf"{_MARK}([0-9A-Za-z-]*)")

_PLACE = "us-east-1:000000000000"

# Values by the shapes of the members, with the name, or an id made of it.
_FORMS = {
    "AgentAliasArn": f"arn:aws:bedrock:{_PLACE}:agent-alias/{{id}}/{{id}}",
    "AgentRoleArn": "arn:aws:iam::000000000000:role/{name}",
    "GuardrailIdentifier": "{low_id}",
    "GuardrailVersion": "DRAFT",
    "Id": "{id}",
    "KmsKeyArn": f"arn:aws:kms:{_PLACE}:key/00000000-0000-0000-0000-000000000000",
    "LambdaArn": f"arn:aws:lambda:{_PLACE}:function:{{name}}",
    "S3BucketName": "unknown-{low_name}",
}


def make_unknown(name: str) -> str:
    """What stands for the value of something called `name`."""
    return _MARK + re.sub(r"[^0-9A-Za-z]+", "-", name).strip("-")[:40]


def make_placeholder_id(name: str) -> str:
    """An id for something that does not exist yet, made from its name."""
    # AWS: ids of agents, aliases and knowledge bases are ten letters and digits.
    letters = "".join(it for it in name if it.isascii() and it.isalnum()).upper()
    if len(letters) <= 10:
        return letters.ljust(10, "0")
    from hashlib import sha256

    return letters[:5] + sha256(name.encode()).hexdigest()[:5].upper()


class Change(NamedTuple):
    """What `fit_unknown_values` did to a member."""

    member: str  # its path, such as `guardrailConfiguration.guardrailVersion`
    value: str  # the unknown value
    stand_in: str  # what stands there now; empty where the member was left out


def fit_unknown_values(operation: str, members: dict[str, Any]) -> list[Change]:
    """Changes the members of a request so that what is unknown has the form that it needs."""
    changes = []
    for shape, holder, key, at in list(_iter_scalars(get_input_shape(operation), members, ())):
        value = str(holder[key])
        found = _UNKNOWN.search(value)
        if found is None or _is_of_form(shape, value):
            continue
        stand_in = _make_stand_in(shape, found[1])
        if stand_in:
            holder[key] = stand_in
        else:
            del holder[key]
        changes.append(Change(".".join(map(str, at)), found[0], stand_in))
    return changes


def _iter_scalars(
    shape: Any, value: Any, at: Keys
) -> Iterator[tuple[Any, MutableMapping[str, Any], str, Keys]]:
    if shape.type_name in ("structure", "map") and isinstance(value, dict):
        if getattr(shape, "is_document_type", False):
            return
        for name, inner in value.items():
            member = shape.value if shape.type_name == "map" else shape.members.get(name)
            if member is None:
                continue
            if isinstance(inner, (dict, list)):
                yield from _iter_scalars(member, inner, (*at, name))
            else:
                yield member, value, name, (*at, name)
    elif shape.type_name == "list" and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _iter_scalars(shape.member, inner, (*at, index))


def _is_of_form(shape: Any, value: str) -> bool:
    if shape.type_name != "string":
        return False
    if shape.enum:
        return value in shape.enum
    return matches_pattern(shape, value)


def _make_stand_in(shape: Any, name: str) -> str:
    id = make_placeholder_id(name or "unknown")
    words = {"name": name, "id": id, "low_id": id.lower(), "low_name": name.lower()[:50]}
    return _FORMS.get(shape.name, "").format(**words)
