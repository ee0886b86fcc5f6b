"""What all of our servers ask of uvicorn."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

# Seconds between looks at whether all is answered.
_MOMENT = 0.002


def build_config(app: Any, **options: Any) -> uvicorn.Config:
    """A configuration with which uvicorn writes no logs and adds nothing to requests or answers."""
    return uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **options,
    )


class FastStopServer(uvicorn.Server):
    """Ends when it is asked to, and has answered; uvicorn looks at that every tenth of a second.

    Tests start and end hundreds of servers, and who presses Ctrl-C waits for nothing.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """Asks it to end, from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended, with its loop
                self._loop.call_soon_threadsafe(self._told.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends it on a signal; a second one leaves what is not answered."""
        super().handle_exit(sig, frame)
        self.end()

    async def main_loop(self) -> None:
        """Runs until it is asked to end, or ends by itself, as after so many requests."""
        self._loop = asyncio.get_running_loop()
        if self.should_exit:
            return
        ticking = asyncio.ensure_future(super().main_loop())
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait((ticking, told), return_when=asyncio.FIRST_COMPLETED)
            if ticking.done():
                ticking.result()
        finally:
            for one in (ticking, told):
                one.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no more connections, and waits for what is being answered."""
        for server in (*self.servers, *(sockets or ())):
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while (state.connections or state.tasks) and not self.force_exit:
                    await asyncio.sleep(_MOMENT)
        for task in state.tasks:
            task.cancel()
        await self.lifespan.shutdown()
