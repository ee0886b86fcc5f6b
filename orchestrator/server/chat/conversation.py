"""From the messages of a chat completion to one turn of an agent.

A chat client sends the whole conversation each time. Without a session of its own, each request is
a session of its own: the messages before the last are sent as conversation history. With one, the
server remembers, and the last message is all that is read.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.engine.run.options import Options
from orchestrator.errors import ValidationError

SYSTEM = "system"
"""The prompt session attribute that holds the client's system and developer messages."""

_TEXTS = ("text", "input_text")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(.*)", re.DOTALL)
_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request asks for."""

    model: str  # the agent
    session_id: str  # the session that the client named; empty when it named none
    question: str  # the user's input; empty with results
    options: Options = field(default_factory=Options)
    # When a turn is to go on: what tools gave, by the ids of the calls
    results: Mapping[str, str] | None = None
    streams: bool = False  # whether the answer is to come in chunks
    counts: bool = False  # whether the last chunk has the usage

    @property
    def session(self) -> str:
        """The session of a new turn."""
        return self.session_id or f"chat-{uuid.uuid4()}"


def parse_request(body: Mapping[str, Any], session_id: str) -> ChatRequest:
    """What a request's body asks for.

    Sampling parameters are the agent's own business and are passed over, as are the definitions of
    tools, which clients send that carry out what the agent hands to them.

    Raises:
        ValidationError: Something in it is wrong, or cannot be done.
    """
    _refuse_unsupported(body)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ValidationError("'model' must name an agent; GET /v1/models tells them")
    session_id = session_id or _read_session_id(body)
    messages = _check_messages(body.get("messages"))
    system = "\n\n".join(_text(one) for one in messages if one["role"] in _ROLES[:2])
    turns = [one for one in messages if one["role"] not in _ROLES[:2]]
    options: Options = {}
    if system.strip():
        options["prompt_session_attributes"] = {SYSTEM: system}
    streams, counts = body.get("stream") is True, _is_usage_wanted(body.get("stream_options"))
    if turns and turns[-1]["role"] == "tool":
        results = dict(_read_results(turns))
        return ChatRequest(model, session_id, "", Options(), results, streams, counts)
    if not turns or turns[-1]["role"] != "user":
        raise ValidationError("the last message must be of the role 'user' or 'tool'")
    if files := list(_read_files(turns[-1])):
        options["files"] = files
    if not session_id and (history := list(_read_history(turns[:-1]))):
        options["conversation_history"] = history
    return ChatRequest(model, session_id, _text(turns[-1]), options, None, streams, counts)


def _refuse_unsupported(body: Mapping[str, Any]) -> None:
    # Ignoring these would answer something else than what was asked for.
    if body.get("n") not in (None, 1):
        raise ValidationError("'n' must be 1: an agent gives one answer")
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        raise ValidationError("'response_format' is not supported: agents answer with text")
    if body.get("functions"):
        raise ValidationError("'functions' is not supported; use 'tools'")


def _read_session_id(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    found = metadata.get("session_id") if isinstance(metadata, dict) else None
    if found is not None and not isinstance(found, str):
        raise ValidationError("'metadata.session_id' must be a text")
    return found or ""


def _is_usage_wanted(options: Any) -> bool:
    return isinstance(options, dict) and options.get("include_usage") is True


def _check_messages(messages: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise ValidationError("'messages' must be a list with at least one message")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise ValidationError(
                f"messages[{index}] must be an object whose 'role' is one of {', '.join(_ROLES)}"
            )
    return messages


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ValidationError("a message's 'content' must be a text or a list of parts")
    return content


def _text(message: Mapping[str, Any]) -> str:
    return "\n".join(
        part["text"]
        for part in _parts(message)
        if part.get("type") in _TEXTS and isinstance(part.get("text"), str)
    )


def _read_results(turns: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for message in reversed(turns):
        if message["role"] != "tool":
            return
        id = message.get("tool_call_id")
        if not isinstance(id, str):
            raise ValidationError("a message of the role 'tool' needs a 'tool_call_id'")
        yield id, _text(message)


def _read_history(turns: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    # What was called on the way is no part of it: the answers say what came of it.
    for message in turns:
        text = _text(message)
        if message["role"] != "tool" and text.strip():
            yield {"role": message["role"], "content": [{"text": text}]}


def _read_files(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in _parts(message):
        kind = part.get("type")
        if kind == "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            yield _read_file(url, "")
        elif kind == "file":
            file = part.get("file")
            file = file if isinstance(file, dict) else {}
            yield _read_file(file.get("file_data"), file.get("filename"))
        elif kind not in _TEXTS:
            raise ValidationError(
                f"a part of a message has the type {str(kind)[:40]!r}; there are 'text', "
                "'image_url' and 'file'"
            )


def _read_file(url: Any, name: Any) -> Mapping[str, Any]:
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        raise ValidationError(
            "images and files are sent as data urls ('data:image/png;base64,...'); the server "
            "fetches none"
        )
    media_type, data = found.groups()
    if not isinstance(name, str) or not name:
        name = f"file-{uuid.uuid4().hex[:8]}.{media_type.rpartition('/')[2]}"
    source = {"sourceType": "BYTE_CONTENT", "byteContent": {"mediaType": media_type, "data": data}}
    return {"name": name, "source": source, "useCase": "CHAT"}
