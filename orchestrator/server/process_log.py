"""The log of a server's process: what it says on stderr, in one form."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from orchestrator.server.json_logs import JsonFormatter
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")


def log_requests(log_format: str = "text") -> Callable[[], None]:
    """Logs requests and what goes wrong on stderr, until the returned function is called.

    `log_format` is `text`, or `json` for an object a line. Records of other loggers that no handler
    takes, Python's warnings and errors that end a thread are in the same log.
    """
    opened = ExitStack()
    _log_own_records(opened, log_format)
    _take_records_of_others(opened)
    _take_warnings(opened)
    _take_errors_of_threads(opened)
    return opened.close


def _log_own_records(opened: ExitStack, log_format: str) -> None:
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(message)s")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    _add_handler(opened, _log, handler)
    _log.setLevel(logging.INFO)
    opened.callback(setattr, _log, "propagate", _log.propagate)
    _log.propagate = False


def _take_records_of_others(opened: ExitStack) -> None:
    # uvicorn's logger of connections and failures, of requests and of what is no request.
    _add_handler(opened, logging.getLogger("uvicorn.error"), _ForwardingHandler())
    # The rest of this program, whose warnings the command line writes as notes elsewhere.
    package, warnings = get_logger("orchestrator"), _ForwardingHandler(logging.WARNING)
    opened.callback(setattr, package, "handlers", package.handlers)
    package.handlers = [warnings]
    # What no handler takes: records of the event loop, of a database's driver, of an exporter.
    opened.callback(setattr, logging, "lastResort", logging.lastResort)
    logging.lastResort = warnings


def _take_warnings(opened: ExitStack) -> None:
    _add_handler(opened, logging.getLogger("py.warnings"), _ForwardingHandler())
    opened.callback(logging.captureWarnings, False)
    logging.captureWarnings(True)


def _take_errors_of_threads(opened: ExitStack) -> None:
    opened.callback(setattr, threading, "excepthook", threading.excepthook)
    threading.excepthook = _log_error_of_thread


def _log_error_of_thread(error: threading.ExceptHookArgs) -> None:
    if error.exc_type is SystemExit or error.exc_value is None:
        return
    name = error.thread.name if error.thread is not None else ""
    info = (error.exc_type, error.exc_value, error.exc_traceback)
    _log.error("the thread %r was ended by an error", name, exc_info=info)


def _add_handler(opened: ExitStack, logger: logging.Logger, handler: logging.Handler) -> None:
    logger.addHandler(handler)
    opened.callback(logger.removeHandler, handler)


class _ForwardingHandler(logging.Handler):
    """Has other loggers' records in the server's own log.

    Without a handler Python writes them to stderr as they are: without a time, over many lines, and
    no JSON where the log is JSON.
    """

    def emit(self, record: logging.LogRecord) -> None:
        _log.handle(record)
