"""Bodies of text-completion models: one prompt in, one text out (Claude 2, Titan Text)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from orchestrator.errors import ValidationError
from orchestrator.message import text_of
from orchestrator.models._encoding import encode
from orchestrator.server.inference.bodies import (
    check_whole_number,
    read_converse_params,
    render_costs,
)


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
    told = reason and _CLAUDE_STOPS.get(reason, "stop_sequence")
    return {"type": "completion", "completion": text, "stop_reason": told or None, "stop": None}


def _render_titan(text: str, reason: str) -> dict[str, Any]:
    result = {"outputText": text, "completionReason": _TITAN_STOPS.get(reason, "FINISH")}
    return {"results": [result]}


def _render_titan_piece(text: str, reason: str) -> dict[str, Any]:
    told = reason and _TITAN_STOPS.get(reason, "FINISH")
    return {"outputText": text, "index": 0, "completionReason": told or None}


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


def parse_completion(given: Mapping[str, Any]) -> CompletionBody | None:
    """The body, when it is one of a text-completion model.

    Raises:
        ValidationError: It is, and something in it is wrong.
    """
    if "prompt" in given and "max_tokens_to_sample" in given:
        return CompletionBody(given, given, _CLAUDE_FORM)
    config = given.get("textGenerationConfig")
    if "inputText" in given and isinstance(config, dict):
        return CompletionBody(given, config, _TITAN_FORM)
    return None


class CompletionBody:
    """A prompt, and how its text is answered."""

    raw_text = True

    def __init__(self, given: Mapping[str, Any], config: Mapping[str, Any], form: _Form) -> None:
        """Reads the body.

        Raises:
            ValidationError: Something in it is wrong.
        """
        prompt = given[form.prompt]
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
