"""The log of a server's process: what it says on stderr, in one form."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from traceback import format_tb

from orchestrator.server.json_logs import JsonFormatter
from orchestrator.support.logs import FRAMES, get_logger
from orchestrator.support.user_code import is_debugging

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
    _take_errors_of_nobody(opened)
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


def _take_errors_of_nobody(opened: ExitStack) -> None:
    opened.callback(setattr, threading, "excepthook", threading.excepthook)
    threading.excepthook = _log_error_of_thread
    opened.callback(setattr, sys, "unraisablehook", sys.unraisablehook)
    sys.unraisablehook = _log_ignored_error


def _log_error_of_thread(error: threading.ExceptHookArgs) -> None:
    if error.exc_type is not SystemExit and error.exc_value is not None:
        name = error.thread.name if error.thread is not None else ""
        _log_error(f"the thread {name!r} was ended by", error.exc_value)


def _log_ignored_error(error: sys.UnraisableHookArgs) -> None:
    if error.exc_value is not None:
        what, kind = error.err_msg or "an error was ignored in", type(error.object).__name__
        _log_error(f"{what} an object of the class {kind!r}:", error.exc_value)


def _log_error(text: str, error: BaseException) -> None:
    # Its own text may hold what nobody else may read.
    if is_debugging():
        _log.error("%s %s", text, type(error).__name__, exc_info=error)
    else:
        frames = "".join(format_tb(error.__traceback__))
        _log.error("%s %s", text, type(error).__name__, extra={FRAMES: frames})


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
