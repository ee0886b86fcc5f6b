"""What a process has open when it is forked: a child can use neither its threads nor its locks."""

from __future__ import annotations

import os
import time
import weakref
from threading import Lock
from typing import Protocol

generation = 0
"""Another number in a forked process than in the one that it was forked from."""

_PATIENCE = 30.0  # seconds that a fork waits for those who use what is to be suspended


class Renewable(Protocol):
    """Something that a forked process begins anew."""

    def begin_anew(self) -> None:
        """Forgets what only the process that was forked can use."""


class Suspendable(Protocol):
    """Something that must not be open in a process that is forked."""

    def hold(self) -> bool:
        """Keeps everybody else from using it, if that takes little time; whether it does."""

    def suspend(self) -> None:
        """Closes it, which is held; whoever uses it next opens it."""

    def let_go(self) -> None:
        """Lets others use it: in the process that was forked, and in its child."""

    def leave_to_parent(self) -> None:
        """Begins anew in a child, though its parent used it all the time of the fork."""


def begin_anew_in_child(one: Renewable) -> None:
    """Has an object begin anew in every process that is forked while it is there."""
    _renewable.add(one)


def suspend_at_fork(one: Suspendable) -> None:
    """Has an object suspended whenever a process is forked that has it."""
    with _forking:
        _suspendable.add(one)


def forget(one: Suspendable) -> None:
    """Undoes `suspend_at_fork`, of something that is closed for good."""
    with _forking:
        _suspendable.discard(one)


class ForkSafeLock:
    """A lock that is free in a forked process: the thread that had it may not be there.

    It is for what many threads share and few use; a `Lock` of its own is faster.
    """

    def __init__(self) -> None:
        """Makes it free, here and in every process that is forked from this one."""
        self.begin_anew()
        begin_anew_in_child(self)

    def begin_anew(self) -> None:
        """See `Renewable`."""
        self._lock = Lock()

    def __enter__(self) -> None:
        """Waits until it is free, and takes it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Lets others have it."""
        self._lock.release()


_renewable: weakref.WeakSet[Renewable] = weakref.WeakSet()
_suspendable: weakref.WeakSet[Suspendable] = weakref.WeakSet()
_held: list[Suspendable] = []
_forking = Lock()  # held from before a fork until after it


def _suspend_all() -> None:
    _forking.acquire()
    until = time.monotonic() + _PATIENCE
    while not (is_done := _hold_all()) and time.monotonic() < until:
        pass
    if not is_done:  # the child begins the others anew
        _held.extend(one for one in list(_suspendable) if one.hold())
    for one in _held:
        one.suspend()


def _hold_all() -> bool:
    for one in list(_suspendable):
        if not one.hold():
            _let_all_go()  # whoever has it may wait for another one
            return False
        _held.append(one)
    return True


def _let_all_go() -> None:
    while _held:
        _held.pop().let_go()


def _go_on() -> None:
    _let_all_go()
    _forking.release()


def _go_on_in_child() -> None:
    global generation
    generation += 1
    for one in list(_suspendable):
        if not any(one is held for held in _held):
            one.leave_to_parent()
    _go_on()
    for other in list(_renewable):
        other.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_suspend_all, after_in_parent=_go_on, after_in_child=_go_on_in_child)
