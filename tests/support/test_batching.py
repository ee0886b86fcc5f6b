"""What threads write at the same time is done together, by one of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from orchestrator.support.batching import Batcher, BatchFailed


class Disk:
    """Writes when it is told to; an item that it knows as a failure raises."""

    def __init__(self, **limits: int) -> None:
        self.batcher: Batcher[str, str] = Batcher(self._write, **limits)
        self.batches: list[list[str]] = []
        self.failures: dict[str, BaseException] = {}
        self._is_free, self._has_begun = Event(), Event()

    def _write(self, items: Sequence[str]) -> list[str]:
        self.batches.append(list(items))
        self._has_begun.set()
        assert self._is_free.wait(60)
        for item in items:
            if item in self.failures:
                raise self.failures[item]
        return [f"{item} is written" for item in items]

    def write(self, item: str, key: str = "", size: int = 1) -> str:
        return self.batcher.do(key or item, item, size)

    @contextmanager
    def busy(self) -> Iterator[Callable[..., Future[str]]]:
        """While it writes `first`: what begins another write, and returns when that one waits."""
        with ThreadPoolExecutor(16) as threads:
            first = threads.submit(self.write, "first")
            assert self._has_begun.wait(60)

            def begin(*arguments: object) -> Future[str]:
                before = self.batcher.waiting
                future = threads.submit(self.write, *arguments)  # type: ignore[arg-type]
                self.wait_for(before + 1)
                return future

            try:
                yield begin
            finally:
                self.release()
            first.result(60)

    def wait_for(self, waiting: int) -> None:
        while self.batcher.waiting != waiting:
            os.sched_yield()

    def release(self) -> None:
        self._is_free.set()


def test_what_comes_meanwhile_goes_together() -> None:
    disk = Disk()
    with disk.busy() as begin:
        others = [begin(name) for name in "abc"]
    assert [it.result() for it in others] == ["a is written", "b is written", "c is written"]
    assert disk.batches == [["first"], ["a", "b", "c"]]
    assert disk.write("later") == "later is written"


def test_a_batch_has_a_key_once_and_no_more_than_its_limits() -> None:
    disk = Disk(most=3, size=10)
    with disk.busy() as begin:
        begin("a", "key")
        begin("b", "key")
        begin("large", "large", 11)
        for name in "cdef":
            begin(name)
    assert disk.batches == [["first"], ["a", "c", "d"], ["b", "e", "f"], ["large"]]


def test_who_fails_in_a_batch_says_it_to_all() -> None:
    disk = Disk()
    disk.failures["b"] = why = OSError("the disk is full")
    with disk.busy() as begin:
        others = [begin(name) for name in "abc"]
    for future in others:
        with pytest.raises(BatchFailed) as failed:
            future.result()
        assert failed.value.__cause__ is why
    with pytest.raises(OSError, match="the disk is full"):
        disk.write("b")
    assert disk.write("a") == "a is written"


def test_who_is_interrupted_while_he_writes_leaves_the_others_their_turn() -> None:
    disk = Disk()
    disk.failures["a"] = KeyboardInterrupt()
    with disk.busy() as begin:
        one, other = begin("a"), begin("b")
    with pytest.raises(KeyboardInterrupt):
        one.result()
    with pytest.raises(BatchFailed):
        other.result()
    assert disk.write("c") == "c is written"


def test_who_is_interrupted_while_he_waits_is_not_written() -> None:
    disk = Disk()

    def interrupt() -> None:
        disk.wait_for(1)
        os.kill(os.getpid(), signal.SIGINT)

    with disk.busy():
        thread = Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            disk.write("a")
        thread.join()
    assert disk.write("b") == "b is written"
    assert disk.batches == [["first"], ["b"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_process_does_not_wait_for_its_parents_writers() -> None:
    disk = Disk()
    with disk.busy():
        child = os.fork()
        if not child:
            disk.release()
            os._exit(disk.write("a") != "a is written")
        assert os.waitpid(child, 0)[1] == 0
    assert disk.batches == [["first"]]
