"""The agents of a workbench: folders, whose agents are read again when their files change."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from orchestrator.definition import load_definition
from orchestrator.definition.files import FILE_NAMES
from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.models.prices import Price
from orchestrator.server.workbench.jobs import Jobs
from orchestrator.sessions import Sessions, SessionStore

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.models import Model
    from orchestrator.server.workbench.remote.server import RemoteServer

_MOST_FILES = 2_000  # of a folder that are looked at for changes
# Code and schemas; other files count where a definition names them, or in a folder of templates.
_READ = (".py", ".yaml", ".yml")
_TEMPLATES = "templates"
_IMPORTED = "imported"  # the folder of new agents in that of an agent which was given alone
DATA_FOLDER = ".orchestrator"
"""The hidden folder in an agent's own for what is kept of its sessions and evaluations."""

_SKIPPED = (".git", DATA_FOLDER, ".venv", "node_modules", "__pycache__")


@dataclass(slots=True)
class _Loaded:
    agent: Agent
    users: int = 0


class Project(ABC):
    """An agent of a workbench.

    Attributes:
        key: Its name in addresses.
        name: The agent's name.
        instruction: What it is for.
        sessions: Its sessions, which other agents may share.
        model: A model instead of the agent's own.
        has_folder: Whether it is in a folder; otherwise `folder` is an error.
    """

    key: str
    name: str
    instruction: str
    sessions: Sessions
    model: str | Model | None
    has_folder = True

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder that it is in."""

    @abstractmethod
    def agent(self) -> Agent:
        """The agent as it is now, to look at."""

    @abstractmethod
    def use(self) -> AbstractContextManager[Agent]:
        """The agent as it is now, which stays open as long as the `with` block runs."""

    def list_stand_ins(self) -> list[str]:
        """The options of a server that replace parts of its agents; none elsewhere."""
        return []

    def reason(self) -> str:
        """What is wrong with it; empty when nothing is."""
        try:
            self.agent()
        except OrchestratorError as error:
            return error.message
        return ""

    def refresh(self) -> None:  # noqa: B027
        """Takes its name and instruction anew, where others write its files.

        Raises:
            OrchestratorError: Its definition is wrong.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends what it has begun."""


class FolderProject(Project):
    """An agent's folder."""

    def __init__(
        self, folder: Path, sessions: Sessions, memory: Path, model: str | Model | None
    ) -> None:
        self._folder = folder
        self.sessions = sessions
        self._memory = memory
        self.model = model
        self._lock = Lock()
        self._now: _Loaded | None = None
        self._old: list[_Loaded] = []  # in use, though their files have changed
        self._files: Any = None
        self._definitions = ""  # the texts of the definition and of the collaborators' ones
        self.key = folder.name
        self.name = folder.name  # until its definition is read
        self.instruction = ""

    def refresh(self) -> None:
        """Takes its name and instruction from its file.

        Raises:
            OrchestratorError: It is wrong.
        """
        definition = load_definition(self.folder)
        self.name = definition.agent_name
        self.instruction = definition.instruction

    @property
    def folder(self) -> Path:
        """The folder, in which its files may change."""
        return self._folder

    def agent(self) -> Agent:
        """The agent, as its files are now, to look at; what has changed is compiled again.

        Who has it do something takes it by `use`: otherwise a changed file ends it meanwhile.

        Raises:
            OrchestratorError: It is wrong, with file, line and column.
        """
        with self._lock:
            return self._load().agent

    @contextmanager
    def use(self) -> Iterator[Agent]:
        """The agent as its files are now, which stays open as long as the `with` block runs.

        Raises:
            OrchestratorError: It is wrong, with file, line and column.
        """
        with self._lock:
            loaded = self._load()
            loaded.users += 1
        try:
            yield loaded.agent
        finally:
            with self._lock:
                loaded.users -= 1
                is_done = loaded in self._old and not loaded.users
                if is_done:
                    self._old.remove(loaded)
            if is_done:
                # It may have to wait for processes, and this may be the event loop.
                Thread(target=loaded.agent.close, name="close-agent").start()

    def _load(self) -> _Loaded:
        from orchestrator.agent.agent import Agent

        files = list(_iterate_files(self.folder, self._definitions))
        if self._now is None or files != self._files:
            before, self._now = self._now, None
            if before is not None and before.users:
                self._old.append(before)
            elif before is not None:
                before.agent.close()
            self._definitions = _read_definitions(self.folder)
            self.refresh()
            files = list(_iterate_files(self.folder, self._definitions))
            self._now = _Loaded(
                Agent.load(
                    self.folder, model=self.model, sessions=self.sessions, memory=self._memory
                )
            )
            self._files = files
        return self._now

    def close(self) -> None:
        """Ends what the agent has begun."""
        with self._lock:
            for loaded in (*self._old, *([] if self._now is None else [self._now])):
                loaded.agent.close()
            self._old.clear()


class Projects:
    """The agents of some folders, by the names of these."""

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        model: str | Model | None = None,
        state: Path | None = None,
        prices: Mapping[str, Price] | None = None,
        servers: Sequence[RemoteServer] = (),
    ) -> None:
        """Finds the agents: each folder is one, or has some in it.

        One whose definition is wrong does not keep the others from being there: `broken` has it.

        Args:
            folders: The folders.
            model: A model instead of every other.
            state: The file of the sessions; by default that of the command line, in each folder.
            prices: What models cost, by their ids or specs.
            servers: Remote servers, whose agents are there, too; they are closed with all else.

        Raises:
            ResourceNotFound: There is no such folder, or no agent in it.
            ValidationError: Two have the same name.
            OrchestratorError: All definitions are wrong, or the sessions' file cannot be opened.
        """
        self.prices = prices or {}
        self.jobs = Jobs()
        self._sessions_file = state
        self._model = model
        self.servers = servers
        self._shared = None if state is None else Sessions.of(state)
        self._projects: dict[str, Project] = {}
        self._roots: dict[Path, None] = {}  # folders of agents' folders
        self.broken: dict[str, OrchestratorError] = {}  # by key, as they were found
        for given in folders:
            found = find_agent_folders(given)
            for folder in found:
                self._take(folder)
            # Beside the agents of a folder; of an agent's own folder nothing outside is written.
            is_agent = found[0] == (given.parent if given.is_file() else given).resolve()
            root = found[0] / _IMPORTED if is_agent else given.resolve()
            self._roots[root] = None
            for folder in _list_agents(root) if is_agent else ():
                self._take(folder)
        self._read_definitions()

    def _read_definitions(self) -> None:
        # Not `all()`: a server's agents are others, which are read when they are asked for.
        for project in self._projects.values():
            try:
                project.refresh()
            except OrchestratorError as error:
                self.broken[project.key] = error
        if self.broken and len(self.broken) == len(self._projects) and not self.servers:
            self.close()
            raise next(iter(self.broken.values()))

    def add(self, folder: Path) -> Project:
        """Adds the agent in a folder, or takes the one that is known.

        Raises:
            ValidationError: Another folder has the same name.
            OrchestratorError: The definition is wrong, or the sessions' file cannot be opened.
        """
        project = self._take(folder)
        project.refresh()
        return project

    def _take(self, folder: Path) -> Project:
        self.check_name(folder)
        known = self._projects.get(folder.name)
        if known is not None:
            return known
        file = _find_file(folder) if self._sessions_file is None else self._sessions_file
        sessions = self._shared or Sessions.of(file)
        project = FolderProject(folder, sessions, file.with_name("memory.sqlite"), self._model)
        self._projects[project.key] = project
        return project

    def check_name(self, folder: Path) -> None:
        """Checks that no other agent is in a folder of the same name.

        Raises:
            ValidationError: One is.
        """
        known = self._projects.get(folder.name)
        if known is not None and known.folder != folder:
            raise ValidationError(
                f"two agents are in folders called {folder.name!r}; rename one of them, "
                "or import into the agent itself"
            )

    def import_roots(self) -> list[Path]:
        """The folders in which new agents may be written."""
        return list(self._roots)

    def all(self) -> list[Project]:
        """All of them, in the order of their folders."""
        return list(self._projects.values())

    def find(self, key: str) -> Project:
        """The one with a name.

        Raises:
            ResourceNotFound: There is none.
        """
        found = self._projects.get(key)
        if found is None:
            raise ResourceNotFound(f"the workbench has no agent {key!r}")
        return found

    def close(self) -> None:
        """Ends jobs and what the agents have begun, and closes their sessions' files."""
        self.jobs.close()
        stores: dict[int, SessionStore] = {}
        for project in self.all():
            project.close()
            stores[id(project.sessions.store)] = project.sessions.store
        for store in stores.values():
            if callable(close := getattr(store, "close", None)):
                close()
        for server in self.servers:
            server.close()


def _find_file(folder: Path) -> Path:
    from orchestrator.support.private_files import make_private_folder, open_private

    own = folder / DATA_FOLDER
    if not own.is_dir():
        # Sessions hold what users said: only the owner may read them.
        make_private_folder(own)
        with open_private(own / ".gitignore") as file:
            file.write("*\n")
    return own / "sessions.sqlite"


def find_agent_folders(folder: Path) -> list[Path]:
    """The folder, if it is an agent's, else the agents' folders in it.

    Raises:
        ResourceNotFound: There is none.
    """
    root = folder.parent if folder.is_file() else folder
    if _has_definition(root):
        return [root.resolve()]
    inside = _list_agents(root)
    if not inside:
        raise ResourceNotFound(
            f"there is no agent in {str(folder)!r}: give the folder of one, with an "
            f"{FILE_NAMES[0]}, or a folder of such folders; `orchestrator init` makes one"
        )
    return [it.resolve() for it in inside]


def _list_agents(folder: Path) -> list[Path]:
    return sorted(it for it in folder.iterdir() if _has_definition(it)) if folder.is_dir() else []


def _has_definition(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FILE_NAMES)


def _iterate_files(folder: Path, definitions: str) -> Iterator[tuple[str, int, int]]:
    """What an agent is made of: what its actions write beside it is none of that."""
    for root, name in walk_files(folder):
        if not (
            name in FILE_NAMES
            or name.endswith(_READ)
            or name in definitions
            or _TEMPLATES in Path(root).relative_to(folder).parts
        ):
            continue
        try:
            status = os.stat(os.path.join(root, name))
        except OSError:
            continue
        yield os.path.join(root, name), status.st_mtime_ns, status.st_size


def _read_definitions(folder: Path) -> str:
    found = [Path(root, name) for root, name in walk_files(folder) if name in FILE_NAMES]
    return "\n".join(one.read_text(encoding="utf-8", errors="replace") for one in found)


def walk_files(folder: Path) -> Iterator[tuple[str, str]]:
    """The files in a folder, as their folder and name, so many at most; through no link."""
    count = 0
    for root, inner, names in os.walk(folder):
        inner[:] = sorted(set(inner) - {*_SKIPPED})
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                return
            yield root, name
