"""What a module of this package opens: the scripted conversation in one framework.

A module imports nothing but its framework and what needs neither framework nor engine
(`bench.script`, `bench.floor`, `bench.harness`). Its fake model is a subclass of the framework's
official model class, or what its documentation says to give in place of one; it looks at the last
message alone and encodes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

# A turn that says its answer, or a stream that says how many pieces of text it had.
Turn = Callable[[], Awaitable[str]]
Stream = Callable[[], Awaitable[int]]


class Peer(Protocol):
    """One framework. Whatever a turn needs and a server would keep is made before it is timed."""

    def turns(self, steps: int, count: int) -> list[Turn]:
        """`count` turns of `steps` calls of the tool, each in a new session."""

    def streams(self, length: int, count: int) -> list[Stream]:
        """`count` turns, each in a new session: one answer that is streamed in `length` pieces."""
