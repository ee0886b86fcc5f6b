"""Connections that are kept: whose they are, when they are used again, and when they end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any

import pytest
from loopback import certificate

from orchestrator.support.http import Address, Connections, LoopConnections, ResponseReader, Waits
from orchestrator.support.http import async_connections as module
from orchestrator.support.reply_bounds import ReplyBounds

Handler = Callable[[socket.socket], Any]


@contextmanager
def listening(*handlers: Handler) -> Iterator[int]:
    """A port; each connection to it is handled by the next of `handlers`."""
    threads = []

    def handle(handler: Handler, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            handler(connection)

    def accept() -> None:
        with suppress(OSError):
            for handler in handlers:
                connection, _ = server.accept()
                threads.append(Thread(target=handle, args=(handler, connection), daemon=True))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        acceptor = Thread(target=accept, daemon=True)
        acceptor.start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        for thread in (acceptor, *threads):
            thread.join(60)


def read_head(connection: socket.socket) -> None:
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionError
        got += piece


def answer(connection: socket.socket, body: bytes = b"ok") -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def answering(body: bytes) -> Handler:
    """Answers every request alike until the client hangs up."""

    def handle(connection: socket.socket) -> None:
        while True:
            read_head(connection)
            answer(connection, body)

    return handle


def pools_of(port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Any:
    return LoopConnections(Address(host, port, tls), Waits(20.0, 20.0), 4)


async def ask(pools: Any, body: bytes = b"") -> bytes:
    bounds = ReplyBounds(1_000_000)
    response = await pools.get().send(b"POST / HTTP/1.1\r\n\r\n" + body, bounds, streamed=False)
    return response.content


@pytest.mark.parametrize("last", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"])
def test_a_kept_connection_is_looked_at_although_the_loop_was_busy(last: bytes) -> None:
    answered, spoilt, done = Event(), Event(), Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        answer(connection, b"first")
        answered.wait(60)
        if last:
            connection.sendall(last)
        else:
            connection.shutdown(socket.SHUT_WR)
        spoilt.set()
        done.wait(60)

    async def twice(pools: Any) -> list[bytes]:
        first = await ask(pools)
        answered.set()
        spoilt.wait(60)  # in the way of the event loop, as a computation is
        return [first, await ask(pools)]

    with listening(handle, answering(b"second")) as port:
        assert asyncio.run(twice(pools_of(port))) == [b"first", b"second"]
        done.set()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_a_connection_whose_request_is_not_all_sent_is_not_kept(
    tmp_path: Any, secure: bool
) -> None:
    server_tls, authority = certificate(tmp_path, "localhost")
    tls = ssl.create_default_context(cafile=authority) if secure else None
    done = Event()

    def answer_early(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with over(connection) as stream:
            read_head(stream)
            answer(stream, b"enough")
            done.wait(60)

    def answer_whole(connection: socket.socket) -> None:
        with over(connection) as stream:
            answering(b"second")(stream)

    def over(connection: socket.socket) -> socket.socket:
        return server_tls.wrap_socket(connection, server_side=True) if secure else connection

    async def twice(pools: Any) -> list[bytes]:
        return [await ask(pools, b"x" * 16_000_000), await ask(pools)]

    with listening(answer_early, answer_whole) as port:
        pools = pools_of(port, "localhost" if secure else "127.0.0.1", tls)
        assert asyncio.run(twice(pools)) == [b"enough", b"second"]
        done.set()


def test_a_large_answer_is_read_in_pieces_with_a_round_of_the_loop_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    round_, fed = 0, []

    class Reader(ResponseReader):
        def feed(self, data: bytes) -> bytes:
            fed.append((round_, len(data)))
            return super().feed(data)

    monkeypatch.setattr(module, "ResponseReader", Reader)

    async def count_rounds() -> None:
        nonlocal round_
        while True:
            round_ += 1
            await asyncio.sleep(0)

    async def once(pools: Any) -> bytes:
        counting = asyncio.create_task(count_rounds())
        try:
            return await ask(pools)
        finally:
            counting.cancel()

    with listening(answering(b"x" * 600_000)) as port:
        assert len(asyncio.run(once(pools_of(port)))) == 600_000
    rounds, sizes = zip(*fed, strict=True)
    assert max(sizes) <= 16_384
    assert len(set(rounds)) == len(rounds)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine on Linux only")
def test_the_next_address_is_tried_when_the_first_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve = socket.getaddrinfo

    def find(host: Any, port: Any, *more: Any, **options: Any) -> Any:
        if host != "two.test":
            return resolve(host, port, *more, **options)
        kind = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        return [(*kind, (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    with listening(answering(b"ok")) as port, mute("127.0.0.2", port):
        assert asyncio.run(ask(pools_of(port, "two.test"))) == b"ok"


def test_cancelled_requests_leave_no_connection_open() -> None:
    async def cancel_after(pools: Any, rounds: int) -> None:
        task = asyncio.create_task(ask(pools))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def run(pools: Any) -> None:
        for rounds in range(24):  # wherever it is by then
            await cancel_after(pools, rounds)
        await asyncio.sleep(0)

    with listening(*[answering(b"ok")] * 24) as port, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(run(pools_of(port)))
        gc.collect()
    assert [str(it.message) for it in seen] == []


@contextmanager
def mute(host: str, port: int) -> Iterator[None]:
    """An address where nobody takes connections: as many wait already as may."""
    with socket.create_server((host, port), backlog=0):
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex((host, port))
        yield
        for sock in waiting:
            sock.close()


def test_a_kept_connection_does_not_keep_its_first_requests_context() -> None:
    class Tenant:
        """Something large."""

    variable: ContextVar[Tenant] = ContextVar("tenant")

    async def ask_as_somebody(pools: Any) -> Any:
        tenant = Tenant()
        variable.set(tenant)
        await ask(pools, b"x" * 4_000_000)  # which waits in the transport for the server
        return weakref.ref(tenant)

    async def run(pools: Any) -> None:
        tenant = await asyncio.create_task(ask_as_somebody(pools))
        await asyncio.sleep(0)
        gc.collect()
        assert tenant() is None
        assert await ask(pools) == b"ok"

    def handle(connection: socket.socket) -> None:
        left = 4_000_000 + len(b"POST / HTTP/1.1\r\n\r\n")
        while left:
            left -= len(connection.recv(min(65_536, left)))
        answer(connection)
        answering(b"ok")(connection)

    with listening(handle) as port:
        asyncio.run(run(pools_of(port)))


def noticing(ended: Event) -> Handler:
    def handle(connection: socket.socket) -> None:
        try:
            answering(b"ok")(connection)
        finally:
            ended.set()

    return handle


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_does_not_hold_its_parents_connections() -> None:
    ended = Event()
    reading, writing = os.pipe()

    async def run(pools: Any) -> int:
        assert await ask(pools) == b"ok"
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        assert await ask(pools) == b"ok"  # over the same connection
        return child

    with listening(noticing(ended)) as port:
        child = asyncio.run(run(pools_of(port)))
        try:
            assert ended.wait(20)
        finally:
            os.close(writing)
            os.close(reading)
            os.waitpid(child, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_the_places_of_its_parents_threads() -> None:
    """And none of their connections: the parent's end is the connection's."""
    asked, ended, done = Event(), Event(), Event()

    def hold(connection: socket.socket) -> None:
        read_head(connection)
        asked.set()
        done.wait(60)
        answer(connection)
        connection.settimeout(30)
        if not connection.recv(1):
            ended.set()

    reading, writing = os.pipe()
    with listening(hold, answering(b"child")) as port:
        connections = Connections(Address("127.0.0.1", port, None), Waits(20.0, 20.0), 1)

        def send() -> bytes:
            bounds = ReplyBounds(1_000)
            return connections.send(b"POST / HTTP/1.1\r\n\r\n", bounds, streamed=False).content

        with ThreadPoolExecutor(1) as threads:
            in_parent = threads.submit(send)
            assert asked.wait(60)
            child = os.fork()
            if not child:
                signal.alarm(60)
                os.close(writing)
                status = 0 if send() == b"child" else 1
                os.read(reading, 1)
                os._exit(status)
            os.close(reading)
            done.set()
            assert in_parent.result(60) == b"ok"
        connections.close()
        assert ended.wait(20)
        os.close(writing)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_connections_end_with_a_loop_that_was_only_closed() -> None:
    ended = Event()
    with listening(noticing(ended)) as port:
        pools = pools_of(port)
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(ask(pools)) == b"ok"
        loop.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # asyncio's own, of such a loop
            gc.collect()
        assert ended.wait(20)


def test_many_threads_have_loops_of_their_own_at_once() -> None:
    pools = pools_of(9)

    async def get() -> bool:
        return (await asyncio.sleep(0, pools.get())) is pools.get()

    def run_often(_: int) -> bool:
        return all(asyncio.run(get()) for _ in range(100))

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(run_often, range(16)))
    finally:
        sys.setswitchinterval(switch)
