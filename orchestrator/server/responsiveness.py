"""What has a worker process answer soon, whatever its threads compute."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SWITCH_SECONDS = 0.0005
# After which the garbage collector looks at them: turns that run at once have some hundred each,
# and with Python's 700 it would look at all of them every few milliseconds.
_YOUNG_OBJECTS = 10_000
_NICENESS = 5  # with 10 the interpreter's lock was kept too long by threads that had no processor
_HANDLERS = "AnyIO"  # the threads of short requests are called so


@contextmanager
def responsive() -> Iterator[None]:
    """Has neither the garbage collector nor threads that compute hold up the event loop.

    To look at all that a process has until its end stops every turn for a tenth of a second. A
    thread that computes gives the interpreter's lock away after five milliseconds, and the loop
    needs it several times for one answer. On a machine whose processors are all busy, the loop
    waits for a processor longer than it computes, unless it comes before those threads.
    """
    switch, thresholds = sys.getswitchinterval(), gc.get_threshold()
    gc.collect()
    gc.freeze()
    if thresholds[0]:  # 0 is for who has no garbage collected
        gc.set_threshold(_YOUNG_OBJECTS, *thresholds[1:])
    sys.setswitchinterval(_SWITCH_SECONDS)
    if sys.platform == "linux":  # elsewhere a thread has no niceness of its own
        threading.setprofile(_give_way)
    try:
        yield
    finally:
        threading.setprofile(None)
        sys.setswitchinterval(switch)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _give_way(frame: FrameType, event: str, argument: object) -> None:
    """Has a new thread come after the event loop; each thread calls it once, as it begins."""
    sys.setprofile(None)
    if not threading.current_thread().name.startswith(_HANDLERS):
        thread = threading.get_native_id()
        base = os.getpriority(os.PRIO_PROCESS, os.getpid())  # a thread inherits its maker's
        os.setpriority(os.PRIO_PROCESS, thread, base + _NICENESS)
