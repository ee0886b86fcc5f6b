"""One prompt for a model, outside of any agent, and the part of its reply that was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.message import Message
from orchestrator.models import Model, ModelRequest
from orchestrator.prompts import dialect_for, load_dialect

_THINKING = re.compile(r"<thinking>.*?(?:</thinking>|\Z)", re.DOTALL)


def ask_for_tag(
    model: Model,
    prompt: str,
    tag: str,
    *,
    question: str,
    inference: Mapping[str, Any],
    additional: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> str:
    """What a model writes inside a tag; all but its thinking, where it writes no tag.

    Args:
        model: Who is asked.
        prompt: The whole prompt, which asks for the tag.
        tag: The tag's name.
        question: What the user has asked.
        inference: See `ModelRequest`.
        additional: See `ModelRequest`.
        seconds: How long it may take; `None` for no limit.

    Raises:
        DependencyFailed: The model failed.
    """
    request = ModelRequest(
        "ORCHESTRATION",
        "",
        [Message("user", [{"text": prompt}])],
        inference=inference,
        additional=additional or {},
        raw_text=load_dialect(dialect_for(model.model_id)).protocol == "text",
        question=question,
        seconds=seconds,
    )
    return extract_tag(model.complete(request).text, tag)


def extract_tag(text: str, tag: str) -> str:
    """What stands inside a tag of a reply, which may lack either end; without thinking."""
    rest = _THINKING.sub("", text)
    if f"<{tag}>" in rest:
        rest = rest.partition(f"<{tag}>")[2]
    return rest.partition(f"</{tag}>")[0].strip()
