"""Long replies are read beside the event loop, short ones in it."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from orchestrator import Agent
from orchestrator.message import Block
from orchestrator.parsers.base import Parsed
from orchestrator.parsers.orchestration import Orchestration
from orchestrator.testing import ScriptedModel


@pytest.mark.parametrize(("tags", "in_loop"), [(10, True), (20_000, False)])
def test_a_long_reply_is_read_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, tags: int, in_loop: bool
) -> None:
    read_by: list[threading.Thread] = []
    finish = Orchestration.finish

    def note(self: Orchestration, blocks: Sequence[Block] = ()) -> Parsed:
        read_by.append(threading.current_thread())
        return finish(self, blocks)

    monkeypatch.setattr(Orchestration, "finish", note)
    text = f"<note>{'<b>' * tags}</note><answer>It is open.</answer>"
    agent = Agent(
        "shop",
        model=ScriptedModel([text]),
        instruction="You answer questions about a shop's opening hours.",
    )
    with agent:
        result = asyncio.run(agent.ainvoke("Is it open?", "s1"))
    assert result.text == "It is open."
    assert [it is threading.current_thread() for it in read_by] == [in_loop]
