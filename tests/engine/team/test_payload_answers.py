"""What users read of payloads: their content, once, and no tags."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from whole_agents import CLAUDE_35

from orchestrator import Agent, Collaborator, TextDelta
from orchestrator.testing import ScriptedModel

RICH = 'Rows: <br:payload id="r">1 < 2\n<b>3</b></br:payload> and <br.'
PLAIN = "Rows: 1 < 2\n<b>3</b> and <br."
CHUNKS = pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
WAYS = pytest.mark.parametrize("way", ["invoke", "stream", "astream"])


def says(text: str) -> str:
    return f"<answer>{text}</answer>"


def sends(to: str, content: str) -> list[Any]:
    given = {"recipient": to, "content": content}
    name = "AgentCommunication__sendMessage"
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": given}}]


def agent(name: str, script: list[Any], chunk: int, *members: Agent, **options: Any) -> Agent:
    team = [Collaborator(one, f"Sees to {one.name}.") for one in members]
    model = ScriptedModel(script, CLAUDE_35, chunk=chunk)
    return Agent(name, f"You are {name}.", model, collaborators=team, **options)


def read(one: Agent, way: str) -> str:
    """What the user has read in the end."""
    if way == "invoke":
        return one.invoke("q", "s-1").text

    async def gathered() -> list[Any]:
        return [event async for event in one.astream("q", "s-1")]

    events = asyncio.run(gathered()) if way == "astream" else list(one.stream("q", "s-1"))
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert events[-1].reply.text == shown
    return shown


@WAYS
@CHUNKS
def test_an_answer_that_shares_a_payload_is_shown_once(way: str, chunk: int) -> None:
    source = agent("source", [says(RICH)], chunk)
    script = [sends("source", "Give."), says('See <br:share_payload id="r"/>, <br:no id="r"/>.')]
    boss = agent("boss", script, chunk, source)
    assert read(boss, way) == 'See 1 < 2\n<b>3</b>, <br:no id="r"/>.'


@WAYS
@CHUNKS
def test_an_answer_that_repeats_a_payload_has_no_tags(way: str, chunk: int) -> None:
    boss = agent("boss", [sends("source", "Give."), says(RICH)], chunk, agent("source", ["x"], 9))
    assert read(boss, way) == PLAIN


@WAYS
@CHUNKS
def test_a_routed_answer_has_no_tags(way: str, chunk: int) -> None:
    source = agent("source", [says(RICH)], chunk)
    boss = agent("boss", ["<a>source</a>"], chunk, source, collaboration="SUPERVISOR_ROUTER")
    assert read(boss, way) == PLAIN


@WAYS
@CHUNKS
def test_a_routed_answer_of_a_routed_team_has_no_tags(way: str, chunk: int) -> None:
    source = agent("source", [says(RICH)], chunk)
    lead = agent("lead", ["<a>source</a>"], chunk, source, collaboration="SUPERVISOR_ROUTER")
    boss = agent("boss", ["<a>lead</a>"], chunk, lead, collaboration="SUPERVISOR_ROUTER")
    assert read(boss, way) == PLAIN


def test_a_team_s_answer_keeps_the_tags_for_the_agents_above_it() -> None:
    source = agent("source", [says(RICH)], 9)
    lead = agent("lead", ["<a>source</a>"], 9, source, collaboration="SUPERVISOR_ROUTER")
    script = [sends("lead", "Give."), says('<br:share_payload id="r"/>')]
    assert agent("boss", script, 9, lead).invoke("q", "s-1").text == "1 < 2\n<b>3</b>"


def test_an_agent_alone_may_write_what_it_likes() -> None:
    assert read(agent("one", [says(RICH)], 5), "stream") == RICH
