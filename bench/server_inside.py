"""The same load without a server: one process, one event loop, `Agent.ainvoke`, the same store.

`python -m bench.server_inside '{"folder": ..., "model": ..., "state": ..., ...}'` speaks with the
one that measures as `bench.server_clients` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from bench.server_clients import Asked, questions
from bench.server_instant import register
from orchestrator import Agent
from orchestrator.errors import OrchestratorError


async def _ask(agent: Agent, session: str, token: str, text: str) -> Asked:
    began = time.monotonic()
    answer, error = "", ""
    try:
        answer = (await agent.ainvoke(text, session)).text
    except OrchestratorError as failed:
        error = f"{type(failed).__name__}: {failed}"[:300]
    return Asked(session, token, began, time.monotonic() - began, answer, error, 0)


async def _work(agent: Agent, number: int, given: dict[str, Any], told: list[Asked]) -> None:
    begin = time.monotonic()
    end, pace = begin + given["seconds"], given["pace"]
    due = begin + pace * number / given["of"]
    for session, token, text in questions(number, given["action"]):
        if pace:
            await asyncio.sleep(max(due - time.monotonic(), 0))
            due = max(due + pace, time.monotonic())
        if time.monotonic() >= end:
            return
        told.append(await _ask(agent, session, token, text))


async def main(given: dict[str, Any]) -> None:
    agent = Agent.load(given["folder"], model=given["model"], sessions=given["state"])
    told: list[Asked] = []
    print("ready", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*(_work(agent, number, given, told) for number in given["numbers"]))
    json.dump({"cpu": 0.0, "asked": told}, sys.stdout)
    sys.stdout.flush()


if __name__ == "__main__":
    register()
    asyncio.run(main(json.loads(sys.argv[1])))
    os._exit(0)
