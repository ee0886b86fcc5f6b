"""Removes the places of files from what callers read; the log has them.

Whatever looks like an absolute path is shortened in the same way, whether there is such a file or
not: what a caller reads depends on the text alone, so that no guess at a path is ever confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.server.operations import Fault
from orchestrator.server.wire.faults import as_fault
from orchestrator.support.logs import get_logger

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


class PathRedactor:
    """What a server's callers read of its files."""

    def redact(self, text: str) -> str:
        """A text with `\N{HORIZONTAL ELLIPSIS}/name` in the place of each absolute path."""
        return _PATH.sub(_shorten_match, text)

    def as_fault(self, error: BaseException, request_id: str) -> Fault:
        """An error as an exception of the service; the log has its whole paths."""
        fault = as_fault(error, request_id)
        message = self.redact(fault.message)
        members = {
            name: self.redact(it) if isinstance(it, str) else it
            for name, it in fault.members.items()
        }
        if (message, members) == (fault.message, fault.members):
            return fault
        _log.warning("request %s: %s", request_id, fault.message)
        return Fault(fault.name, message, **members)

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
