"""What the tests of APIs over HTTP share: a document, and a group of it."""

from __future__ import annotations

from typing import Any

from orchestrator.actions import ActionGroup, HttpExecutor

RESPONSES = {"200": {"description": "ok"}}


def parameter(name: str, place: str, kind: str = "string", **members: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": kind}
    if kind == "array":
        schema["items"] = {"type": "string"}
    found = {"name": name, "in": place, "schema": schema, **members}
    return {**found, "required": True} if place == "path" else found


def document(path: str = "/claims", verb: str = "get", **members: Any) -> dict[str, Any]:
    operation = {"operationId": "it", "description": "d", "responses": RESPONSES, **members}
    return {
        "openapi": "3.0.0",
        "info": {"title": "t", "version": "1"},
        "paths": {path: {verb: operation}},
    }


def json_body(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"content": {"application/json": {"schema": schema}}}


def group(
    url: str, schema: dict[str, Any] | None = None, private: str = "localhost", **options: Any
) -> ActionGroup:
    executor = HttpExecutor(url, allow_private=[private], **options)
    return ActionGroup("api", api_schema=schema or document(), executor=executor)
