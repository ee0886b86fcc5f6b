"""The floor: an agent loop of about thirty lines, with nothing but the loop.

It keeps Converse-shaped messages, encodes them before every model call as a client would, calls
the model, calls the tool, and appends. `run` is synchronous, `arun` the same in an event loop.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

Tools = dict[str, Callable[..., Any]]


def run(session: list[dict[str, Any]], question: str, model: Any, tools: Tools) -> str:
    session.append({"role": "user", "content": [{"text": question}]})
    while True:
        json.dumps(session)
        reply = model.answer(session)
        session.append({"role": "assistant", "content": reply})
        calls = [block["toolUse"] for block in reply if "toolUse" in block]
        if not calls:
            return reply[-1]["text"].partition("<answer>")[2]
        results = []
        for call in calls:
            text = tools[call["name"]](**call["input"])
            result = {"toolUseId": call["toolUseId"], "content": [{"text": text}]}
            results.append({"toolResult": result})
        session.append({"role": "user", "content": results})


async def arun(
    session: list[dict[str, Any]],
    question: str,
    model: Any,
    tools: dict[str, Callable[..., Awaitable[Any]]],
) -> str:
    session.append({"role": "user", "content": [{"text": question}]})
    while True:
        json.dumps(session)
        reply = await model.aanswer(session)
        session.append({"role": "assistant", "content": reply})
        calls = [block["toolUse"] for block in reply if "toolUse" in block]
        if not calls:
            return reply[-1]["text"].partition("<answer>")[2]
        results = []
        for call in calls:
            text = await tools[call["name"]](**call["input"])
            result = {"toolUseId": call["toolUseId"], "content": [{"text": text}]}
            results.append({"toolResult": result})
        session.append({"role": "user", "content": results})


def new_session(sessions: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A session by id, as a server would keep it."""
    return sessions.setdefault(str(uuid.uuid4()), [])
