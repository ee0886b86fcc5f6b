"""MCP's tools, results and failures in this package's terms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import ActionResult, Operation, Parameter
from orchestrator.actions.functions import object_schema
from orchestrator.actions.names import MOST_OPERATIONS, check_name, check_text, slug
from orchestrator.actions.schemas import SchemaReader, SchemaSize, Where
from orchestrator.errors import DefinitionError

_MEMBERS = ("title", "description", "inputSchema", "outputSchema", "annotations")
MOST_PARTS = 20_000
"""How many parts the schemas of a server's tools may come to, with their references followed."""
MOST_CHARS = 2_000_000
"""How many characters the definitions of a server's tools may have."""


class NoAnswer(Exception):
    """The server did not start, ended, or did not answer in time."""


class NotAsked(NoAnswer):
    """The server could not be asked, so that nothing was done."""


class Refusal(Exception):
    """The server answered, and not with a result: with an error, or with what is not MCP."""

    def __init__(
        self,
        message: str,
        advice: str | None = None,
        *,
        begun: bool = False,
        kind: str = "",
        said: str = "",
        status: int = 0,
        lost: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind  # the code of the error, for spans
        self.advice = advice  # a text for the model, when it can mend the call
        self.begun = begun  # whether the call may have taken effect before
        self.said = said  # the server's own message, for whoever runs it
        self.status = status  # of HTTP; 0 without it
        self.lost = lost  # whether a new connection may help


def definitions_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A server's tools, by name, with the members that say what a tool is."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        name = tool["name"]
        if name in found:
            raise DefinitionError(f"an MCP server has two tools {name!r}")
        found[name] = {key: tool[key] for key in _MEMBERS if tool.get(key) is not None}
    if len(found) > MOST_OPERATIONS or len(json.dumps(found)) > MOST_CHARS:
        raise DefinitionError(
            f"an MCP server has {len(found)} tools, which is more than {MOST_OPERATIONS}, or their "
            f"definitions have more than {MOST_CHARS} characters"
        )
    return found


def operation_of(
    group: str, name: str, tool: Mapping[str, Any], size: SchemaSize, *, confirm: bool
) -> Operation:
    """A tool as an operation; raises `DefinitionError` when it is wrong, or hides characters.

    `size` is what the schemas of the server's tools come to.
    """
    what = f"the MCP tool {name!r}"
    check_text(name, "the name of an MCP tool")
    hints = tool.get("annotations") or {}
    parameters = _parameters(what, tool.get("inputSchema") or {}, size)
    return Operation(
        group=group,
        name=check_name(slug(name), "MCP tool"),
        description=check_text(
            tool.get("description") or tool.get("title"), f"the description of {what}"
        ),
        parameters=parameters,
        require_confirmation=confirm,
        # MCP: hints are untrusted, but only decide whether a lost call may be repeated.
        idempotent=hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True,
        schema=object_schema(parameters),
    )


def _parameters(what: str, schema: Mapping[str, Any], size: SchemaSize) -> tuple[Parameter, ...]:
    def fail(message: str, where: Where) -> DefinitionError:
        place = " > ".join(map(str, ("inputSchema", *where)))
        return DefinitionError(f"{what}: {message} (at {place})")

    reader = SchemaReader(schema, fail, size)
    read = reader.schema(schema, ())
    if read.get("type", "object") != "object" or "anyOf" in read:
        raise fail("its arguments must be one object", ())
    return reader.object_parameters(read, "", ())


def result_of(result: Mapping[str, Any]) -> ActionResult:
    """What a tool returned: its texts, or its structured content when there are none.

    Images, sounds and other bytes become files; the model reads that they are there.
    """
    files: list[dict[str, Any]] = []
    texts = [_block(block, files) for block in result.get("content") or ()]
    structured = result.get("structuredContent")
    # MCP: a server should repeat structured content as text; only then is it read from there.
    if structured is not None and not texts:
        texts.append(json.dumps(structured, ensure_ascii=False))
    state = "REPROMPT" if result.get("isError") else ""
    text = "\n".join(texts)
    if state and not text:
        text = "The tool failed and does not say why."
    return ActionResult(text, state, files=tuple(files))


def _block(block: Mapping[str, Any], files: list[dict[str, Any]]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        return f"{block.get('name') or 'a resource'}: {block.get('uri')}"
    held = block.get("resource") if kind == "resource" else block
    held = held if isinstance(held, Mapping) else {}
    if isinstance(held.get("text"), str):
        return str(held["text"])
    data = held.get("data") or held.get("blob")
    if not isinstance(data, str):
        return f"[{kind}, which cannot be shown]"
    return _file(str(held.get("mimeType") or "application/octet-stream"), data, files)


def _file(kind: str, data: str, files: list[dict[str, Any]]) -> str:
    import base64
    import binascii

    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind} that cannot be read]"
    name = f"file-{len(files) + 1}.{slug(kind.rpartition('/')[2]) or 'bin'}"
    files.append({"name": name, "type": kind, "bytes": content})
    return f"[{name}: {kind}, {len(content)} bytes]"
