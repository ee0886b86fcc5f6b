"""Many clients, two workers, some of them killed: no turn is lost, crossed or there twice."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import BotoCoreError
from echo_model import TOKEN, EchoModel
from serving_support import AGENT_ID, ALIAS_ID, Process, Start, client, write_agent
from urllib3.exceptions import HTTPError

from orchestrator import Agent

CLIENTS, SESSIONS, TURNS = 12, 5, 5
KILLS = 2


class Said(NamedTuple):
    session: str
    token: str
    answer: str | None  # None: the client was cut off in the middle of the answer


def talk(url: str, number: int) -> list[Said]:
    """One client's sessions, one question after the other; botocore itself tries again."""
    made = client(url, retries={"mode": "standard", "total_max_attempts": 4})
    return [
        Said(session, token, ask(made, session, f"Tell me of [{token}]."))
        for session in (f"s-{number}-{each}" for each in range(SESSIONS))
        for token in (f"{session}-{turn}" for turn in range(TURNS))
    ]


def ask(made: Any, session: str, text: str) -> str | None:
    try:
        answer = made.invoke_agent(
            agentId=AGENT_ID, agentAliasId=ALIAS_ID, sessionId=session, inputText=text
        )
        with closing(answer["completion"]) as events:
            return b"".join(event["chunk"]["bytes"] for event in events).decode()
    except (BotoCoreError, HTTPError):
        return None


def sessions(said: list[Said]) -> Iterator[list[Said]]:
    for start in range(0, len(said), TURNS):
        yield said[start : start + TURNS]


def check_answers(those: list[Said]) -> None:
    """Each answer tells the questions of its session so far: all, in order, and no other's."""
    for place, it in enumerate(those):
        if it.answer is None:
            continue
        seen = it.answer.split()
        before = [one.token for one in those[: place + 1] if one.answer or one.token in seen]
        assert seen == before


def check_journal(agent: Agent, those: list[Said]) -> None:
    """What was told is in the journal once, whole and in order; what was not, at most once."""
    turns = agent.turns(those[0].session)
    kept = [TOKEN.findall(turn.question)[0] for turn in turns]
    assert kept == [it.token for it in those if it.answer or it.token in kept]
    texts = dict(zip(kept, turns, strict=True))
    for it in those:
        if it.answer is not None:
            assert (texts[it.token].text, texts[it.token].stop_reason) == (it.answer, "end_turn")


@pytest.mark.exhaustive
def test_killed_workers_lose_cross_and_repeat_no_turn(start: Start, tmp_path: Path) -> None:
    server: Process
    moments = sorted(random.sample(range(20, CLIENTS * SESSIONS * TURNS - 20), KILLS))
    killed: list[int] = []

    def asked(number: int) -> None:
        if number in moments:  # while this turn, and whatever else runs, waits for the model
            victim = random.choice([it for it in server.workers() if it not in killed])
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    with EchoModel(asked).running() as model:
        agents, state = write_agent(tmp_path), tmp_path / "sessions.sqlite"
        server = start("--agents", agents, "--model", model.spec, "--state", state, "--workers", 2)
        with ThreadPoolExecutor(CLIENTS) as pool:
            talks = list(pool.map(lambda number: talk(server.url, number), range(CLIENTS)))
        server.signal()
        assert server.end()[0] == 0
        agent = Agent.load(agents / "own", model=model.spec, sessions=state)
    assert len(killed) == KILLS
    answered = 0
    for those in (it for said in talks for it in sessions(said)):
        check_answers(those)
        check_journal(agent, those)
        answered += sum(it.answer is not None for it in those)
    # Each kill cuts off at most the one question that each client has at a time.
    assert answered >= CLIENTS * (SESSIONS * TURNS - KILLS), f"killed at {moments}"
