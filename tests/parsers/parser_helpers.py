"""Short ways to look at parse results."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from orchestrator import parsers
from orchestrator.parsers import Parsed


def member(parsed: Parsed) -> dict[str, Any]:
    return parsed.response["orchestrationParsedResponse"]


def details(parsed: Parsed) -> dict[str, Any]:
    assert not parsed.code, (parsed.code, parsed.response)
    return member(parsed)["responseDetails"]


def reprompt(parsed: Parsed) -> str:
    assert "responseDetails" not in member(parsed)
    return member(parsed)["parsingErrorDetails"]["repromptResponse"]


def final(reply: Any, name: str = "auto") -> str:
    found = details(parsers.parse(reply, "ORCHESTRATION", name))
    assert found["invocationType"] == "FINISH"
    return found["agentFinalResponse"]["responseText"]


def actions(reply: Any, name: str = "auto") -> list[dict[str, Any]]:
    return details(parsers.parse(reply, "ORCHESTRATION", name))["actionGroupInvocations"]


def arguments(parameters: str) -> dict[str, Any]:
    """The values that the text between `<parameters>` and `</parameters>` gives."""
    reply = (
        "<function_calls><invoke><tool_name>group::function</tool_name>"
        f"<parameters>{parameters}</parameters></invoke></function_calls>"
    )
    (action,) = actions(reply)
    return {name: value["value"] for name, value in action["actionGroupInput"].items()}


def cut(text: str, seed: int) -> list[str]:
    """`text` in pieces of random length, often single characters."""
    rng = random.Random(seed)
    pieces, start = [], 0
    while start < len(text):
        size = rng.choice((1, 1, 2, 3, 7, 40))
        pieces.append(text[start : start + size])
        start += size
    return pieces


def streamed(pieces: Sequence[str], stage: str, name: str) -> tuple[list[tuple[str, str]], Parsed]:
    parser = parsers.new(name, stage)
    told = [item for piece in pieces for item in parser.feed(piece)]
    return told, parser.finish([{"text": "".join(pieces)}])
