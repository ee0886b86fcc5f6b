"""Anthropic's Messages as bodies of InvokeModel (AWS: "Anthropic Claude Messages API")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import Block
from orchestrator.server.inference.bodies import read_converse_params, render_costs

_INFERENCE = {
    "max_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop_sequences": "stopSequences",
}
# Members that mean the same in every request; all others are the model's own fields.
_READ = frozenset(
    {
        *_INFERENCE,
        *("anthropic_version", "messages", "metadata", "stream"),
        *("system", "tool_choice", "tools", "top_k"),
    }
)
_STOPS = {
    "content_filtered": "refusal",
    "guardrail_intervened": "refusal",
    "malformed_tool_use": "tool_use",
    "malformed_model_output": "end_turn",
}
_BEGUN: Mapping[str, Any] = {
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 0, "output_tokens": 0},
}
_DOCUMENTS = {"application/pdf": "pdf", "text/plain": "txt"}


class AnthropicBody:
    """A body of Anthropic's Messages, and how it is answered."""

    raw_text = False

    def __init__(self, body: Mapping[str, Any], model_id: str, id: str) -> None:
        self._head = {
            "id": f"msg_bdrk_{id.replace('-', '')}",
            "type": "message",
            "role": "assistant",
            "model": model_id,
        }
        self._kinds: dict[int, str] = {}
        self._reason = ""
        messages = _check_objects("messages", body.get("messages"))
        members = {
            "messages": [_parse_message(it) for it in messages],
            "system": list(_parse_system(body.get("system"))),
            "inferenceConfig": {
                ours: body[name] for name, ours in _INFERENCE.items() if body.get(name) is not None
            },
            **_parse_tool_config(body),
            "additionalModelRequestFields": {
                name: value for name, value in body.items() if name not in _READ
            },
        }
        self.params: Mapping[str, Any] = read_converse_params(members, body)

    def whole(self, output: Mapping[str, Any]) -> dict[str, Any]:
        """The whole message."""
        usage = output["usage"]
        return {
            **self._head,
            "content": [_render_block(it) for it in output["output"]["message"]["content"]],
            "stop_reason": _map_stop_reason(output["stopReason"]),
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage["inputTokens"],
                "cache_creation_input_tokens": usage["cacheWriteInputTokens"],
                "cache_read_input_tokens": usage["cacheReadInputTokens"],
                "output_tokens": usage["outputTokens"],
            },
        }

    def pieces(self, name: str, members: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Anthropic's events; what a reply cost is known, and sent, at its end."""
        index = members.get("contentBlockIndex", 0)
        match name:
            case "messageStart":
                yield {"type": "message_start", "message": {**self._head, **_BEGUN}}
            case "contentBlockStart":
                use = members["start"]["toolUse"]
                block = {"type": "tool_use", "id": use["toolUseId"], "name": use["name"]}
                yield self._start(index, {**block, "input": {}})
            case "contentBlockDelta":
                yield from self._delta(index, members["delta"])
            case "contentBlockStop":
                if index in self._kinds:
                    yield {"type": "content_block_stop", "index": index}
            case "messageStop":
                self._reason = members["stopReason"]
            case "metadata":
                yield from self._end(members)

    def _start(self, index: int, block: dict[str, Any]) -> dict[str, Any]:
        self._kinds[index] = block["type"]
        return {"type": "content_block_start", "index": index, "content_block": block}

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        block, change = _convert_delta(delta)
        if index not in self._kinds:
            yield self._start(index, block)
        if change:
            yield {"type": "content_block_delta", "index": index, "delta": change}

    def _end(self, members: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        usage = members["usage"]
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": _map_stop_reason(self._reason), "stop_sequence": None},
            "usage": {
                "input_tokens": usage["inputTokens"],
                "output_tokens": usage["outputTokens"],
            },
        }
        yield {"type": "message_stop", **render_costs(members)}


def _map_stop_reason(reason: str) -> str:
    return _STOPS.get(reason, reason)


# Requests


def _check_objects(place: str, body: Any) -> list[dict[str, Any]]:
    if not isinstance(body, list) or not all(isinstance(item, dict) for item in body):
        raise ValidationError(f"{place!r} must be a list of objects")
    return body


def _parse_system(body: Any) -> Iterator[Block]:
    if isinstance(body, str):
        if body:
            yield {"text": body}
    elif body is not None:
        yield from ({"text": block.get("text")} for block in _check_objects("system", body))


def _parse_message(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": message.get("role"), "content": _parse_content(message.get("content"))}


def _parse_content(body: Any) -> list[Block]:
    if isinstance(body, str):
        return [{"text": body}]
    return [_parse_block(block) for block in _check_objects("content", body)]


def _parse_block(block: Mapping[str, Any]) -> Block:
    kind = block.get("type")
    read = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise ValidationError(
            f"a content block has the type {str(kind)[:40]!r}; there are {', '.join(_BLOCKS)}"
        )
    return read(block)


def _parse_text(block: Mapping[str, Any]) -> Block:
    return {"text": block.get("text")}


def _parse_tool_use(block: Mapping[str, Any]) -> Block:
    use = {"toolUseId": block.get("id"), "name": block.get("name"), "input": block.get("input")}
    return {"toolUse": use}


def _parse_tool_result(block: Mapping[str, Any]) -> Block:
    body = block.get("content")
    return {
        "toolResult": {
            "toolUseId": block.get("tool_use_id"),
            "content": [] if body is None else _parse_content(body),
            "status": "error" if block.get("is_error") else "success",
        }
    }


def _parse_thinking(block: Mapping[str, Any]) -> Block:
    thought = {"text": block.get("thinking"), "signature": block.get("signature")}
    return {"reasoningContent": {"reasoningText": thought}}


def _parse_redacted(block: Mapping[str, Any]) -> Block:
    return {"reasoningContent": {"redactedContent": block.get("data")}}


def _check_source(block: Mapping[str, Any]) -> Mapping[str, Any]:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") not in ("base64", "text"):
        raise ValidationError("the source of an image or document is 'base64', or 'text'")
    return source


def _parse_image(block: Mapping[str, Any]) -> Block:
    source = _check_source(block)
    form = str(source.get("media_type")).removeprefix("image/")
    return {"image": {"format": form, "source": {"bytes": source.get("data")}}}


def _parse_document(block: Mapping[str, Any]) -> Block:
    source = _check_source(block)
    kind = source.get("media_type")
    form = _DOCUMENTS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise ValidationError(f"the media type of a document is one of {', '.join(_DOCUMENTS)}")
    inside = "text" if source["type"] == "text" else "bytes"
    title = block.get("title") or "document"
    return {"document": {"format": form, "name": title, "source": {inside: source.get("data")}}}


_BLOCKS: Mapping[str, Callable[[Mapping[str, Any]], Block]] = {
    "text": _parse_text,
    "image": _parse_image,
    "document": _parse_document,
    "tool_use": _parse_tool_use,
    "tool_result": _parse_tool_result,
    "thinking": _parse_thinking,
    "redacted_thinking": _parse_redacted,
}


def _parse_tool_config(body: Mapping[str, Any]) -> dict[str, Any]:
    tools = body.get("tools")
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not tools or kind == "none":
        return {}
    config: dict[str, Any] = {
        "tools": [_parse_tool(tool) for tool in _check_objects("tools", tools)]
    }
    if isinstance(choice, dict) and kind == "tool":
        config["toolChoice"] = {"tool": {"name": choice.get("name")}}
    elif kind in ("auto", "any"):
        config["toolChoice"] = {kind: {}}
    elif choice is not None:
        raise ValidationError("'tool_choice' has the type 'auto', 'any', 'tool' or 'none'")
    return {"toolConfig": config}


def _parse_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type", "custom") != "custom":
        raise ValidationError(
            f"a tool has the type {str(tool['type'])[:40]!r}; only a tool with an 'input_schema' "
            "of its own is understood here"
        )
    spec = {"name": tool.get("name"), "inputSchema": {"json": tool.get("input_schema")}}
    if tool.get("description"):
        spec["description"] = tool["description"]
    return {"toolSpec": spec}


# Answers


def _render_block(block: Block) -> dict[str, Any]:
    if "toolUse" in block:
        use = block["toolUse"]
        body = use["input"] if isinstance(use["input"], dict) else {"malformed": use["input"]}
        return {"type": "tool_use", "id": use["toolUseId"], "name": use["name"], "input": body}
    if "reasoningContent" in block:
        return _render_thought(block["reasoningContent"])
    return {"type": "text", "text": block.get("text", "")}


def _render_thought(thought: Mapping[str, Any]) -> dict[str, Any]:
    if "redactedContent" in thought:
        return {"type": "redacted_thinking", "data": thought["redactedContent"]}
    text = thought["reasoningText"]
    signature = text.get("signature", "")
    return {"type": "thinking", "thinking": text["text"], "signature": signature}


def _convert_delta(delta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The block that a delta would begin, and what it changes in it."""
    if "toolUse" in delta:
        return {}, {"type": "input_json_delta", "partial_json": delta["toolUse"]["input"]}
    if "text" in delta:
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": delta["text"]}
    thought = delta["reasoningContent"]
    if "redactedContent" in thought:
        return {"type": "redacted_thinking", "data": thought["redactedContent"]}, None
    block = {"type": "thinking", "thinking": "", "signature": ""}
    if "signature" in thought:
        return block, {"type": "signature_delta", "signature": thought["signature"]}
    return block, {"type": "thinking_delta", "thinking": thought["text"]}
