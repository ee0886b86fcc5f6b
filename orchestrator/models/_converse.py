"""Converse's wire format: a request's body, a reply, and a reply in pieces.

What Bedrock refuses is put right here, once for each message: blank text blocks are left out, an
empty tool result says so, tool names and arguments that a model made up are made sendable. The
ends of a prefill's lines are trimmed because Anthropic's models refuse trailing white space.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.message import Block, Message
from orchestrator.models._bounds import MOST_BLOCKS
from orchestrator.models._encoding import (
    check_tool_name,
    decode_object,
    encode,
    encode_cached,
    tool_input,
    tool_name,
)
from orchestrator.models.base import ModelReply, Usage, read_token_count

# What a tool result without text says: Bedrock refuses blank texts.
EMPTY_RESULT = "(empty result)"

_OPENING = {"user": '{"role":"user","content":[', "assistant": '{"role":"assistant","content":['}


# The end of a part of the prompt that Bedrock keeps for later requests that begin with the same.
CACHE_POINT = {"cachePoint": {"type": "default"}}
_ENCODED_POINT = encode(CACHE_POINT)


def encode_messages(messages: Sequence[Message], *, cached: bool = False) -> str:
    """The `messages` member, as JSON text; consecutive messages of one role become one.

    With `cached` there is a cache point at the end of what the user, or an action, said last.
    """
    parts: list[str] = []
    last = ""
    end = len(messages) - 1
    last_said = end - (messages[end]["role"] == "assistant") if cached and messages else -1
    for index, message in enumerate(messages):
        role = message["role"]
        if index == end and role == "assistant":
            blocks = _encode_prefill(message)
        else:
            blocks = encode_cached(message, _encode_content)
        if not blocks:
            continue
        if index == last_said:
            blocks = f"{blocks},{_ENCODED_POINT}"
        parts.append("," if role == last else ("]}," if last else "") + _OPENING[role])
        parts.append(blocks)
        last = role
    if not last:
        raise ValidationError("a request to Bedrock needs at least one message with text in it")
    return f"[{''.join(parts)}]}}]"


def _encode_content(message: Message) -> str:
    if message["role"] not in _OPENING:
        raise ValidationError(
            f"a message has the role {message['role']!r}; Converse knows 'user' and 'assistant'"
        )
    return ",".join([encode(block) for block in map(_sendable, message["content"]) if block])


def _encode_prefill(message: Message) -> str:
    # Anthropic's models refuse a last assistant message that ends with white space.
    blocks = [block for block in map(_sendable, message["content"]) if block]
    if blocks and "text" in blocks[-1]:
        blocks[-1] = {"text": blocks[-1]["text"].rstrip()}
    return ",".join(map(encode, blocks))


def _sendable(block: Block) -> Block | None:
    # Bedrock refuses blank text blocks and empty tool results.
    if "text" in block:
        return block if block["text"].strip() else None
    if "toolUse" in block:
        use = block["toolUse"]
        values = use["input"] if isinstance(use["input"], dict) else {"malformed": use["input"]}
        return {"toolUse": {**use, "name": tool_name(use["name"]), "input": values}}
    if "toolResult" in block:
        result = block["toolResult"]
        items = [item for item in result["content"] if item.get("text", "-").strip()]
        return {"toolResult": {**result, "content": items or [{"text": EMPTY_RESULT}]}}
    return block


def encode_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """The `toolConfig` member, as JSON text."""
    for tool in tools:
        if "toolSpec" in tool:
            check_tool_name(tool["toolSpec"].get("name", ""), "Converse takes")
    return encode({"tools": list(tools)})


def add_cache_point(tools: str) -> str:
    """The `toolConfig` member with a cache point after the tools."""
    return f"{tools[:-2]},{_ENCODED_POINT}]}}"


_TAKE_POINTS = re.compile(
    r"(?P<claude>anthropic\.claude-(?:3-7-sonnet|3-5-haiku|(?:haiku|sonnet|opus)-[4-9]))"
    r"|amazon\.nova-|:application-inference-profile/"
)


def find_cached_parts(model_id: str) -> frozenset[str]:
    """The members of a request where a model takes cache points.

    What an application inference profile stands for is not in its name: it is asked.
    (AWS: "Prompt caching for faster model inference".)
    """
    found = _TAKE_POINTS.search(model_id)
    if found is None:
        return frozenset()
    return frozenset({"system", "messages", *(["toolConfig"] if found["claude"] else [])})


_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Converse's token counts."""
    fresh, output, cached, written = (read_token_count(usage.get(name)) for name in _COUNTS)
    return Usage(fresh, output, cached, written, 1)


def stop_sequence_of(stop: Mapping[str, Any]) -> str | None:
    """Which stop sequence ended a reply, of the fields that a model adds; `None` if it says none.

    `stop` is a whole answer of Converse, or the `messageStop` of a stream.
    """
    fields = stop.get("additionalModelResponseFields")
    sequence = fields.get("stop_sequence") if isinstance(fields, dict) else None
    return sequence if isinstance(sequence, str) else None


def reply_content(content: Sequence[Block]) -> list[Block]:
    """A reply's blocks as JSON values: redacted reasoning is base64 text, as on the wire."""
    return [_plain(block) if "reasoningContent" in block else block for block in content]


def _plain(block: Block) -> Block:
    redacted = block["reasoningContent"].get("redactedContent")
    if not isinstance(redacted, bytes):
        return block
    return {"reasoningContent": {"redactedContent": encode(redacted)[1:-1]}}


def read_answer(body: bytes) -> dict[str, Any] | None:
    """An answer of Converse as boto3 returns it, where that is the JSON itself; else `None`.

    So it is for texts, reasoning and tool calls. Others have bytes in them, or are not as they
    should be, and boto3 knows what becomes of them.
    """
    try:
        answer = decode_object(body)
        content = answer["output"]["message"]["content"]
        plain = (
            type(content) is list
            and all(map(_is_plain, content))
            and type(answer.get("stopReason", "")) is str
            and _are_counts(answer.get("usage", {}))
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return answer if plain else None


def _are_counts(usage: Any) -> bool:
    # Of the values, only whole numbers say the same to boto3.
    return type(usage) is dict and all(type(usage.get(name, 0)) is int for name in _COUNTS)


def _is_plain(block: Any) -> bool:
    ((kind, value),) = block.items()
    if kind == "text":
        return type(value) is str
    if kind == "toolUse":
        names = value["toolUseId"], value["name"]
        return len(value) == 3 and "input" in value and all(type(name) is str for name in names)
    if kind == "reasoningContent":
        reasoning = value["reasoningText"]
        return len(value) == 1 and all(
            name in ("text", "signature") and type(text) is str for name, text in reasoning.items()
        )
    return False


class Pieces:
    """Puts a reply together from the events of ConverseStream.

    `stop_reason` is empty until the reply has ended: a stream that leaves it empty was cut.
    """

    __slots__ = ("_blocks", "_stop_sequence", "_usage", "stop_reason")

    def __init__(self) -> None:
        self._blocks: defaultdict[int, _Block] = defaultdict(_Block)
        self._usage = Usage(calls=1)
        self._stop_sequence: str | None = None
        self.stop_reason = ""

    def take(self, event: Mapping[str, Any]) -> str:
        """Takes the next event; returns the text in it, which may be empty."""
        part = event.get("contentBlockDelta")
        if len(self._blocks) > MOST_BLOCKS:
            raise ValueError("too many blocks")
        if part is not None:
            return self._blocks[part.get("contentBlockIndex", 0)].add(part["delta"])
        if "contentBlockStart" in event:
            part = event["contentBlockStart"]
            self._blocks[part.get("contentBlockIndex", 0)].use = part["start"].get("toolUse")
        elif "messageStop" in event:
            self.stop_reason = event["messageStop"].get("stopReason", "end_turn")
            self._stop_sequence = stop_sequence_of(event["messageStop"])
        elif "metadata" in event:
            self._usage = usage_of(event["metadata"].get("usage", {}))
        return ""

    def reply(self) -> ModelReply:
        """The whole reply. Tool arguments that are no JSON object stay as they came."""
        content = [item for _, block in sorted(self._blocks.items()) if (item := block.to_block())]
        reason = self.stop_reason
        if any(isinstance(b["toolUse"]["input"], str) for b in content if "toolUse" in b):
            reason = "malformed_tool_use"
        return ModelReply(content, reason, self._usage, self._stop_sequence)


class _Block:
    __slots__ = ("redacted", "signatures", "texts", "thinking", "use")

    def __init__(self) -> None:
        self.use: Mapping[str, Any] | None = None
        self.texts: list[str] = []
        self.thinking = False
        self.signatures: list[str] = []
        self.redacted = bytearray()

    def add(self, delta: Mapping[str, Any]) -> str:
        text: str | None = delta.get("text")
        if text is not None:
            self.texts.append(text)
            return text
        if "toolUse" in delta:
            self.texts.append(delta["toolUse"].get("input", ""))
        elif "reasoningContent" in delta:
            self._think(delta["reasoningContent"])
        return ""

    def _think(self, delta: Mapping[str, Any]) -> None:
        self.thinking = True
        self.texts.append(delta.get("text", ""))
        self.signatures.append(delta.get("signature", ""))
        redacted = delta.get("redactedContent", b"")
        self.redacted += b64decode(redacted) if isinstance(redacted, str) else redacted

    def to_block(self) -> Block | None:
        text = "".join(self.texts)
        if self.use is not None:
            return {"toolUse": {**self.use, "input": tool_input(text)}}
        if self.redacted:
            return _plain({"reasoningContent": {"redactedContent": bytes(self.redacted)}})
        if self.thinking:
            reasoning: dict[str, Any] = {"text": text}
            if signature := "".join(self.signatures):
                reasoning["signature"] = signature
            return {"reasoningContent": {"reasoningText": reasoning}}
        return {"text": text} if text else None
