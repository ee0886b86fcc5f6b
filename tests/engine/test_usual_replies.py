"""In memory, usual replies are parsed when somebody asks: nobody sees a difference."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orchestrator import ActionGroup, Agent, action
from orchestrator.sessions import InMemoryStore, Sessions
from orchestrator.sessions.sqlite_store import SQLiteStore
from orchestrator.testing import ScriptedModel

THOUGHT = "<thinking>I look it up.</thinking>"
CALL = {"toolUse": {"toolUseId": "t-1", "name": "weather__get", "input": {"city": "Paris"}}}
UNKNOWN = {"toolUse": {"toolUseId": "t-2", "name": "weather__gte", "input": {"city": "Paris"}}}
ANSWER = {"text": "<thinking>I have it.</thinking><answer>It is sunny.</answer>"}

REPLIES: dict[str, list[list[dict[str, Any]]]] = {
    "calls": [[{"text": THOUGHT}, CALL], [ANSWER]],
    "two calls": [[CALL, {"toolUse": {**CALL["toolUse"], "toolUseId": "t-3"}}], [ANSWER]],
    "unknown function": [[{"text": "I look."}, UNKNOWN], [ANSWER]],
    "text beside a call": [[{"text": "<answer>Wait.</answer>"}, CALL], [ANSWER]],
    "plain answer": [[{"text": "It is sunny."}]],
    "answer that was cut": [[{"text": "Sun. <answer>It is su"}]],
    "second answer tag": [[{"text": "<answer>It is <answer>sunny."}]],
    "empty": [[], [ANSWER]],
}


@action
async def get(city: str) -> dict[str, str]:
    """The weather of a city."""
    return {"city": city, "weather": "sunny"}


def agent(replies: list[list[dict[str, Any]]], sessions: Sessions) -> Agent:
    groups = [ActionGroup("weather", actions=[get])]
    return Agent(
        "weather",
        "You tell people the weather.",
        ScriptedModel(replies),
        action_groups=groups,
        sessions=sessions,
    )


def said(records: list[dict[str, Any]]) -> list[Any]:
    return [
        {name: it[name] for name in ("content", "response", "code", "notes") if name in it}
        for it in records
        if it["kind"] == "model"
    ]


def steps(trace: list[dict[str, Any]]) -> list[Any]:
    return [
        {name: it.get("text") for name, it in part["trace"]["orchestrationTrace"].items()}
        for part in trace
    ]


@pytest.mark.parametrize("replies", REPLIES.values(), ids=list(REPLIES))
def test_journals_and_traces_in_memory_say_what_those_on_disk_say(
    replies: list[list[dict[str, Any]]], tmp_path: Path
) -> None:
    journals, traces = [], []
    for store in (InMemoryStore(), SQLiteStore(tmp_path / "sessions.sqlite")):
        sessions = Sessions(store)
        asked = agent(replies, sessions)
        reply = asyncio.run(asked.ainvoke("What is the weather in Paris?", "s-1"))
        traces.append((reply.text, steps(reply.trace)))
        (info,) = store.list()
        journals.append(said(store.load(info.key)))
    assert journals[0] == journals[1]
    assert all("response" in one for one in journals[0])
    assert traces[0] == traces[1]
