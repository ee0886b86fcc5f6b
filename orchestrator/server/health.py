"""Whether the process answers (`/livez`), and whether it can serve (`/readyz`).

Both are asked every few seconds by whoever runs the server, without a key. So they say no more than
what is wrong, in words that are fixed here: what an error says of paths, addresses and credentials
is in the log alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.errors import OrchestratorError
from orchestrator.models import file_of_model
from orchestrator.models.weights import is_available
from orchestrator.support.logs import get_logger
from orchestrator.support.threads import in_thread

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_log = get_logger("orchestrator.server")

# Of what no session, document or memory is called: to look for it reads from the store.
_NOTHING = "readiness"
_OK = "ok"
_ROOM = 1 << 18  # bytes that there must be on a disk: more than most records of a journal have

Check = Callable[[], object]
"""Looks at one thing, and may block; raises what is wrong with it."""


class Missing(Exception):
    """Something is not there. Others may read `reason`; the log has the details, too."""

    def __init__(self, reason: str, details: str) -> None:
        super().__init__(details)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Report:
    """What `/readyz` answers."""

    is_ready: bool
    checks: Mapping[str, str]  # by the name of each check `ok`, or what is wrong

    def to_json(self) -> bytes:
        """The body of the answer."""
        status = "ready" if self.is_ready else "not ready"
        return json.dumps({"status": status, "checks": dict(self.checks)}).encode()


class Readiness:
    """Whether what a server needs is there; used in its event loop alone.

    The checks run side by side, each for `seconds` at most, and once in `fresh` seconds, however
    often somebody asks. One that does not end is not begun a second time.
    """

    def __init__(
        self, checks: Mapping[str, Check], *, seconds: float = 2.0, fresh: float = 3.0
    ) -> None:
        self._checks = checks
        self._seconds = seconds
        self._fresh = fresh
        self._running: dict[str, Future[_Outcome]] = {}
        self._checking: asyncio.Task[Report] | None = None
        self._known: Report | None = None
        self._until = 0.0

    async def report(self) -> Report:
        """What there is now, or was a moment ago."""
        if self._known is not None and time.monotonic() < self._until:
            return self._known
        if self._checking is None:
            self._checking = asyncio.create_task(self._look())
        # Whoever asks may go; the others that ask still wait for the same answer.
        return await asyncio.shield(self._checking)

    async def _look(self) -> Report:
        try:
            for name, check in self._checks.items():
                if name not in self._running:
                    self._running[name] = in_thread(partial(_carry_out, check), at_once=False)
            futures = {name: asyncio.wrap_future(it) for name, it in self._running.items()}
            # What is waited for no longer goes on in its thread: it is asked again the next time.
            await asyncio.wait(futures.values(), timeout=self._seconds)
            found = {name: self._take(name) for name in futures}
        finally:
            self._checking = None
        results = {name: one.reason for name, one in found.items()}
        before, self._known = self._known, Report(set(results.values()) <= {_OK}, results)
        self._until = time.monotonic() + self._fresh
        _log_changes(before, self._known, found)
        return self._known

    def _take(self, name: str) -> _Outcome:
        future = self._running[name]
        if not future.done():
            return _Outcome(f"no answer within {self._seconds:g} seconds")
        del self._running[name]
        return future.result()


class _Outcome(NamedTuple):
    reason: str  # `ok`, or what others may read of what is wrong
    details: str = ""


def _carry_out(check: Check) -> _Outcome:
    try:
        check()
    except Missing as error:
        return _Outcome(error.reason, str(error))
    except Exception as error:
        kind = type(error).__name__
        details = error.message if isinstance(error, OrchestratorError) else kind
        return _Outcome(f"failed ({kind})", details)
    return _Outcome(_OK)


def _log_changes(before: Report | None, now: Report, found: Mapping[str, _Outcome]) -> None:
    if now.is_ready:
        if before is not None and not before.is_ready:
            _log.info("the server is ready again")
    elif before is None or before.is_ready:
        wrong = {name: one for name, one in found.items() if one.reason != _OK}
        details = [f"{name}: {one.details or one.reason}" for name, one in wrong.items()]
        _log.warning("the server is not ready: %s", "; ".join(details))


def build_checks(state: ServerState) -> dict[str, Check]:
    """The checks of a server: of its stores, the weights of its models, and agents in folders."""
    file, data = state.settings.state_file, state.settings.data
    folders = [] if file is None or str(file) == ":memory:" else [file.absolute().parent]
    folders += [] if data is None else [data.absolute()]
    return {
        **({"disk": partial(_check_disk, folders)} if folders else {}),
        "sessions": lambda: state.sessions.store.load(_NOTHING),
        "documents": lambda: state.documents.get("", _NOTHING, _NOTHING),
        "memory": lambda: state.memory.find_unsummarised(_NOTHING, 0),
        "models": lambda: _check_models(state),
        "agents": lambda: _check_agents(state),
    }


# Where nothing can be written, all that is stored can be read. A file without a name needs room, as
# a journal does, and goes with its process.
def _check_disk(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            with TemporaryFile(dir=folder) as file:
                file.write(bytes(_ROOM))
        except OSError as error:
            reason = f"nothing can be written ({error.strerror})"
            raise Missing(reason, f"{reason} to {str(folder)!r}") from error


def _check_agents(state: ServerState) -> None:
    # One that is right is enough: what is wrong with another one takes nothing from it.
    if state.settings.agents is None:
        return
    first = ""
    agents = state.agents.folders.all()
    for one in agents:
        wrong = one.reason()
        if not wrong:
            return
        first = first or f"; of {one.name!r}: {wrong}"
    reason = f"of {len(agents)} agents none can be used"
    raise Missing(reason, reason + first)


def _check_models(state: ServerState) -> None:
    missing = [spec for spec, folder in _list_model_specs(state) if not _is_here(spec, folder)]
    if missing:
        many = f"{len(missing)} models are" if len(missing) > 1 else "1 model is"
        raise Missing(
            f"what {many} made of is not on this machine",
            f"the weights or files of {', '.join(missing)} are not on this machine",
        )


def _is_here(spec: str, folder: Path) -> bool:
    file = file_of_model(spec, folder=folder)
    if file:
        return (folder / file).is_file()
    scheme, _, name = spec.strip().partition(":")
    return scheme != "local" or is_available(name)


def _list_model_specs(state: ServerState) -> list[tuple[str, Path]]:
    """The models that the operator has set, and those that agents in folders name besides.

    Each has the folder that its file is relative to.
    """
    settings = state.settings
    specs = {(spec, Path()) for spec in settings.models.values()}
    if settings.model:
        return [*specs, (settings.model, Path())]
    for one in state.agents.folders.all():
        definition = one.definition
        named = definition.foundation_model if definition is not None else None
        if named and not state.models.is_mapped(named):
            specs.add((named, one.folder))
    return sorted(specs)
