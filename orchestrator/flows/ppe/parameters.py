"""Model parameters of scripts, in Bedrock's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["OF_CALL", "PARAMETERS", "inference_of"]

PARAMETERS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maximumLength",
    "stop": "stopSequences",
    "stop_words": "stopSequences",
    "stop_sequences": "stopSequences",
}
"""What scripts call them, and what Bedrock does."""

OF_CALL = (
    *("shouldAppendResponse", "pushMessage", "stream", "memoized", "forceJson"),
    *("response_format", "continueOnLengthLimit", "aborter"),
)
"""Arguments of a call that say how it is made, and are no data for templates."""


def inference_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The inference configuration that parameters mean; other names are passed over."""
    found = {}
    for name, value in given.items():
        if name in PARAMETERS and value is not None:
            found[PARAMETERS[name]] = _to_list(value) if name.startswith("stop") else value
    return found


def _to_list(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
