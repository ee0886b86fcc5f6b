"""The scripted conversation that the floor, the engine and every peer carry out.

Nothing here imports the engine, so that the frameworks of `bench/peers/` run it in environments
of their own. The model is stateless and O(1): it looks at the last message only. A call's id
carries the number of its step, so that a turn has exactly as many calls as it is to have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

QUESTION = "What is the weather in Paris?"
ANSWER = "It is sunny in Paris."
INSTRUCTION = "You tell people the weather of the cities that they ask about."
MODEL_ID = "anthropic.claude-3-5-sonnet-20240620-v1:0"
THOUGHT = "I look it up."
Result = dict[str, Any]


def get(city: str) -> Result:
    """The weather of a city.

    Args:
        city: The city.
    """
    return {"city": city, "sky": "sunny"}


async def aget(city: str) -> Result:
    """The weather of a city.

    Args:
        city: The city.
    """
    return {"city": city, "sky": "sunny"}


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The city."}},
    "required": ["city"],
}


def next_step(last_call: str | None) -> int:
    """Which step the model is at, by the id of the call whose result it sees."""
    return 0 if last_call is None else int(last_call) + 1


def answer(messages: Sequence[Any], steps: int, tool: str) -> list[dict[str, Any]]:
    """The model's reply to Converse messages: a call while there are steps left, then the answer.

    Args:
        messages: The conversation; its last message decides.
        steps: How many calls a turn has.
        tool: What the tool is called.
    """
    result = messages[-1]["content"][-1].get("toolResult")
    step = next_step(result and result["toolUseId"])
    if step == steps:
        return [{"text": f"<thinking>I have it.</thinking><answer>{ANSWER}"}]
    call = {"toolUseId": str(step), "name": tool, "input": {"city": f"Paris {step}"}}
    return [{"text": f"<thinking>{THOUGHT}</thinking>"}, {"toolUse": call}]


def tokens(count: int) -> list[str]:
    """A streamed answer of `count` tokens.

    The markup is that of the engine's prompts; for others it is text. Every word ends in a space,
    which is the harder case for a parser: white space at an answer's end is not part of it.
    """
    opening = ["<thinking>", "I know", " it.", "</thinking>", "<answer>"]
    return [*opening, *["sunny "] * (count - len(opening))]


def events(pieces: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A streamed answer as Converse tells it."""
    yield {"messageStart": {"role": "assistant"}}
    for piece in pieces:
        yield {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}}
    yield {"contentBlockStop": {"contentBlockIndex": 0}}
    yield {"messageStop": {"stopReason": "end_turn"}}


async def aevents(pieces: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    """The same, without a generator in between."""
    yield {"messageStart": {"role": "assistant"}}
    for piece in pieces:
        yield {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}}
    yield {"contentBlockStop": {"contentBlockIndex": 0}}
    yield {"messageStop": {"stopReason": "end_turn"}}
