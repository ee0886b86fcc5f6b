"""Schemas of action groups: read from Amazon S3, compared by what they say, made of functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.actions import Operation
from orchestrator.errors import DefinitionError
from orchestrator.support.aws import Settings, Target, body_of, get_shared_client, translate_errors
from orchestrator.support.documents import MAX_BYTES, Rules, decode, parse

_RULES = Rules(aliases=True, any_names=False)


def read_schema_from_s3(place: Mapping[str, Any], region: str | None, profile: str | None) -> str:
    """The text of an API schema in Amazon S3.

    Raises:
        DefinitionError: It is too large, or is no text.
        DependencyFailed: It is not there, or may not be read.
    """
    bucket, key = str(place.get("s3BucketName")), str(place.get("s3ObjectKey"))
    address = f"s3://{bucket}/{key}"
    target = Target(
        f"the schema {address!r}",
        address,
        "allow s3:GetObject",
        quoted=frozenset(("AccessDenied",)),
        callers=False,
    )
    settings = Settings("s3", region=region, profile=profile, read_timeout=30.0, deadline=30.0)
    with translate_errors(target):
        answer = get_shared_client(settings, target).get_object(Bucket=bucket, Key=key)
        return decode(body_of(answer["Body"], MAX_BYTES), address)


def is_same_schema(one: str, other: str) -> bool:
    """Whether two texts of API schemas say the same, however they are written."""
    if one == other:
        return True
    try:
        # What is JSON is YAML, too.
        return bool(parse(one, rules=_RULES).data == parse(other, rules=_RULES).data)
    except DefinitionError:
        return False


def to_function_schema(operations: Iterable[Operation]) -> dict[str, Any]:
    """Bedrock's `functionSchema` of functions in Python."""
    functions = [
        {
            "name": operation.name,
            "description": operation.description,
            "requireConfirmation": "ENABLED" if operation.require_confirmation else "DISABLED",
            "parameters": {
                it.name: {
                    "type": it.type if it.type != "object" else "string",
                    "description": it.description,
                    "required": it.required,
                }
                for it in operation.parameters
            },
        }
        for operation in operations
    ]
    return {"functions": functions}
