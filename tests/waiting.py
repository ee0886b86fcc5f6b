"""Waiting for what another thread or process does: for the event, and never for a time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import monotonic

HANGS = 120.0  # seconds; only what never comes to pass takes so long


def until(is_so: Callable[[], object]) -> None:
    """Returns as soon as something is so."""
    end, tick = monotonic() + HANGS, Event()
    while not is_so():
        assert monotonic() < end, "it did not come to pass"
        tick.wait(0.005)
