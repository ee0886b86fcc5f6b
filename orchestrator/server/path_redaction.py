"""Removes the places of files from what callers read; the log has them.

Whatever looks like an absolute path is shortened in the same way, whether there is such a file or
not: what a caller reads depends on the text alone, so that no guess at a path is ever confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import DependencyFailed, LimitExceeded, ModelOutputError
from orchestrator.server.operations import Fault
from orchestrator.server.wire.faults import INTERNAL, as_fault
from orchestrator.support.logs import get_logger
from orchestrator.support.user_code import is_debugging

_log = get_logger("orchestrator.server")

# What begins in the middle of a word, of a URL or of a pointer into a document is no path of a
# file, nor is what follows a verb of HTTP.
_START = r"(?<![\w.:/#~{}*\\-])(?:file://|\\\\\?\\)?(?:[A-Za-z]:[\\/]+|/+)(?=[^\s'\"/])"
_PATH = re.compile(
    r"(?:\b(?:GET|HEAD|OPTIONS|PUT|POST|PATCH|DELETE|TRACE) '?/\S*)"
    rf"|(?<=')(?P<quoted>{_START}[^'\n]+)(?=')"
    rf"|(?P<placed>\A{_START}[^'\"\n:]+)(?=:\d)"  # a folder's name may have spaces
    rf"|(?P<bare>{_START}[^\s'\"<>|:;,()\[\]`]+)"
)
_SEPARATORS = re.compile(r"[\\/]+")

# Not the caller's mistake: whoever runs the server has to see these, and a stream that ends with
# one has the status 200 in the log.
_OPERATORS_ERRORS = (DependencyFailed, LimitExceeded, ModelOutputError)


class PathRedactor:
    """What a server's callers read of its files."""

    def redact(self, text: str) -> str:
        """A text with `\N{HORIZONTAL ELLIPSIS}/name` in the place of each absolute path."""
        return _PATH.sub(_shorten_match, text)

    def as_fault(self, error: BaseException, request_id: str) -> Fault:
        """An error as an exception of the service.

        The log has its message with whole paths, where it has any or is not the caller's mistake;
        with `ORCHESTRATOR_DEBUG` in the environment, the traceback of the latter, too.
        """
        fault = as_fault(error, request_id)
        message = self.redact(fault.message)
        members = {
            name: self.redact(it) if isinstance(it, str) else it
            for name, it in fault.members.items()
        }
        changed = (message, members) != (fault.message, fault.members)
        # The server's own fault is raised as one where a turn is left for the next process.
        own = fault is error and fault.name == INTERNAL
        operators = own or isinstance(error, _OPERATORS_ERRORS)
        if changed or operators:
            exc_info = error if operators and is_debugging() else None
            _log.warning("request %s: %s", request_id, fault.message, exc_info=exc_info)
        return Fault(fault.name, message, **members) if changed else fault

    def redact_trace_part(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """A part of a trace as callers read it."""
        failure = part["trace"].get("failureTrace")
        if not failure:
            return part
        reason = self.redact(failure.get("failureReason", ""))
        return {**part, "trace": {"failureTrace": {**failure, "failureReason": reason}}}


def _shorten_match(found: re.Match[str]) -> str:
    path = found["quoted"] or found["placed"] or found["bare"]
    if path is None:
        return found[0]
    # A sentence may end with it.
    bare = path.rstrip(".?!") if found["bare"] else path
    name = _SEPARATORS.split(bare.rstrip("\\/"))[-1]
    return f"\N{HORIZONTAL ELLIPSIS}/{name}{path[len(bare) :]}"
