"""The wire format of OpenAI's chat completions: requests, replies, and replies in pieces.

One Converse message may be several messages here: each tool result is one of role `tool`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.limits import REPLY_BYTES
from orchestrator.message import Block, Message, text_of
from orchestrator.models._bounds import MOST_BLOCKS
from orchestrator.models._encoding import (
    check_tool_name,
    decode_object,
    encode,
    encode_cached,
    tool_input,
    tool_name,
)
from orchestrator.models.base import ModelReply, ModelRequest, Usage, read_token_count

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "content_filtered",
}
_IMAGES = ("png", "jpeg", "gif", "webp")
# Says what is asked, of which model, and how it answers: never an agent's additional fields.
_OURS = frozenset(
    "model models n stream stream_options messages prompt tools tool_choice functions "
    "function_call add_generation_prompt continue_final_message".split()
)
# Sent even where a server says that it does not take them.
_NEEDED = frozenset({"model", "stream"})
_PARAMETERS = {"temperature": "temperature", "topP": "top_p"}
# Stop sequences that a request may have (OpenAI); further ones are left out.
MAX_STOPS = 4


def encode_body(
    model: str,
    request: ModelRequest,
    *,
    tools: str,
    length: str,
    refused: frozenset[str],
    stream: bool,
    prefill: bool,
) -> str:
    """A request's body, as JSON text.

    `length` names the member that bounds the reply's tokens; `refused` are members that this model
    was found not to take. Without `prefill`, a last assistant message is left out.
    """
    messages = request.messages
    if messages and messages[-1]["role"] == "assistant":
        prefill = prefill and bool(text_of(messages[-1]["content"]).strip())
        messages = messages if prefill else messages[:-1]
    else:
        prefill = False
    own = {"model": model, **_parameters(request.inference, length)}
    body = {name: it for name, it in request.additional.items() if name not in _OURS} | own
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if prefill:  # vLLM's switches; llama.cpp and Ollama continue without a switch
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    refused = refused - _NEEDED
    parts = [encode({name: value for name, value in body.items() if name not in refused})[1:-1]]
    if tools:
        parts.append(f'"tools":{tools}')
        if request.tool_choice:
            parts.append(f'"tool_choice":{encode(_choice(request.tool_choice))}')
    texts = [encode({"role": "system", "content": request.system})] if request.system else []
    texts += [text for message in messages if (text := encode_cached(message, _encode_message))]
    parts.append(f'"messages":[{",".join(texts)}]')
    return f"{{{','.join(parts)}}}"


def _parameters(inference: Mapping[str, Any], length: str) -> dict[str, Any]:
    # The protocol has no topK; servers that take one get it as an additional field.
    found = {
        name: inference[ours]
        for ours, name in _PARAMETERS.items()
        if inference.get(ours) is not None
    }
    if inference.get("maximumLength"):
        found[length] = inference["maximumLength"]
    if inference.get("stopSequences"):
        found["stop"] = list(inference["stopSequences"])[:MAX_STOPS]
    return found


def _choice(choice: Mapping[str, Any]) -> str | dict[str, Any]:
    if "tool" in choice:
        return {"type": "function", "function": {"name": choice["tool"]["name"]}}
    return "required" if "any" in choice else "auto"


def encode_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """Converse tool specifications as OpenAI's functions, as JSON text."""
    functions = []
    for tool in tools:
        spec = tool["toolSpec"]
        check_tool_name(spec["name"], "chat completions take")
        function = {
            "name": spec["name"],
            "description": spec.get("description", ""),
            "parameters": spec.get("inputSchema", {}).get("json", {"type": "object"}),
        }
        functions.append({"type": "function", "function": function})
    return encode(functions)


def _encode_message(message: Message) -> str:
    role, content = message["role"], message["content"]
    _check(role, content)
    encoded = _assistant(content) if role == "assistant" else _user(content)
    return ",".join(map(encode, encoded))


def _check(role: str, content: Sequence[Block]) -> None:
    if role not in ("user", "assistant"):
        raise ValidationError(f"a message has the role {role!r}; there are 'user' and 'assistant'")
    known = ("text", "toolUse", "toolResult", "image", "reasoningContent", "cachePoint")
    for block in content:
        if not any(kind in block for kind in known) or ("image" in block and role != "user"):
            raise ValidationError(
                f"a content block of kind {next(iter(block), '')!r} in a message of role {role!r} "
                f"cannot be sent to an OpenAI-compatible server; it takes {', '.join(known[:3])}, "
                "and image from the user"
            )


def _assistant(content: Sequence[Block]) -> list[dict[str, Any]]:
    calls = [_call(block["toolUse"]) for block in content if "toolUse" in block]
    text = text_of(content)
    if not calls:
        return [{"role": "assistant", "content": text}] if text.strip() else []
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}]


def _call(use: Mapping[str, Any]) -> dict[str, Any]:
    values = use["input"]
    arguments = values if isinstance(values, str) else encode(values)
    function = {"name": tool_name(use["name"]), "arguments": arguments}
    return {"id": use["toolUseId"], "type": "function", "function": function}


def _user(content: Sequence[Block]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_call_id": block["toolResult"]["toolUseId"],
            "content": "\n".join(map(_result_text, block["toolResult"]["content"])),
        }
        for block in content
        if "toolResult" in block
    ]
    if any("image" in block for block in content):
        messages.append({"role": "user", "content": [part for part in map(_part, content) if part]})
        return messages
    text = "\n\n".join(block["text"] for block in content if "text" in block)
    if text.strip():
        messages.append({"role": "user", "content": text})
    return messages


def _part(block: Block) -> dict[str, Any] | None:
    if "image" in block:
        return {"type": "image_url", "image_url": {"url": _data_url(block["image"])}}
    text = block.get("text", "")
    return {"type": "text", "text": text} if text.strip() else None


def _data_url(image: Mapping[str, Any]) -> str:
    source = image.get("source")
    form, data = image.get("format"), source.get("bytes") if isinstance(source, Mapping) else None
    if form not in _IMAGES or not isinstance(data, bytes | str):
        raise ValidationError(
            f"an image of the format {form!r} cannot be sent to an OpenAI-compatible server; it "
            f"takes the bytes of {', '.join(_IMAGES)}"
        )
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    return f"data:image/{form};base64,{text}"


def _result_text(item: Mapping[str, Any]) -> str:
    return str(item["text"]) if "text" in item else encode(item.get("json", item))


def _usage(usage: Mapping[str, Any] | None) -> Usage:
    # OpenAI counts cached tokens among the prompt's; `Usage` counts them separately.
    if not usage:
        return Usage(calls=1)
    details = usage.get("prompt_tokens_details") or {}
    cached = read_token_count(details.get("cached_tokens"))
    prompt = read_token_count(usage.get("prompt_tokens"))
    output = read_token_count(usage.get("completion_tokens"))
    return Usage(max(prompt - cached, 0), output, cached, calls=1)


def read_reply(value: Mapping[str, Any], turn: int) -> ModelReply | None:
    """The reply in a whole answer; `None` when the answer holds none.

    `turn` distinguishes the tool calls of one conversation when the server gives them no ids.
    """
    choices = value.get("choices")
    if not choices or not isinstance(choices[0].get("message"), dict):
        return None
    pieces = Pieces(turn)
    choice = choices[0]
    pieces.take({"choices": [{**choice, "delta": choice["message"]}], "usage": value.get("usage")})
    pieces.stop_reason = pieces.stop_reason or "end_turn"
    return pieces.reply()


class Pieces:
    """Puts a reply together from the chunks of a stream.

    `stop_reason` is empty until the reply has ended: a stream that leaves it empty was cut.
    """

    __slots__ = ("_calls", "_open", "_texts", "_thoughts", "_turn", "_usage", "stop_reason")

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[_Call] = []
        self._open: dict[int, _Call] = {}
        self._usage = Usage(calls=1)
        self.stop_reason = ""

    def take(self, chunk: Mapping[str, Any]) -> str:
        """Takes the next chunk; returns the text in it, which may be empty."""
        if chunk.get("usage"):
            self._usage = _usage(chunk["usage"])
        choices = chunk.get("choices")
        if not choices:
            return ""
        choice = choices[0]
        if choice.get("finish_reason"):
            self._finish(choice)
        delta = choice.get("delta")
        if not delta:
            return ""
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str):
            self._thoughts.append(thought)
        for number, call in enumerate(delta.get("tool_calls") or ()):
            self._take_call(call, number)
        text = delta.get("content") or delta.get("refusal") or ""
        if not isinstance(text, str):
            text = "".join(part.get("text", "") for part in text)
        if text:
            self._texts.append(text)
        return text

    def _finish(self, choice: Mapping[str, Any]) -> None:
        self.stop_reason = _STOPS.get(choice["finish_reason"], "end_turn")
        # vLLM says which stop sequence it met.
        if self.stop_reason == "end_turn" and isinstance(choice.get("stop_reason"), str):
            self.stop_reason = "stop_sequence"

    def _take_call(self, delta: Mapping[str, Any], number: int) -> None:
        index, identity = delta.get("index"), delta.get("id") or ""
        key = number if index is None else index
        call = self._open.get(key)
        # Some servers give every call the same index, or none: a new id begins a new call.
        if call is None or (call.id and identity and identity != call.id):
            call = self._open[key] = _Call()
            self._calls.append(call)
            if len(self._calls) > MOST_BLOCKS:
                raise ValueError("too many calls")
        function = delta.get("function") or {}
        call.id = call.id or identity
        call.name = call.name or function.get("name") or ""
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else encode(arguments))

    def reply(self) -> ModelReply:
        """The whole reply. Arguments that are no JSON object stay as they came."""
        content: list[Block] = []
        if self._thoughts:
            thought = {"reasoningText": {"text": "".join(self._thoughts)}}
            content.append({"reasoningContent": thought})
        if self._texts:
            content.append({"text": "".join(self._texts)})
        reason = self.stop_reason
        for number, call in enumerate(self._calls):
            block = call.to_block(f"call_{self._turn}_{number}")
            content.append(block)
            if isinstance(block["toolUse"]["input"], str):
                reason = "malformed_tool_use"
            elif reason == "end_turn":
                reason = "tool_use"  # some servers say "stop" beside tool calls
        return ModelReply(content, reason, self._usage)


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def to_block(self, default_id: str) -> Block:
        return {
            "toolUse": {
                "toolUseId": self.id or default_id,
                "name": self.name,
                "input": tool_input("".join(self.arguments)),
            }
        }


class EventReader:
    """Server-sent events whose data are JSON objects, from bytes as they come."""

    __slots__ = ("_longest", "_rest", "_size")

    def __init__(self, longest: int = REPLY_BYTES) -> None:
        """Begins to read; `longest` is the most bytes of one event."""
        self._longest = longest
        self._rest: list[bytes] = []  # put together once, however small the pieces are
        self._size = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Takes the next bytes; yields the objects that they complete, or raises `ValueError`."""
        # Lines end with line feeds only: text in the JSON may hold other line separators of
        # Unicode.
        self._rest.append(data)
        self._size += len(data)
        if b"\n" not in data:
            if self._size > self._longest:
                raise ValueError("an event is too long")
            return
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest, self._size = [rest], len(rest)
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            text = line[5:].strip()
            if text and text != b"[DONE]":
                yield decode_object(text)
