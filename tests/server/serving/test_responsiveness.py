"""While a server runs, its event loop comes before its threads that compute."""

import gc
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from orchestrator.server.responsiveness import responsive

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="a thread has a niceness of its own on Linux only"
)


@pytest.fixture(autouse=True)
def _frozen_again() -> Iterator[None]:
    """Keeps what the tests have loaded from the collector again; `responsive` gives all back."""
    yield
    gc.freeze()


def find_niceness(name: str) -> int:
    found: list[int] = []
    thread = threading.Thread(
        target=lambda: found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())),
        name=name,
    )
    thread.start()
    thread.join()
    return found[0]


def test_threads_that_compute_come_after_the_loop_and_those_of_short_requests() -> None:
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    switch = sys.getswitchinterval()
    with responsive():
        assert find_niceness("orchestrator-action") == min(own + 5, 19)
        assert find_niceness("AnyIO worker thread") == own
        assert sys.getswitchinterval() < switch
    assert find_niceness("orchestrator-action") == own
    assert sys.getswitchinterval() == switch


@pytest.mark.parametrize(("before", "while_served"), [(700, 10_000), (0, 0)])
def test_garbage_is_collected_less_often_and_never_for_who_wants_none(
    before: int, while_served: int
) -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(before, *thresholds[1:])
    try:
        with responsive():
            assert gc.get_threshold()[0] == while_served
        assert gc.get_threshold()[0] == before
    finally:
        gc.set_threshold(*thresholds)
