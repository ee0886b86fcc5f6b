"""Removes the places of a server's files from what callers read; the log has them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.server.operations import Fault
from orchestrator.server.settings import Settings
from orchestrator.server.wire.faults import as_fault
from orchestrator.support.content_root import content_root

_log = logging.getLogger("orchestrator.server")


class PathRedactor:
    """The folders that a server's settings name, and those that it has anyway."""

    def __init__(self, settings: Settings) -> None:
        found = {
            str(form) for it in _list_folders(settings) for form in (it.absolute(), it.resolve())
        }
        names = "|".join(re.escape(it) for it in sorted(found, key=len, reverse=True) if it != "/")
        self._pattern = re.compile(rf"(?<![\w.-])(?:{names})(?:/+|(?![\w-]|\.\w))")

    def redact(self, text: str) -> str:
        """A text whose paths begin at the server's folders."""
        return self._pattern.sub(_shorten_match, text)

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
    folder = found[0]
    return "" if folder.endswith("/") else folder.rpartition("/")[2]


def _list_folders(settings: Settings) -> Iterator[Path]:
    from orchestrator.models.weights import folder

    if settings.agents is not None:
        yield settings.agents
    yield from settings.buckets.values()
    files = [settings.state, settings.keys]
    files += [Path(spec) for spec in settings.lambdas.values()]
    specs = [settings.model or "", *settings.models.values()]
    files += [Path(path) for spec in specs if "/" in (path := spec.partition(":")[2])]
    yield from (file.parent for file in files if file is not None)
    yield content_root()
    yield folder()
    # There may be no current folder.
    with suppress(OSError, RuntimeError):
        yield Path.cwd()
    with suppress(RuntimeError):
        yield Path.home()
