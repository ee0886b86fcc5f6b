"""Environment variables of one handler, in a process that runs many.

`os.environ` is one mapping for the whole process, and handlers, boto3 and other libraries read it
directly. So it stays the same object, but its class learns to look first into the variables of the
handler that the current context runs. What a handler sets or deletes is its own as well.

Limits: subprocesses, C libraries and threads that a handler starts itself see the process's
variables only (hand them `dict(os.environ)` or `contextvars.copy_context().run`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

__all__ = ["Variables"]

_current: ContextVar[dict[str, str | None] | None] = ContextVar("handler_environment", default=None)


class _Environ(os._Environ[str]):
    """`os.environ` with the current handler's variables on top; `None` stands for deleted."""

    def __getitem__(self, key: str) -> str:
        own = _current.get()
        if own is None or key not in own:
            return super().__getitem__(key)
        value = own[key]
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: str) -> None:
        own = _current.get()
        if own is None:
            super().__setitem__(key, value)
        elif isinstance(key, str) and isinstance(value, str):
            own[key] = value
        else:
            raise TypeError("environment variables and their values are texts")

    def __delitem__(self, key: str) -> None:
        own = _current.get()
        if own is None:
            super().__delitem__(key)
        else:
            self[key]
            own[key] = None

    def __iter__(self) -> Iterator[str]:
        own = _current.get()
        if own is None:
            yield from super().__iter__()
            return
        names = dict.fromkeys(super().__iter__())
        names.update(dict.fromkeys(own))
        yield from (name for name in names if own.get(name, "") is not None)

    def __len__(self) -> int:
        return super().__len__() if _current.get() is None else sum(1 for _ in self)


_lock = Lock()


def _install() -> None:
    with _lock:
        if type(os.environ) is not _Environ:
            os.environ.__class__ = _Environ


class Variables:
    """A handler's own variables, over those of the process."""

    __slots__ = ("_own",)

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._own: dict[str, str | None] = dict(variables)

    @contextmanager
    def active(self) -> Iterator[None]:
        """In this block, and only in this thread or task, they are what `os.environ` shows."""
        _install()
        token = _current.set(self._own)
        try:
            yield
        finally:
            _current.reset(token)
