"""How many threads a process has for calls that block, and what waits when there are no more."""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial

import pytest
from waiting import until

from orchestrator.support import threads
from orchestrator.support.threads import in_thread

WAIT = 30  # a bound for tests that hang, never a pause


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    """No threads of other tests take a place."""
    monkeypatch.setattr(threads, "_places", {})


def test_no_more_run_than_the_process_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_THREADS", 2)
    lock, pairs = threading.Lock(), threading.Barrier(2)
    running, most = 0, 0

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pairs.wait(WAIT)
        with lock:
            running -= 1

    for future in [in_thread(work) for _ in range(6)]:
        future.result(WAIT)
    assert most == 2


def test_work_that_waits_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_THREADS", 1)
    first, done = threading.Event(), list[int]()
    futures: list[Future[object]] = [in_thread(lambda: first.wait(WAIT))]
    futures += [in_thread(lambda n=n: done.append(n)) for n in range(3)]  # type: ignore[misc]
    assert futures[1].cancel()
    assert not futures[0].cancel()  # it runs
    first.set()
    futures[3].result(WAIT)
    assert done == [1, 2]


def test_work_that_waits_has_its_own_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_THREADS", 1)
    user: ContextVar[str] = ContextVar("user")
    first = threading.Event()
    futures: list[Future[object]] = [in_thread(lambda: first.wait(WAIT))]
    for name in ("ann", "bob"):
        user.set(name)
        futures.append(in_thread(user.get))
    first.set()
    assert [future.result(WAIT) for future in futures[1:]] == ["ann", "bob"]


def test_nested_work_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_THREADS", 1)

    def count(depth: int) -> int:
        return 1 + (in_thread(lambda: count(depth - 1)).result(WAIT) if depth else 0)

    futures = [in_thread(lambda: count(3)) for _ in range(3)]
    assert [future.result(WAIT) for future in futures] == [4, 4, 4]


def test_a_thread_that_cannot_begin_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "MOST_THREADS", 1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            in_thread(int)
    assert in_thread(int).result(WAIT) == 0


def test_an_idle_thread_is_used_again() -> None:
    idents = [in_thread(threading.get_ident).result(WAIT) for _ in range(2)]
    for _ in range(100):  # the first may not be idle yet when the next begins
        idents.append(in_thread(threading.get_ident).result(WAIT))
    assert len(set(idents)) < len(idents)


@pytest.mark.parametrize("before", [0, 1])
def test_an_idle_thread_keeps_nothing_of_what_it_has_done(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MOST_THREADS", 1)
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 600.0)  # it does not end meanwhile
    for _ in range(before):
        in_thread(int).result(WAIT)

    class Large:
        pass

    large = Large()
    kept = weakref.ref(large)
    in_thread(partial(id, large)).result(WAIT)
    del large
    until(lambda: kept() is None)  # it is idle soon after its result is there
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.0)
    in_thread(int).result(WAIT)


def test_an_idle_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.0)
    thread = in_thread(threading.current_thread).result(WAIT)
    thread.join(WAIT)
    assert not thread.is_alive()
    assert in_thread(int).result(WAIT) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    in_thread(int).result(WAIT)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = in_thread(int).result(WAIT)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("idle", [False, True])
def test_what_has_a_thread_has_begun_and_cannot_be_cancelled(idle: bool) -> None:
    if idle:
        in_thread(int).result(WAIT)
    for _ in range(50):
        future = in_thread(int)
        assert not future.cancel()
        future.result(WAIT)


def test_an_event_loop_does_not_wait_for_the_beginning() -> None:
    futures = [in_thread(int, at_once=False) for _ in range(50)]
    assert [future.result(WAIT) for future in futures] == [0] * 50
