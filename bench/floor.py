"""The floor: an agent loop of about thirty lines, with nothing but the loop.

It keeps Converse-shaped messages, encodes them before every model call as a client would, calls
the model, calls the tool, and appends. `run` is synchronous, `arun` the same in an event loop,
`astream` a turn of one streamed answer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from bench import script

Session = list[dict[str, Any]]
Encode = Callable[[Session], object]
TOOL = "weather__get"


class Model:
    """The scripted model, without any framework around it."""

    def __init__(self, steps: int = 1) -> None:
        self.steps = steps

    def answer(self, session: Session) -> list[dict[str, Any]]:
        return script.answer(session, self.steps, TOOL)

    async def aanswer(self, session: Session) -> list[dict[str, Any]]:
        return script.answer(session, self.steps, TOOL)


class EncodedOnce:
    """Encodes each message of a session once, and joins what it has at every call."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def __call__(self, session: Session) -> str:
        self._messages += map(json.dumps, session[len(self._messages) :])
        return f"[{', '.join(self._messages)}]"


def run(
    session: Session,
    question: str,
    model: Model,
    tool: Callable[..., Any] = script.get,
    encode: Encode = json.dumps,
) -> str:
    session.append({"role": "user", "content": [{"text": question}]})
    while True:
        encode(session)
        reply = model.answer(session)
        session.append({"role": "assistant", "content": reply})
        calls = [block["toolUse"] for block in reply if "toolUse" in block]
        if not calls:
            text: str = reply[-1]["text"]
            return text.partition("<answer>")[2]
        results = []
        for call in calls:
            value = tool(**call["input"])
            result = {"toolUseId": call["toolUseId"], "content": [{"json": value}]}
            results.append({"toolResult": result})
        session.append({"role": "user", "content": results})


async def arun(
    session: Session,
    question: str,
    model: Model,
    tool: Callable[..., Awaitable[Any]] = script.aget,
    encode: Encode = json.dumps,
) -> str:
    session.append({"role": "user", "content": [{"text": question}]})
    while True:
        encode(session)
        reply = await model.aanswer(session)
        session.append({"role": "assistant", "content": reply})
        calls = [block["toolUse"] for block in reply if "toolUse" in block]
        if not calls:
            text: str = reply[-1]["text"]
            return text.partition("<answer>")[2]
        results = []
        for call in calls:
            value = await tool(**call["input"])
            result = {"toolUseId": call["toolUseId"], "content": [{"json": value}]}
            results.append({"toolResult": result})
        session.append({"role": "user", "content": results})


async def astream(session: Session, question: str, pieces: Sequence[str]) -> AsyncIterator[str]:
    session.append({"role": "user", "content": [{"text": question}]})
    json.dumps(session)
    said = []
    async for event in script.aevents(pieces):
        if "contentBlockDelta" in event:
            piece = event["contentBlockDelta"]["delta"]["text"]
            said.append(piece)
            yield piece
    session.append({"role": "assistant", "content": [{"text": "".join(said)}]})


def new_session(sessions: dict[str, Session]) -> Session:
    """A session by id, as a server would keep it."""
    return sessions.setdefault(str(uuid.uuid4()), [])
