"""The engine of this project, and the floor, as peers among others."""

from __future__ import annotations

import json
from functools import partial
from itertools import count as counter

from bench import floor, script
from bench.peers.peer import Stream, Turn


class Floor:
    """The floor that encodes all messages before each model call."""

    def _encode(self) -> floor.Encode:
        return json.dumps

    def turns(self, steps: int, count: int) -> list[Turn]:
        model, sessions = floor.Model(steps), dict[str, floor.Session]()

        async def turn() -> str:
            session = floor.new_session(sessions)
            return await floor.arun(session, script.QUESTION, model, encode=self._encode())

        return [turn] * count

    def streams(self, length: int, count: int) -> list[Stream]:
        pieces = script.tokens(length)

        async def stream() -> int:
            seen = 0
            async for _ in floor.astream([], script.QUESTION, pieces):
                seen += 1
            return seen

        return [stream] * count


class OnceFloor(Floor):
    """The floor that encodes each message once."""

    def _encode(self) -> floor.Encode:
        return floor.EncodedOnce()


class Engine:
    """`ainvoke` and `astream`."""

    def __init__(self) -> None:
        self._ids = counter()

    def turns(self, steps: int, count: int) -> list[Turn]:
        from bench import subject

        agent = subject.engine(subject.Script(steps), asynchronous=True)

        async def turn(session: str) -> str:
            return (await agent.ainvoke(script.QUESTION, session)).text

        return [partial(turn, f"s-{next(self._ids)}") for _ in range(count)]

    def streams(self, length: int, count: int) -> list[Stream]:
        from bench import subject
        from orchestrator import TextDelta

        agent = subject.engine(subject.Tokens(script.tokens(length)), asynchronous=True)

        async def stream(session: str) -> int:
            seen = 0
            async for event in agent.astream(script.QUESTION, session):
                seen += type(event) is TextDelta
            return seen

        return [partial(stream, f"s-{next(self._ids)}") for _ in range(count)]
