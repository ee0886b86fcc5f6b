"""Large bodies are read beside the event loop, one at a time in each process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from orchestrator.support.safe_json import LARGE

T = TypeVar("T")

# One thread, not a limit for many: a client that goes does not stop the thread that reads its body,
# so the next body has to wait for the thread itself.
_reader = ThreadPoolExecutor(1, thread_name_prefix="orchestrator-bodies")


async def read_body(read: Callable[[bytes], T], body: bytes) -> T:
    """What `read` makes of a body; of a large one in a thread, when those before it are read."""
    if len(body) <= LARGE:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_reader, read, body)
