"""Teams in an event loop over a store that blocks: what agents do side by side is one journal."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import ActionGroup, Agent, Collaborator, SQLiteStore, action
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.sessions import Record

MEMBERS = ("ann", "bob", "cat")
_ids = itertools.count(1)


def sends(*names: str) -> list[Any]:
    return [
        {
            "toolUse": {
                "toolUseId": f"m-{next(_ids)}",
                "name": "AgentCommunication__sendMessage",
                "input": {"recipient": name, "content": f"Pay {name}."},
            }
        }
        for name in names
    ]


class Deciding(Model):
    """Says first `first`, and after results the answer; waits a little, as real models do."""

    model_id = NATIVE.model_id

    def __init__(self, first: Any, text: str) -> None:
        self.first, self.text = first, text
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("the event loop waits for a model")

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0)
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if "toolResult" in request.messages[-1]["content"][0]:
            return ModelReply([{"text": answer(self.text)}], "end_turn", Usage(calls=1))
        return ModelReply(self.first(), "tool_use", Usage(calls=1))


def team(
    path: Path, store: SQLiteStore | None = None
) -> tuple[Agent, dict[str, Deciding], list[str]]:
    paid: list[str] = []

    @action
    async def pay(to: str) -> str:
        """Pays somebody."""
        await asyncio.sleep(0)
        paid.append(to)
        return f"paid {to}"

    def calls(name: str) -> Any:
        return lambda: NATIVE.calls(
            ("bank::pay", {"to": name}), ("bank::pay", {"to": f"{name}'s mother"})
        )

    models = {name: Deciding(calls(name), f"{name} is paid.") for name in MEMBERS}
    group = ActionGroup("bank", [pay])
    crew = [
        Collaborator(Agent(name, INSTRUCTION, model, action_groups=[group]), f"Pays {name}.")
        for name, model in models.items()
    ]
    boss = Deciding(lambda: sends(*MEMBERS), "All are paid.")
    sessions = store or SQLiteStore(path)
    made = Agent("boss", INSTRUCTION, boss, collaborators=crew, sessions=sessions)
    return made, models, paid


def test_many_sessions_of_a_team_at_once(tmp_path: Path) -> None:
    agent, _, paid = team(tmp_path / "s.sqlite")

    async def main() -> list[Any]:
        turns = [agent.ainvoke("Pay all.", f"s-{number}") for number in range(8)]
        return await asyncio.gather(*turns)

    replies = asyncio.run(main())
    assert {reply.text for reply in replies} == {"All are paid."}
    assert len(paid) == 8 * 2 * len(MEMBERS)
    again, *_ = team(tmp_path / "s.sqlite")
    for number, reply in enumerate(replies):
        (turn,) = again.turns(f"s-{number}")
        assert len(turn.trace) == len(reply.trace)
        outcomes = [record["text"] for record in turn.records if record["kind"] == "action"]
        assert sorted(outcomes) == sorted(
            f"paid {name}{end}" for name in MEMBERS for end in ("", "'s mother")
        )


class Watching(SQLiteStore):
    """A store that notes the records that came with their texts."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.encoded: list[Record] = []

    def append(self, key: str, expected: int, records: Sequence[Record], **options: Any) -> int:
        for record, text in options.get("encoded", ()):
            assert text == self.encode_record(record)
            self.encoded.append(record)
        return super().append(key, expected, records, **options)


def test_records_of_a_branch_are_encoded_once_and_with_their_branch(tmp_path: Path) -> None:
    store = Watching(tmp_path / "s.sqlite")
    agent, *_ = team(tmp_path / "s.sqlite", store)
    asyncio.run(agent.ainvoke("Pay all.", "s-1"))
    of_branches = [record for record in store.encoded if record.get("branch")]
    # A reply waits for what is written with it: the intent of its calls, or the end.
    assert Counter(record["kind"] for record in of_branches) == {"model": 2 * len(MEMBERS)}
    store.close()


@pytest.mark.parametrize("who", MEMBERS)
def test_a_team_that_is_left_goes_on_where_it_was(who: str, tmp_path: Path) -> None:
    async def stop() -> list[str]:
        agent, models, paid = team(tmp_path / "s.sqlite")
        models[who].gate = asyncio.Event()  # the others end their work
        turn = asyncio.create_task(agent.ainvoke("Pay all.", "s-1"))
        await models[who].asked.wait()
        while len(paid) < 2 * (len(MEMBERS) - 1):
            await asyncio.sleep(0)
        agent.sessions.leaving = True
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        return paid

    paid = asyncio.run(stop())
    agent, _, rest = team(tmp_path / "s.sqlite")
    assert asyncio.run(agent.ainvoke("Pay all.", "s-1")).text == "All are paid."
    assert sorted(rest) == [who, f"{who}'s mother"]
    assert not set(paid) & set(rest)
    assert len(agent.turns("s-1")) == 1
