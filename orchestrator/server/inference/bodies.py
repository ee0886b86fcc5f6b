"""The bodies of InvokeModel, which each family of models has in a form of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from orchestrator.errors import ValidationError
from orchestrator.message import text_of
from orchestrator.models._encoding import encode
from orchestrator.server.wire.requests import read_members
from orchestrator.support.safe_json import json_or

METRICS = "amazon-bedrock-invocationMetrics"
"""The costs in the last chunk of a stream, whatever the form (Bedrock)."""

_FORMS = (
    "Anthropic's Messages (with 'anthropic_version'); Converse's members as Amazon Nova takes them "
    "('messages' whose 'content' is a list of blocks such as {'text': ...}); 'prompt' with "
    "'max_tokens_to_sample' as Claude 2 takes it; 'inputText' with 'textGenerationConfig' as Titan "
    "Text takes it. Any model can be asked through Converse"
)
_MEMBERS = frozenset(
    {"messages", "system", "inferenceConfig", "toolConfig", "additionalModelRequestFields"}
)


class Body(Protocol):
    """A request's body, and how it is answered."""

    # What it asks, as parameters of Converse; `inferenceConfig` may have a `topK`
    params: Mapping[str, Any]
    raw_text: bool  # whether its one message holds the whole prompt

    def whole(self, output: Mapping[str, Any]) -> bytes:
        """The whole answer, from Converse's output."""

    def pieces(self, name: str, members: Mapping[str, Any]) -> Iterator[bytes]:
        """The chunks for the next event of ConverseStream."""


def parse_body(params: Mapping[str, Any], id: str) -> Body:
    """The body of a call of InvokeModel."""
    if params.get("guardrailIdentifier"):
        raise ValidationError(
            "'guardrailIdentifier' is not supported: guardrails are not applied here; give one to "
            "an agent"
        )
    result = json_or(params.get("body", b"").decode("utf-8", "replace"), None)
    if not isinstance(result, dict):
        raise ValidationError("the body is not a JSON object")
    if "anthropic_version" in result:
        from orchestrator.server.inference.anthropic import AnthropicBody

        return AnthropicBody(result, params["modelId"], id)
    if _is_converse(result.get("messages")):
        return NovaBody(result)
    from orchestrator.server.inference.bodies import parse_completion

    body = parse_completion(result)
    if body is None:
        raise ValidationError(f"the body has none of the forms that are understood here: {_FORMS}")
    return body


def read_converse_params(body: Mapping[str, Any]) -> dict[str, Any]:
    """The members of Converse in JSON, as a boto3 caller would give them."""
    return read_members("bedrock-runtime", "Converse", _MEMBERS, body)


def render_costs(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of the last chunk with the costs, from the event `metadata`."""
    usage, latency = members["usage"], members["metrics"]["latencyMs"]
    return {
        METRICS: {
            "inputTokenCount": usage["inputTokens"],
            "outputTokenCount": usage["outputTokens"],
            "invocationLatency": latency,
            "firstByteLatency": latency,
            "cacheReadInputTokenCount": usage["cacheReadInputTokens"],
            "cacheWriteInputTokenCount": usage["cacheWriteInputTokens"],
        }
    }


def _is_converse(messages: Any) -> bool:
    """Whether these are messages of Converse: lists of blocks that say their kind by a member."""
    if not isinstance(messages, list) or not messages:
        return False
    contents = [one.get("content") if isinstance(one, dict) else None for one in messages]
    return all(
        isinstance(content, list)
        and all(isinstance(block, dict) and "type" not in block for block in content)
        for content in contents
    )


_LENGTHS = ("max_new_tokens", "maxTokens")


class NovaBody:
    """Converse's members as a body (AWS: "Complete request schema" of Amazon Nova).

    `system` may be a text, and the inference configuration may have `topK` and `max_new_tokens`.
    """

    raw_text = False

    def __init__(self, body: Mapping[str, Any]) -> None:
        inference = body.get("inferenceConfig") or {}
        if not isinstance(inference, dict):
            raise ValidationError("'inferenceConfig' must be an object")
        known = {name: it for name, it in inference.items() if name not in ("topK", *_LENGTHS)}
        for name in _LENGTHS:
            if inference.get(name) is not None:
                known["maxTokens"] = inference[name]
        system = body.get("system")
        if isinstance(system, str):
            system = [{"text": system}] if system else None
        params = read_converse_params({**body, "inferenceConfig": known, "system": system})
        if "topK" in inference:
            params["inferenceConfig"]["topK"] = check_whole_number("topK", inference["topK"])
        self.params: Mapping[str, Any] = params

    def whole(self, output: Mapping[str, Any]) -> bytes:
        """Converse's output, but for what is no part of a model's own answer."""
        answer = {name: output[name] for name in ("output", "stopReason", "usage")}
        return encode(answer).encode("utf-8", "replace")

    def pieces(self, name: str, members: Mapping[str, Any]) -> Iterator[bytes]:
        """Each event as an object of one member."""
        if not name:
            return
        more: dict[str, Any] = render_costs(members) if name == "metadata" else {}
        yield encode({name: members, **more}).encode("utf-8", "replace")


def check_whole_number(name: str, value: Any) -> int:
    """A member that is a whole number, from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValidationError(f"{name!r} must be a whole number from 0")
    return value


class _Form(NamedTuple):
    """How a family writes a prompt, its parameters, an answer and the pieces of one."""

    prompt: str
    names: Mapping[str, str]
    answer: Callable[[str, str], dict[str, Any]]
    piece: Callable[[str, str], dict[str, Any]]


_CLAUDE_STOPS = {"max_tokens": "max_tokens"}
_TITAN_STOPS = {
    "content_filtered": "CONTENT_FILTERED",
    "max_tokens": "LENGTH",
    "stop_sequence": "STOP_CRITERIA_MET",
}


def _render_claude(text: str, reason: str) -> dict[str, Any]:
    stop = reason and _CLAUDE_STOPS.get(reason, "stop_sequence")
    return {
        "type": "completion",
        "completion": text,
        "stop_reason": stop or None,
        "stop": None,
    }


def _render_titan(text: str, reason: str) -> dict[str, Any]:
    result = {"outputText": text, "completionReason": _TITAN_STOPS.get(reason, "FINISH")}
    return {"results": [result]}


def _render_titan_piece(text: str, reason: str) -> dict[str, Any]:
    stop = reason and _TITAN_STOPS.get(reason, "FINISH")
    return {"outputText": text, "index": 0, "completionReason": stop or None}


_CLAUDE_FORM = _Form(
    "prompt",
    {
        "max_tokens_to_sample": "maxTokens",
        "temperature": "temperature",
        "top_p": "topP",
        "stop_sequences": "stopSequences",
    },
    _render_claude,
    _render_claude,
)
_TITAN_FORM = _Form(
    "inputText",
    {
        "maxTokenCount": "maxTokens",
        "temperature": "temperature",
        "topP": "topP",
        "stopSequences": "stopSequences",
    },
    _render_titan,
    _render_titan_piece,
)


def parse_completion(body: Mapping[str, Any]) -> CompletionBody | None:
    """The body, when it is one of a text-completion model."""
    if "prompt" in body and "max_tokens_to_sample" in body:
        return CompletionBody(body, body, _CLAUDE_FORM)
    config = body.get("textGenerationConfig")
    if "inputText" in body and isinstance(config, dict):
        return CompletionBody(body, config, _TITAN_FORM)
    return None


class CompletionBody:
    """A prompt, and how its text is answered."""

    raw_text = True

    def __init__(self, body: Mapping[str, Any], config: Mapping[str, Any], form: _Form) -> None:
        prompt = body[form.prompt]
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValidationError(f"{form.prompt!r} must be a text that is not empty")
        params = read_converse_params(
            {
                "messages": [{"role": "user", "content": [{"text": prompt}]}],
                "inferenceConfig": {
                    ours: config[name] for name, ours in form.names.items() if name in config
                },
            }
        )
        if config.get("top_k") is not None:
            params["inferenceConfig"]["topK"] = check_whole_number("top_k", config["top_k"])
        self.params: Mapping[str, Any] = params
        self._form = form
        self._reason = ""

    def whole(self, output: Mapping[str, Any]) -> bytes:
        """The whole text."""
        text = text_of(output["output"]["message"]["content"])
        return _encode_json(self._form.answer(text, output["stopReason"]))

    def pieces(self, name: str, members: Mapping[str, Any]) -> Iterator[bytes]:
        """The text piece by piece; the last one says why it ends, and what it cost."""
        if name == "contentBlockDelta" and "text" in members["delta"]:
            yield _encode_json(self._form.piece(members["delta"]["text"], ""))
        elif name == "messageStop":
            self._reason = members["stopReason"]
        elif name == "metadata":
            yield _encode_json({**self._form.piece("", self._reason), **render_costs(members)})


def _encode_json(value: Mapping[str, Any]) -> bytes:
    return encode(value).encode("utf-8", "replace")
