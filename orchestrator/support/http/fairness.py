"""An event loop for all: a server that sends without end does not keep the others from theirs."""

from __future__ import annotations

import asyncio
import time

# Bytes of an answer that are read as fast as they come. A model's server may send without end, and
# faster than it takes to look at it.
FREE = 262_144
# Seconds that the event loop takes for all that is ready in it while it is not busy.
_BUSY = 0.002
# How many times as long the answer of one request waits for the others then, and seconds at most.
_SHARE = 16
_LONGEST_PAUSE = 0.25


async def give_way() -> None:
    """Waits the longer, the longer the event loop takes for all that is ready in it."""
    began = time.monotonic()
    await asyncio.sleep(0)
    taken = time.monotonic() - began
    if taken > _BUSY:
        await asyncio.sleep(min(_SHARE * taken, _LONGEST_PAUSE))
