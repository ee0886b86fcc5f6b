"""Model parameters, as scripts call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def inference_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The inference configuration that parameters mean; other names are passed over.

    `max_tokens: -1`, as scripts write it, is no limit.
    """
    found = {}
    for name, value in parameters.items():
        unlimited = name == "max_tokens" and isinstance(value, int | float) and value <= 0
        if name in PARAMETERS and value is not None and not unlimited:
            found[PARAMETERS[name]] = _to_list(value) if name.startswith("stop") else value
    return found


def _to_list(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
