"""Converse requests that a custom orchestration writes (AWS: bedrock-runtime, `Converse`).

They are read once, into what every backend takes. What a backend could not honour is refused, and
not left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.message import Block, Message, clean, to_json
from orchestrator.models.tool_calls import ANSWER, ANSWER_CLOSE

_INFERENCE = {
    "maxTokens": "maximumLength",
    "temperature": "temperature",
    "topP": "topP",
    "stopSequences": "stopSequences",
}
# Members that change how the service serves a request, and not what it answers.
_PASSED_OVER = frozenset(
    ("additionalModelResponseFieldPaths", "performanceConfig", "requestMetadata", "serviceTier")
)
_REFUSED = {
    "guardrailConfig": "guard texts with APPLY_GUARDRAIL",
    "promptVariables": "write the values into the messages",
}
_READ = frozenset(
    "modelId system messages inferenceConfig toolConfig additionalModelRequestFields".split()
)


class ContractError(ValueError):
    """An object has not the shape that its contract asks for; the text names the member."""


@dataclass(slots=True)
class ConverseRequest:
    """One model call."""

    messages: Sequence[Message]  # the conversation
    system: str = ""  # the system text
    tools: Sequence[Mapping[str, Any]] = ()  # Converse's tool specifications
    # Bedrock's inference configuration.
    inference: Mapping[str, Any] = field(default_factory=dict)
    # `additionalModelRequestFields`.
    additional: Mapping[str, Any] = field(default_factory=dict)
    model_id: str = ""  # the model; empty for the agent's own
    # Converse's `toolChoice`; `None` leaves the choice to the model
    tool_choice: Mapping[str, Any] | None = None
    # The only replies that are right, for models whose decoding can be held to them
    choices: tuple[str, ...] = ()
    # How many of the choices are one reply: the fewest, and the most
    picks: tuple[int, int] = (1, 1)
    separator: str = ","  # what stands between several


def read_request(value: Any) -> ConverseRequest:
    """Reads the JSON of a Converse request.

    Raises:
        ContractError: It is none, or asks for what cannot be had.
    """
    request = check_type(value, dict, "the request")
    for name in request.keys() - _READ - _PASSED_OVER:
        way = _REFUSED.get(name)
        raise ContractError(
            f"the member {describe_word(name)} is not supported: {way or 'leave it out'}"
        )
    model_id = request.get("modelId") or ""
    return ConverseRequest(
        read_messages(request.get("messages")),
        _system(request.get("system")),
        _tools(request.get("toolConfig")),
        _inference(request.get("inferenceConfig")),
        check_type(
            request.get("additionalModelRequestFields") or {}, dict, "additionalModelRequestFields"
        ),
        check_type(model_id, str, "modelId"),
    )


def read_messages(value: Any) -> list[Message]:
    """Reads messages; a content that is one text, or has texts for blocks, is understood, too.

    A tool use without a result in the next message is left out: models call several tools at once,
    and many an orchestration carries out only the first.

    Raises:
        ContractError: They are none.
    """
    items = check_type(value, list, "messages")
    if not items:
        raise ContractError("'messages' is empty")
    messages = [_message(one, f"messages[{at}]") for at, one in enumerate(items)]
    return [_drop_unanswered_calls(one, messages[at + 1 :]) for at, one in enumerate(messages)]


def _message(value: Any, place: str) -> Message:
    if isinstance(value, Message):  # it was read before, and knows where its text is from
        return value
    message = check_type(value, dict, place)
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise ContractError(
            f"'role' of {place} is {describe_word(role)}, not 'user' or 'assistant'"
        )
    blocks = (
        [content] if isinstance(content, str) else check_type(content, list, f"{place}.content")
    )
    named = [_block(one, f"{place}.content[{at}]") for at, one in enumerate(blocks)]
    return Message(role, clean(named))


def plain_content(content: Sequence[Block]) -> list[Block]:
    """A reply's blocks as the model wrote them."""
    # The embedded model's answers are put into a tag, which dialects' parsers look for.
    return [
        {"text": block["text"].removeprefix(ANSWER).removesuffix(ANSWER_CLOSE)}
        if block.get("text", "").startswith(ANSWER)
        else block
        for block in content
    ]


def _block(value: Any, place: str) -> Block:
    if isinstance(value, str):
        return {"text": value}
    block: Block = check_type(value, dict, place)
    for name, kind in (("text", str), ("toolUse", dict), ("toolResult", dict)):
        if name in block:
            check_type(block[name], kind, f"{place}.{name}")
    if "toolUse" in block:
        use = block["toolUse"]
        for name, kind in (("toolUseId", str), ("name", str), ("input", dict)):
            check_type(use.get(name), kind, f"{place}.toolUse.{name}")
    if "toolResult" in block:
        return {"toolResult": _result(block["toolResult"], f"{place}.toolResult")}
    return block


def _result(value: dict[str, Any], place: str) -> dict[str, Any]:
    check_type(value.get("toolUseId"), str, f"{place}.toolUseId")
    content = check_type(value.get("content"), list, f"{place}.content")
    blocks = [check_type(one, dict, f"{place}.content[{at}]") for at, one in enumerate(content)]
    # Not every backend takes JSON; every one takes texts.
    return {
        **value,
        "content": [{"text": to_json(one["json"])} if "json" in one else one for one in blocks],
    }


def _drop_unanswered_calls(message: Message, later: Sequence[Message]) -> Message:
    blocks: list[Block] = list(message["content"])
    if message["role"] != "assistant" or not any("toolUse" in block for block in blocks):
        return message
    known = set(_results(later))
    answered = [it for it in blocks if "toolUse" not in it or it["toolUse"]["toolUseId"] in known]
    return message if len(answered) == len(blocks) else Message("assistant", answered)


def _results(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "assistant":
            return
        for block in message["content"]:
            if "toolResult" in block:
                yield block["toolResult"]["toolUseId"]


def _system(value: Any) -> str:
    blocks = check_type([] if value is None else value, list, "system")
    texts = [check_type(one, dict, f"system[{at}]").get("text") for at, one in enumerate(blocks)]
    text: str = clean("\n".join([text for text in texts if isinstance(text, str)]))
    return text


def _tools(value: Any) -> Sequence[Mapping[str, Any]]:
    configuration = check_type(value or {}, dict, "toolConfig")
    choice = check_type(configuration.get("toolChoice") or {}, dict, "toolConfig.toolChoice")
    if choice and "auto" not in choice:
        raise ContractError("'toolConfig.toolChoice' can only be 'auto'; leave it out")
    tools: list[Any] = check_type(configuration.get("tools") or [], list, "toolConfig.tools")
    for at, one in enumerate(tools):
        spec = check_type(one, dict, f"toolConfig.tools[{at}]").get("toolSpec")
        check_type(spec, dict, f"toolConfig.tools[{at}].toolSpec")
    return tools


def _inference(value: Any) -> dict[str, Any]:
    configuration = check_type(value or {}, dict, "inferenceConfig")
    for name in configuration.keys() - _INFERENCE.keys():
        raise ContractError(f"'inferenceConfig' has no member {describe_word(name)}")
    return {_INFERENCE[name]: value for name, value in configuration.items() if value is not None}


_KINDS: dict[type, str] = {
    dict: "an object",
    Mapping: "an object",
    list: "a list",
    str: "a text",
    type(None): "missing",
}


def check_type(value: Any, kind: type, place: str) -> Any:
    """Returns a member when it is of a kind.

    Raises:
        ContractError: It is not; the message names it as `place`.
    """
    if not isinstance(value, kind):
        found = type(value)
        is_ = _KINDS.get(found, f"a {found.__name__}")
        raise ContractError(f"{place!r} is {is_}, not {_KINDS[kind]}")
    return value


def describe_word(value: Any) -> str:
    """A value that should have been one of a few words, for a message: only if it looks so."""
    if isinstance(value, str) and re.fullmatch("[A-Za-z_]{1,40}", value):
        return repr(value)
    return "missing" if value is None else "something else"
