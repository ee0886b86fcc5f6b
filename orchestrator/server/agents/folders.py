"""Agents that are defined on disk: found, watched and built."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from threading import Lock, RLock
from typing import Any, NamedTuple

from orchestrator.agent.agent import Agent
from orchestrator.definition import AgentDefinition, load_definition
from orchestrator.definition.files import FILE_NAMES, locate_folder
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import DefinitionError, OrchestratorError, ResourceNotFound
from orchestrator.server.agents.build import AgentResources, build_folder_agent
from orchestrator.server.document_store import digest
from orchestrator.server.ids import TEST_ALIAS, derive_id
from orchestrator.server.operations import Fault
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")

_SECONDS = 1.0
"""How old what is known of the folders may be, unless an agent is invoked or prepared."""

# Bounds the look at a folder that holds more than an agent.
_MOST_FILES = 20_000
# Files and folders that are looked at within the event loop: a microsecond or two each.
_MOST_LOOKS = 64
# File systems count time in ticks, some of two seconds: what changes a folder twice within one may
# show only once.
_TICK_NS = 2_000_000_000
_PASSED_OVER = frozenset(("__pycache__", "node_modules"))


class FolderAgent:
    """One agent in a folder, as it was when its files were looked at. Safe for many threads.

    Attributes:
        skipped: The folders of its knowledge bases, whose files do not count.
        mark: Changes with any of its files.
        changed: When a file of it was changed last.
        definition: What its `agent.yaml` says, unless that is wrong.
        aliases: The names of its aliases by their ids, without that of `DRAFT`.
        inner: The agents that it leads and that are in folders of it.
        team: The ARNs of the aliases that it leads, or that agents in folders of it lead.
    """

    def __init__(
        self,
        resources: AgentResources,
        fingerprint: Fingerprint,
        folder: Path,
        seen: list[_File],
        level: int = 1,
        inside: list[_File] | None = None,
    ) -> None:
        """Reads its definition; nothing of its code is run.

        `seen` are its files, `inside` the folders that they are in, if those are told apart from
        what becomes of them later.
        """
        self.resources = resources
        self._fingerprint = fingerprint
        self.folder = folder
        self.definition: AgentDefinition | None = None
        self._wrong: OrchestratorError | None = None
        self._agent: Agent | None = None
        self._team_marks: list[Any] = []
        self._lock = RLock()
        try:
            self.definition = load_definition(folder)
        except (OrchestratorError, OSError) as error:
            self._wrong = _to_orchestrator_error(error, self.file)
            _log.warning("the agent in %s is wrong: %s", folder, self._wrong.message)
        self.name, self.agent_id = self._read_identity()
        self.aliases: Mapping[str, str] = {
            it.agent_alias_id: it.agent_alias_name
            for it in (self.definition.aliases if self.definition else ())
        }
        self.inner: list[FolderAgent] = [
            FolderAgent(
                resources, fingerprint, it, [one for one in seen if one.is_in(it)], level + 1
            )
            for it in _inner_folders(self.definition, level)
        ]
        self.team: list[str] = [
            *_list_collaborator_arns(self.definition),
            *(arn for it in self.inner for arn in it.team),
        ]
        # Searches see themselves when the documents of knowledge bases have changed.
        bases = self.definition.knowledge_bases if self.definition else ()
        self.skipped: frozenset[str] = frozenset(
            str(folder / it.folder) for it in bases if it.folder
        ).union(*(it.skipped for it in self.inner))
        self._schemas: list[Path] = [
            *_list_schemas(self.definition, resources.settings.buckets),
            *(path for it in self.inner for path in it._schemas),
        ]
        own = [it for it in seen if not any(map(it.is_in, self.skipped))]
        own += self.look_at_schemas()
        self.files: list[_File] | None = own
        self.set_inside(inside)
        self.mark = digest([list(it) for it in own])
        self.changed = datetime.fromtimestamp(max([it.time for it in own], default=0) / 1e9, UTC)

    @property
    def file(self) -> Path:
        """The file that defines it."""
        found = (self.folder / name for name in FILE_NAMES)
        return next((it for it in found if it.is_file()), self.folder / FILE_NAMES[0])

    def _read_identity(self) -> tuple[str, str]:
        if self.definition is None:
            return self.folder.name, derive_id(self.folder.name)
        name = self.definition.agent_name
        return name, self.definition.agent_id or derive_id(name)

    def look_at_schemas(self) -> list[_File]:
        """The API schemas that it has in folders that stand for buckets, as they are now."""
        return [it for it in map(_look_at, self._schemas) if it is not None]

    def set_inside(self, folders: list[_File] | None) -> None:
        """Sets the folders that its files are in, as they were before they were listed."""
        self._inside = folders and [it for it in folders if not any(map(it.is_in, self.skipped))]

    def is_unchanged(self) -> bool:
        """Whether no file of it was changed, added or taken away; if that takes long, no."""
        if self.files is None or self._inside is None:
            return False
        # A folder changes when a file is added to it or taken away.
        looks = [*self._inside, *self.files]
        return len(looks) <= _MOST_LOOKS and all(_look_at(it.path) == it for it in looks)

    def keep_identity(self, before: FolderAgent | None) -> FolderAgent:
        """Itself, under the id that it had before, if its file does not name one any more."""
        if before is not None and self.definition is None:
            self.name, self.agent_id = before.name, before.agent_id
            self.aliases = before.aliases
        return self

    def agent(self) -> Agent:
        """The agent, compiled when it is asked for first, and when whom it leads has changed.

        Raises:
            OrchestratorError: It is wrong, with file, line and column.
        """
        if self._wrong is not None:
            raise self._wrong.with_traceback(None)
        # Before the lock: agents that lead each other in a circle would wait for each other.
        team = self._fingerprint(self) if self.team else []
        with self._lock:
            if self._agent is None or self._team_marks != team:
                self._agent, self._team_marks = self._load(), team
            return self._agent

    def get_cached(self) -> Agent | None:
        """The agent, if it is compiled and nothing has to be looked at; takes no time."""
        return None if self.team or self._wrong is not None else self._agent

    def _load(self) -> Agent:
        try:
            return build_folder_agent(self.resources, self.folder)
        except (OrchestratorError, OSError, Fault) as error:
            wrong = _to_orchestrator_error(error, self.file)
            # With a team it may be right again when the agents of the team are.
            if not self.team:
                self._wrong = wrong
                _log.warning("the agent in %s is wrong: %s", self.folder, wrong.message)
            raise wrong from error

    def refuse(self, error: OrchestratorError) -> None:
        """Has it be wrong, under an id of its own, until the files are looked at again."""
        self._wrong, self.files, self.mark = error, None, ""
        self.agent_id = derive_id(str(self.folder))

    def has_alias(self, alias_id: str) -> bool:
        """Whether it is known by an alias; each means the agent as its files are now."""
        return alias_id == TEST_ALIAS or alias_id in self.aliases

    def failure(self) -> str:
        """What is wrong with it, as callers read it; empty when nothing is."""
        return self.resources.redactor.redact(self.reason())

    def reason(self) -> str:
        """What is wrong with it, as whoever runs the server reads it: with the paths of files."""
        try:
            self.agent()
        except OrchestratorError as error:
            return error.message
        return ""

    def close(self) -> None:
        """Ends what the agent has begun."""
        with self._lock:
            if self._agent is not None:
                self._agent.close()


Fingerprint = Callable[[FolderAgent], list[Any]]


class Folders:
    """The agents of `settings.agents`, read again when their files have changed."""

    def __init__(
        self,
        resources: AgentResources,
        fingerprint: Fingerprint,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Finds them.

        Raises:
            ResourceNotFound: The folder is not there, or has no agent.
            DefinitionError: Two define an agent of the same id or name.
        """
        self._resources, self._fingerprint = resources, fingerprint
        self._root = resources.settings.agents
        self._clock = clock
        self._lock = Lock()
        self._found: dict[Path, FolderAgent] = {}
        self._added: dict[str, FolderAgent] = {}
        self._looked = float("-inf")
        self._refused: set[str] = set()
        self._by_id: dict[str, FolderAgent] = {}
        self._root_seen: _File | None = None
        if self._root is None:
            return
        if not self._root.is_dir():
            raise ResourceNotFound(f"there is no folder {str(self._root)!r} of agents")
        self._found = dict(self._scan(self._root))
        if not self._found:
            raise ResourceNotFound(
                f"there is no agent in {str(self._root)!r}: give the folder of one, with an "
                f"{FILE_NAMES[0]}, or a folder of such folders"
            )
        for _, error in _find_duplicates(list(self._found.values())):
            raise error
        self._by_id = {it.agent_id: it for it in self._found.values()}

    def all(self) -> list[FolderAgent]:
        """The agents, by their folders' names."""
        if self._root is None:
            return list(self._added.values())
        with self._lock:
            if self._clock() - self._looked >= _SECONDS:
                self._refresh(self._root)
            return [*self._added.values(), *self._found.values()]

    def refresh(self, anew: str = "") -> None:
        """Looks at the files now; the agent `anew` is read even if its files are the same."""
        # Its collaborators and knowledge bases may have changed.
        if self._root is not None:
            with self._lock:
                self._refresh(self._root, anew)

    def _refresh(self, root: Path, anew: str = "") -> None:
        self._found = dict(self._scan(root, anew))
        self._refuse_duplicates()
        self._looked = self._clock()
        self._by_id = {it.agent_id: it for it in self._found.values()}

    def add(self, one: FolderAgent) -> None:
        """Adds an agent from another folder, whose files are not looked at again.

        It takes the place of one with its id that was added before.
        """
        self._added = {**self._added, one.agent_id: one}

    def _refuse_duplicates(self) -> None:
        refused = list(_find_duplicates(list(self._found.values())))
        for one, error in refused:
            one.refuse(error)
            if error.message not in self._refused:
                _log.warning("%s", error.message)
        self._refused = {error.message for _, error in refused}

    def get_unchanged(self, agent_id: str) -> FolderAgent | None:
        """The agent with an id, if it is known without a thread that it is as it was found."""
        added = self._added.get(agent_id)
        found = self._by_id.get(agent_id) if added is None else None
        if found is None or self._root is None:
            return added
        # The folder of all agents changes when one is added to it or taken away.
        same = _look_at(self._root) == self._root_seen and found.is_unchanged()
        return found if same else None

    def find(self, agent_id: str) -> FolderAgent | None:
        """The agent with an id, also one that only another one of the folders leads."""
        found = self.all()
        while found:
            for one in found:
                if one.agent_id == agent_id:
                    return one
            found = [inner for one in found for inner in one.inner]
        return None

    def knows(self, agent_id: str) -> bool:
        """Whether an agent had this id when the files were looked at last; takes no time."""
        return agent_id in self._by_id

    def has_name(self, name: str) -> bool:
        """Whether one of them has this name."""
        return any(it.name == name for it in self.all())

    def close(self) -> None:
        """Closes the agents."""
        for one in (*self._added.values(), *self._found.values()):
            one.close()

    def _scan(self, root: Path, anew: str = "") -> Iterator[tuple[Path, FolderAgent]]:
        self._root_seen = _look_at(root)
        for folder in _agent_folders(root.resolve()):
            before = self._found.get(folder)
            seen, inside = _scan_files(folder, before.skipped if before else frozenset())
            schemas = before.look_at_schemas() if before else []
            if before and before.files == [*seen, *schemas] and before.agent_id != anew:
                before.set_inside(inside)
                yield folder, before
            else:
                found = FolderAgent(self._resources, self._fingerprint, folder, seen, inside=inside)
                yield folder, found.keep_identity(before)


def _agent_folders(root: Path) -> list[Path]:
    if _has_definition(root):
        return [root]
    try:
        inside = sorted(it for it in root.iterdir() if not it.name.startswith("."))
    except OSError:  # it was taken away while the server runs
        return []
    return [it for it in inside if it.is_dir() and _has_definition(it)]


def _has_definition(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FILE_NAMES)


def _inner_folders(definition: AgentDefinition | None, level: int) -> Iterator[Path]:
    for member in definition.agent_collaborators if definition else ():
        where = member.agent_descriptor
        if definition and where and where.folder is not None and level < MOST_LEVELS:
            # The error is raised when the agent is compiled.
            with suppress(DefinitionError):
                yield locate_folder(definition, where.folder, ("agentCollaborators",))


def _list_collaborator_arns(definition: AgentDefinition | None) -> Iterator[str]:
    for member in definition.agent_collaborators if definition else ():
        where = member.agent_descriptor
        if where is not None and where.alias_arn is not None:
            yield where.alias_arn


def _list_schemas(
    definition: AgentDefinition | None, buckets: Mapping[str, Path]
) -> Iterator[Path]:
    for group in definition.action_groups if definition else ():
        place = group.api_schema.s3 if group.api_schema else None
        folder = buckets.get(place.s3_bucket_name or "") if place else None
        key = PurePosixPath((place and place.s3_object_key) or "")
        if folder is not None and ".." not in key.parts and not key.is_absolute():
            yield folder / key


class _File(NamedTuple):
    # A file as it was when it was looked at.
    path: str
    time: int
    size: int
    inode: int

    def is_in(self, folder: str | Path) -> bool:
        return Path(self.path).is_relative_to(folder)


def _scan_files(folder: Path, skipped: frozenset[str]) -> tuple[list[_File], list[_File] | None]:
    """The files of an agent, and the folders that they are in.

    There are no folders when one has just changed: it may look the same after the next change.
    """
    settled = time.time_ns() - _TICK_NS
    left = _MOST_FILES
    seen: list[_File] = []
    # Looked at before they are listed, so that what is added to them meanwhile counts as a change.
    inside = [_look_at(folder)]
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            it
            for it in folders
            if not it.startswith(".")
            and it not in _PASSED_OVER
            and os.path.join(where, it) not in skipped
        )
        inside += [_look_at(os.path.join(where, name)) for name in folders]
        for name in sorted(files)[:left]:
            left -= 1
            file = _look_at(os.path.join(where, name))
            if file is not None:
                seen.append(file)
    known = [it for it in inside if it is not None and it.time < settled]
    return seen, known if len(known) == len(inside) else None


def _look_at(path: str | Path) -> _File | None:
    try:
        state = os.stat(path)
    except OSError:  # it is not there, or was taken away in between
        return None
    return _File(str(path), state.st_mtime_ns, state.st_size, state.st_ino)


def _find_duplicates(found: list[FolderAgent]) -> Iterator[tuple[FolderAgent, DefinitionError]]:
    """The agents whose id or name another one has already, and what to say of them."""
    ids: dict[str, FolderAgent] = {}
    names: dict[str, FolderAgent] = {}
    for one in found:
        for other, noun, value, way in (
            (ids.setdefault(one.agent_id, one), "id", one.agent_id, "give one another agentId"),
            (names.setdefault(one.name, one), "name", one.name, "rename one"),
        ):
            if other is not one:
                text = f"there is a second agent with the {noun} {value!r} in {str(other.folder)!r}"
                yield one, DefinitionError(f"{text}; {way}", file=one.file)
                break


def _to_orchestrator_error(error: BaseException, file: Path) -> OrchestratorError:
    if isinstance(error, OrchestratorError):
        return error
    if isinstance(error, Fault):
        return DefinitionError(error.message, file=file)
    return DefinitionError(f"its files cannot be read: {error}", file=file)
