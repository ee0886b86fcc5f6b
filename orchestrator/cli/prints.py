"""What handlers `print`: it goes to the log, and on demand from there to stderr."""

from __future__ import annotations

import logging

from orchestrator.cli.terminal import Terminal, clean

__all__ = ["hide_prints", "show_prints"]

_LOG = logging.getLogger("orchestrator.handler")


class _Prints(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.INFO)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        text = Text.assemble(("handler: ", "quiet"), clean(record.getMessage()))
        self._terminal.block(text, 4, stderr=True)


def show_prints(terminal: Terminal) -> None:
    """Shows from now on what handlers print."""
    hide_prints()
    _LOG.addHandler(_Prints(terminal))
    _LOG.setLevel(logging.INFO)


def hide_prints() -> None:
    """Shows it no longer."""
    for handler in [it for it in _LOG.handlers if isinstance(it, _Prints)]:
        _LOG.removeHandler(handler)
        _LOG.setLevel(logging.NOTSET)
