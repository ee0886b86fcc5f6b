"""From the parameters of Converse to a model request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import Block, Message, to_json
from orchestrator.models import BedrockModel, CallFormat, Model, ModelRequest, OperationFormat
from orchestrator.models.base import map_inference
from orchestrator.server.access.permissions import check_access
from orchestrator.server.operations import Caller

STAGE = "CONVERSE"
"""What a request that no stage of an agent makes says in a stage's place."""

# Ignoring these would answer something else than what was asked for.
_REFUSED = {
    "outputConfig": "replies cannot be held to a form; have the model call a tool instead",
}
# What a provider's own fields could say of which model is asked, and for what.
_OURS = frozenset(
    {"messages", "model", "models", "n", "prompt", "stream", "stream_options", "tools"}
)
_TOOLS = """\
# Tools

These are the functions, one a line, between <tools> and </tools>:
<tools>
{}
</tools>

To call one, write its name and its arguments as JSON between <tool_call> and </tool_call>:
<tool_call>
{{"name": "function name", "arguments": {{"parameter": "value"}}}}
</tool_call>"""


def build_request(
    params: Mapping[str, Any], model: Model, caller: Caller, *, raw_text: bool = False
) -> ModelRequest:
    """What Converse's parameters ask of `model`.

    Cache points are left out: they change what a call costs, and not what it says. Text that is
    marked for a guardrail is text. `inferenceConfig` may have a `topK`.
    """
    for name, way_out in _REFUSED.items():
        if params.get(name):
            raise ValidationError(f"{name!r} is not supported: {way_out}")
    additional = params.get("additionalModelRequestFields") or {}
    if not isinstance(additional, Mapping):
        raise ValidationError("additionalModelRequestFields must be a JSON object")
    _check_fields(model, additional)
    tools, choice = _read_tools(params.get("toolConfig") or {})
    system = "\n\n".join(map(_read_system, _drop_cache_points(params.get("system") or ())))
    # Embedded models read tools in the prompt.
    if tools and model.model_id.startswith("local"):
        system = f"{system}\n\n{_render_tools(tools)}".strip()
    return ModelRequest(
        STAGE,
        system,
        list(_build_messages(params.get("messages") or (), caller)),
        tools,
        map_inference(params.get("inferenceConfig") or {}),
        dict(additional),
        raw_text=raw_text,
        call_format=_build_call_format(tools, choice),
        tool_choice=choice,
    )


def has_thinking(request: ModelRequest) -> bool:
    """Whether the request has the model think before it answers, in blocks of their own."""
    names = map(str.lower, request.additional)
    return any("think" in name or "reason" in name for name in names)


def _check_fields(model: Model, additional: Mapping[str, Any]) -> None:
    # Bedrock takes them in a member of their own; other APIs have them beside everything else.
    if isinstance(model, BedrockModel):
        return
    if named := sorted(_OURS & additional.keys()):
        raise ValidationError(
            f"additionalModelRequestFields may not have {named[0]!r}: it says which model is "
            "asked, or what; use Converse's own members"
        )


def _drop_cache_points(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        if "cachePoint" not in block:
            guarded = block.get("guardContent")
            if guarded is None:
                yield block
            else:
                yield {"text": guarded["text"]["text"]} if "text" in guarded else dict(guarded)


def _read_system(block: Block) -> str:
    if "text" not in block:
        raise ValidationError(f"a system block is text, and one has {', '.join(block)!r}")
    return str(block["text"])


def _build_messages(messages: Sequence[Mapping[str, Any]], caller: Caller) -> Iterator[Message]:
    if not messages:
        raise ValidationError("'messages' is empty; send at least one message of the user")
    for index, message in enumerate(messages):
        role = message["role"]
        if role not in ("user", "assistant"):
            raise ValidationError(
                f"messages[{index}] has the role {role!r}; there are 'user' and 'assistant', and "
                "the member 'system'"
            )
        _check_objects(message["content"], caller)
        yield Message(role, list(_drop_cache_points(message["content"])))


def _check_objects(value: Any, caller: Caller) -> None:
    """Refuses objects in S3 that Bedrock would read in the server's name."""
    if isinstance(value, Mapping):
        location = value.get("s3Location")
        uri = location.get("uri") if isinstance(location, Mapping) else None
        if isinstance(uri, str):
            check_access(caller, uri)
        for item in value.values():
            _check_objects(item, caller)
    elif isinstance(value, list):
        for item in value:
            _check_objects(item, caller)


def _read_tools(
    config: Mapping[str, Any],
) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any] | None]:
    tools = [tool for tool in config.get("tools") or () if "cachePoint" not in tool]
    for tool in tools:
        if "toolSpec" not in tool:
            raise ValidationError(
                f"a tool is a 'toolSpec', and one has {', '.join(tool)!r}, which only some models "
                "of Bedrock carry out"
            )
    choice = config.get("toolChoice")
    name = (choice or {}).get("tool", {}).get("name")
    if name is not None and all(tool["toolSpec"]["name"] != name for tool in tools):
        raise ValidationError(f"toolChoice names {name!r}, and there is no such tool")
    return tools, choice if tools else None


def _build_call_format(
    tools: Sequence[Mapping[str, Any]], choice: Mapping[str, Any] | None
) -> CallFormat | None:
    chosen = (choice or {}).get("tool", {}).get("name")
    specs = [tool["toolSpec"] for tool in tools]
    operations = tuple(
        OperationFormat(spec["name"], _read_schema(spec))
        for spec in specs
        if chosen in (None, spec["name"])
    )
    return CallFormat("tool_use", operations) if operations else None


def _read_schema(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = (spec.get("inputSchema") or {}).get("json")
    if not isinstance(schema, Mapping):
        raise ValidationError(f"the tool {spec['name']!r} has no JSON schema in its inputSchema")
    return schema


def _render_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        to_json(
            {
                "type": "function",
                "function": {
                    "name": tool["toolSpec"]["name"],
                    "description": tool["toolSpec"].get("description", ""),
                    "parameters": _read_schema(tool["toolSpec"]),
                },
            }
        )
        for tool in tools
    ]
    return _TOOLS.format("\n".join(lines))
