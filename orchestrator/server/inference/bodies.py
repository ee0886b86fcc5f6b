"""The bodies of InvokeModel, which each family of models has in a form of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from orchestrator.errors import ValidationError
from orchestrator.message import text_of
from orchestrator.server.inference.guarding import GuardedCall
from orchestrator.server.operations import pick
from orchestrator.server.wire.requests import read_members
from orchestrator.support.safe_json import json_or

METRICS = "amazon-bedrock-invocationMetrics"
"""The costs in the last chunk of a stream, whatever the form (Bedrock)."""

_GUARDRAIL_CONFIG = "amazon-bedrock-guardrailConfig"
_ACTION = "amazon-bedrock-guardrailAction"
_TRACE = "amazon-bedrock-trace"
_FORMS = (
    "Anthropic's Messages (with 'anthropic_version'); Converse's members as Amazon Nova takes them "
    "('messages' whose 'content' is a list of blocks such as {'text': ...}); 'prompt' with "
    "'max_tokens_to_sample' as Claude 2 takes it; 'inputText' with 'textGenerationConfig' as Titan "
    "Text takes it. Any model can be asked through Converse"
)
_MEMBERS = frozenset(
    {"messages", "system", "inferenceConfig", "toolConfig", "additionalModelRequestFields"}
)

Data = Mapping[str, Any]


class Body(Protocol):
    """A request's body, and how it is answered."""

    params: Data  # what it asks, as parameters of Converse; `inferenceConfig` may have a `topK`
    raw_text: bool  # whether its one message holds the whole prompt

    def whole(self, output: Data) -> Data:
        """The whole answer, from Converse's output."""

    def pieces(self, name: str, members: Data) -> Iterator[Data]:
        """The chunks for the next event of ConverseStream."""


def parse_body(params: Mapping[str, Any], id: str) -> Body:
    """The body of a call of InvokeModel."""
    result = _read_object(params)
    result.pop(_GUARDRAIL_CONFIG, None)
    if "anthropic_version" in result:
        from orchestrator.server.inference.anthropic import AnthropicBody

        return AnthropicBody(result, params["modelId"], id)
    if _is_converse(result.get("messages")):
        return NovaBody(result)
    if "prompt" in result and "max_tokens_to_sample" in result:
        return CompletionBody(result, result, _CLAUDE_FORM)
    config = result.get("textGenerationConfig")
    if "inputText" in result and isinstance(config, dict):
        return CompletionBody(result, config, _TITAN_FORM)
    raise ValidationError(f"the body has none of the forms that are understood here: {_FORMS}")


def _read_object(params: Mapping[str, Any]) -> dict[str, Any]:
    result = json_or(params.get("body", b"").decode("utf-8", "replace"), None)
    if not isinstance(result, dict):
        raise ValidationError("the body is not a JSON object")
    return result


def read_guardrail_config(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `guardrailConfig` of Converse that the headers of InvokeModel mean, if there is one.

    Raises:
        ValidationError: The body has a configuration of a guardrail that no header names, or one
            that is not understood.
    """
    config = _read_object(params).get(_GUARDRAIL_CONFIG)
    identifier = params.get("guardrailIdentifier")
    if config is not None and not identifier:
        raise ValidationError(
            f"the body has {_GUARDRAIL_CONFIG!r} and the request no guardrailIdentifier; give one"
        )
    if not identifier:
        return None
    if config is not None and (not isinstance(config, dict) or "tagSuffix" in config):
        raise ValidationError(
            f"{_GUARDRAIL_CONFIG!r} with a tagSuffix is not understood here: the whole text is "
            "checked; leave it out, or mark text with guardContent in Converse"
        )
    mode = (config or {}).get("streamProcessingMode", "SYNCHRONOUS")
    return {
        "guardrailIdentifier": identifier,
        "guardrailVersion": params.get("guardrailVersion", ""),
        "trace": params.get("trace", "DISABLED").lower(),
        "streamProcessingMode": "async" if mode == "ASYNCHRONOUS" else "sync",
    }


def render_guardrail(guarded: GuardedCall | None, output: Data) -> dict[str, Any]:
    """The members of an answer's body that say what a guardrail did."""
    if guarded is None:
        return {}
    members: dict[str, Any] = {_ACTION: "INTERVENED" if guarded.has_intervened else "NONE"}
    if "trace" in output:
        found = dict(output["trace"]["guardrail"])
        names = {"inputAssessment": "input", "outputAssessments": "outputs"}
        trace = {names.get(name, name): it for name, it in found.items()}
        if "outputs" in trace:
            # A list of what Converse has by the guardrail's id.
            ((id, outputs),) = trace["outputs"].items()
            trace["outputs"] = [{id: it} for it in outputs]
        members[_TRACE] = {"guardrail": trace}
    return members


def read_converse_params(body: Data, config: Data, top_k: str = "top_k") -> dict[str, Any]:
    """The members of Converse in JSON, as a boto3 caller would give them.

    The `inferenceConfig` also has the `topK` that the member `top_k` of `config` is.
    """
    params = read_members("bedrock-runtime", "Converse", _MEMBERS, body)
    value = config.get(top_k)
    if value is not None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValidationError(f"{top_k!r} must be a whole number from 0")
        params["inferenceConfig"]["topK"] = value
    return params


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
        members = {**body, "inferenceConfig": known, "system": system}
        self.params: Data = read_converse_params(members, inference, "topK")

    def whole(self, output: Data) -> Data:
        """Converse's output, but for what is no part of a model's own answer."""
        return pick(output, ("output", "stopReason", "usage"))

    def pieces(self, name: str, members: Data) -> Iterator[Data]:
        """Each event as an object of one member."""
        if name:
            yield {name: members, **(render_costs(members) if name == "metadata" else {})}


class _Form(NamedTuple):
    """How a family writes a prompt, its parameters, an answer and the pieces of one."""

    prompt: str
    names: Mapping[str, str]
    answer: Callable[[str, str], dict[str, Any]]
    piece: Callable[[str, str], dict[str, Any]]


_TITAN_STOPS = {
    "content_filtered": "CONTENT_FILTERED",
    "max_tokens": "LENGTH",
    "stop_sequence": "STOP_CRITERIA_MET",
}


def _render_claude(text: str, reason: str) -> dict[str, Any]:
    stop = "max_tokens" if reason == "max_tokens" else "stop_sequence"
    result = {"type": "completion", "completion": text}
    return {**result, "stop_reason": stop if reason else None, "stop": None}


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


class CompletionBody:
    """A prompt, and how its text is answered."""

    raw_text = True

    def __init__(self, body: Mapping[str, Any], config: Mapping[str, Any], form: _Form) -> None:
        prompt = body[form.prompt]
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValidationError(f"{form.prompt!r} must be a text that is not empty")
        messages = [{"role": "user", "content": [{"text": prompt}]}]
        inference = {ours: config[name] for name, ours in form.names.items() if name in config}
        members = {"messages": messages, "inferenceConfig": inference}
        self.params: Data = read_converse_params(members, config)
        self._form = form
        self._reason = ""

    def whole(self, output: Data) -> Data:
        """The whole text."""
        text = text_of(output["output"]["message"]["content"])
        return self._form.answer(text, output["stopReason"])

    def pieces(self, name: str, members: Data) -> Iterator[Data]:
        """The text piece by piece; the last one says why it ends, and what it cost."""
        if name == "contentBlockDelta" and "text" in members["delta"]:
            yield self._form.piece(members["delta"]["text"], "")
        elif name == "messageStop":
            self._reason = members["stopReason"]
        elif name == "metadata":
            yield {**self._form.piece("", self._reason), **render_costs(members)}
