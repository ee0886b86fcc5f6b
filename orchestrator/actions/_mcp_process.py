"""An MCP server's process, and the lines of JSON that it speaks; for systems with process groups.

The SDK's own transport takes up to seven seconds to end a process, leaves its children when it ends
by itself, leaves all of them when this process is killed, and reads lines of any length. Here a
guard stands between: a process that starts the server in its own group, and ends the group when the
server ends, or when the socket to this process is closed, as the kernel does when this process ends
in any way. On Windows the SDK's transport has a job object for that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

MOST_BYTES = 16 * 1024 * 1024
"""How large one message may be; that is the size of a result with a few images."""

_POLL = 0.01
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_GUARD = """
import _thread, os, select, signal, sys
socket, parent, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
os.set_inheritable(socket, False)
signal.signal(signal.SIGTERM, lambda *_: None)
server = os.fork()
if not server:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # it may leave the group: PR_SET_PDEATHSIG ends it with the guard
        try:
            import ctypes
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        except (ImportError, AttributeError, OSError):
            pass
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(socket, str(error.errno).encode())
    os._exit(1)
nothing = os.open(os.devnull, os.O_RDWR)
for stream in range(3):
    os.dup2(nothing, stream)
def watch():
    while not select.select([socket], [], [], 2.0)[0] and os.getppid() == parent:
        pass
    os.killpg(0, signal.SIGKILL)
_thread.start_new_thread(watch, ())
os.waitpid(server, 0)
os.killpg(0, signal.SIGKILL)
"""


class ServerProcess:
    """A running server."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | Path | None,
        errors: Any,
    ) -> ServerProcess:
        """Starts it; raises `OSError` when the guard cannot be started."""
        control, theirs = socket.socketpair()
        # A program without an interpreter of its own ends its servers as long as it can.
        guarded = sys.executable and not getattr(sys, "frozen", False)
        guard = [sys.executable, "-I", "-S", "-c", _GUARD, str(theirs.fileno()), str(os.getpid())]
        try:
            process = await asyncio.create_subprocess_exec(
                *(guard if guarded else []),
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=get_default_environment() | dict(environment),
                cwd=folder,
                start_new_session=True,
                pass_fds=[theirs.fileno()] if guarded else [],
                limit=MOST_BYTES,
            )
        except BaseException:
            control.close()
            raise
        finally:
            theirs.close()
        control.setblocking(False)
        return cls(process, control)

    def find_start_error(self) -> OSError | None:
        """Why the command could not be started, once the process has ended."""
        with suppress(OSError, ValueError):
            number = int(self._control.recv(16))
            return OSError(number, os.strerror(number))
        return None

    def close(self) -> None:
        """Gives the socket back, which ends the guard if it has not ended."""
        self._control.close()

    def kill(self) -> None:
        """Ends the process and all of its group at once, without a word."""
        if self._process.returncode is None:
            self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def end(self, seconds: float) -> None:
        """Ends it as MCP says: closes its input, then asks it to end, then ends it by force."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            if seconds > 0 and not await self._ends_within(seconds / 2):
                self._signal_group(signal.SIGTERM)
                await self._ends_within(seconds / 2)
        finally:
            self.kill()
        await self._ends_within(1.0)
        # A child that has left the group may hold the pipes.
        transport: Any = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    # Not `wait`, which waits for the ends of the pipes too.
    async def _ends_within(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._process.returncode is None and loop.time() < until:
            await asyncio.sleep(_POLL)
        return self._process.returncode is not None

    @asynccontextmanager
    async def speak(self, grace: Callable[[], float]) -> AsyncIterator[Any]:
        """The streams of the SDK's client; in the end, the process has `grace()` seconds."""
        read_to, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, write_from = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, read_to)
            tasks.start_soon(self._write, write_from, read_to)
            try:
                yield read, write
            finally:
                read.close()
                write.close()
                with anyio.CancelScope(shield=True):
                    await self.end(grace())
                tasks.cancel_scope.cancel()

    async def _read(self, to: Any) -> None:
        assert self._process.stdout is not None
        async with to:
            # A line that is too long is a `ValueError`, and the end of the connection.
            with suppress(OSError, ValueError, *_CLOSED):
                while line := await self._process.stdout.readline():
                    await to.send(_parse_line(line))

    async def _write(self, messages: Any, read_to: Any) -> None:
        assert self._process.stdin is not None
        try:
            async with messages:
                async for it in messages:
                    text = it.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._process.stdin.write(text.encode() + b"\n")
                    await self._process.stdin.drain()
        except (OSError, *_CLOSED):
            await read_to.aclose()  # whoever waits for an answer learns that none will come


def _parse_line(line: bytes) -> SessionMessage | Exception:
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error
