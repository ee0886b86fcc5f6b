"""What the engine asks a user about a call: for values that it lacks, and whether to make it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions.base import Operation, Parameter
from orchestrator.engine.changes import split_words
from orchestrator.support.logs import escape

# A question becomes a part of the conversation, so it names no example, which a small model
# might take for the user's own value.
_EXAMPLE = re.compile(
    r"\s*(?:[(,;:.]\s*)?(?:\b(?:for example|for instance|such as|like|as in|example)\b"
    r"|\be\. ?g\.|\bi\. ?e\.|(?:\bas|\bin the (?:form|format))\s+\S*[YMDHh\d]{2})(?s:.)*$",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|an?|your|whose|which)\s", re.IGNORECASE)
# Characters of a description that are looked at: a server's may have any number.
_MOST_DESCRIPTION = 500
# What needs no quotation marks.
_PLAIN = re.compile(r"[\w.@:/+-]{1,80}")


def ask_for_values(parameters: Sequence[Parameter]) -> str:
    """The question for values that the user did not give."""
    *others, last = dict.fromkeys(map(_describe, parameters))
    return f"Could you tell me {', '.join(others)}{' and ' if others else ''}{last}?"


def ask_for_consent(operation: Operation, arguments: Mapping[str, Any]) -> str:
    """The question whether to make a call, with all of its values."""
    values = ", ".join(
        f"{' '.join(split_words(name))}: {_quote(value)}" for name, value in arguments.items()
    )
    name = " ".join(split_words(operation.name))
    return f"Shall I go ahead with {name}{f' ({values})' if values else ''}?"


def describe_missing(parameters: Sequence[Parameter]) -> str:
    """What the model reads of the values that it lacked, in place of a call's result."""
    return f"Missing: {', '.join(_describe(one) for one in parameters)}. Ask the user."


def _quote(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    # Nothing may hide, or show the values in another order than they have.
    return escape(json.dumps(value, ensure_ascii=False))


def _describe(parameter: Parameter) -> str:
    name = " ".join(split_words(parameter.name))
    said = " ".join(parameter.description[:_MOST_DESCRIPTION].split())
    what = _EXAMPLE.sub("", said).strip().rstrip(".:;,(")
    if not what:
        return f"the {name}"
    if _ARTICLE.match(what):
        return what[0].lower() + what[1:]
    first = re.findall(r"\w+", what.lower())[:4]
    # A phrase that names the value: `Number of the order`, `Order to look up`.
    if "of" in first[1:] or not set(name.split()).isdisjoint(first[:3]):
        return f"the {what}" if what[:2].isupper() else f"the {what[0].lower()}{what[1:]}"
    return f"the {name} ({what})"
