"""What both kinds of connections need to know of sockets: hang-ups noticed, and forks."""

from __future__ import annotations

import os
import select
import weakref
from typing import Any, Protocol


def is_readable(sock: Any) -> bool:
    """Whether something came over a socket that nobody has read yet, such as its end."""
    if not hasattr(select, "poll"):
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class _Pool(Protocol):
    def close_inherited(self) -> None: ...


# A process that forks would share its connections with its children.
_pools: weakref.WeakSet[_Pool] = weakref.WeakSet()


def close_in_children(pool: _Pool) -> None:
    """Has a pool's `close_inherited` called in every process that this one forks."""
    _pools.add(pool)


def _close_inherited() -> None:
    for pool in _pools:
        pool.close_inherited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
