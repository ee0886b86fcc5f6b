"""The agent of a command: the file of its sessions, and its models loaded."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.findings import format_path
from orchestrator.cli.return_control import ask_yes_no
from orchestrator.cli.terminal import Terminal, clean, progress_bar
from orchestrator.errors import DependencyFailed, ModelNotReady, ValidationError
from orchestrator.support.content_root import get_agent_root
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.private_files import make_private_folder, open_private
from orchestrator.support.store_urls import MemoryUrl, SqliteUrl, parse_store

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.plan import Plan
    from orchestrator.models import Model
    from orchestrator.models.weights import Progress

_OWN = ".orchestrator"


def ensure_data_folder(folder: Path) -> Path:
    """The hidden folder in the agent's folder that the command line writes to; git ignores it."""
    own = get_agent_root(folder) / _OWN
    if not own.is_dir():
        # Sessions hold what users said: only the owner may read them.
        make_private_folder(own)
        with open_private(own / ".gitignore") as file:
            file.write("*\n")
    return own


def get_sessions_file(folder: Path) -> Path:
    """The file of an agent's sessions; it need not exist."""
    return get_agent_root(folder) / _OWN / "sessions.sqlite"


def _choose_store(folder: Path, session: str | None, state: str | None) -> str | Path | None:
    # A session that has a name is meant to be gone on with, so it is kept in the agent's folder
    # when nothing else is said; one without a name is kept in memory.
    if state is not None:
        url = parse_store(state)
        if isinstance(url, MemoryUrl) or url == SqliteUrl(Path(":memory:")):
            return None
        return url.path if isinstance(url, SqliteUrl) else state
    if session is None or not get_agent_root(folder).is_dir():
        return None
    return get_sessions_file(folder)


def choose_sessions(
    folder: Path, session: str | None, state: str | None, *, writes: bool = True
) -> str | Path | None:
    """The store of sessions that the options mean, for a file with its folder; `None` for memory.

    Without `writes`, no file is made where there is none.

    Raises:
        ValidationError: There is no folder for the file, or the URL of the store is wrong.
    """
    file = _choose_store(folder, session, state)
    if not isinstance(file, Path):
        return file
    if not writes and not file.is_file():
        return None
    if file == get_sessions_file(folder):
        ensure_data_folder(folder)
    if not file.absolute().parent.is_dir():
        raise ValidationError(f"there is no folder {str(file.parent)!r} for --state")
    return file


def load_agent(
    folder: Path,
    model: str | Model | None,
    session: str | None = None,
    state: str | None = None,
    *,
    writes: bool = True,
) -> Agent:
    """The agent in `folder`, with the sessions that the options mean.

    Without `writes`, no file of sessions is made where there is none.

    Raises:
        OrchestratorError: The agent is wrong, or there is no folder for the sessions' file.
    """
    from orchestrator.agent.agent import Agent
    from orchestrator.agent.source import resolve_script

    store = choose_sessions(folder, session, state, writes=writes)
    return Agent.load(folder, model=resolve_script(model, folder), sessions=store)


def note_templates(agent: Agent, folder: Path, terminal: Terminal) -> None:
    """Lines when `lint` has something to say against the agent's own templates."""
    from orchestrator.prompts.appended_tools import APPENDED_TOOLS
    from orchestrator.support.content_root import content_root

    shipped = str(content_root() / "templates")
    found = {
        finding
        for stage in agent.plan.stages.values()
        if stage.enabled and not str(stage.template.source or shipped).startswith(shipped)
        for finding in stage.template.diagnostics
        if finding.severity != "info"
    }
    lint = f"see `orchestrator lint {shlex.quote(str(folder))}`"
    # Said in whole, since the prompt is another one than its author wrote, or lacks the question.
    whole = {it for it in found if it.code == APPENDED_TOOLS or it.severity == "error"}
    for message in sorted(finding.message for finding in whole):
        terminal.note(f"note: {clean(message)}; {lint}")
    if found := found - whole:
        warnings = "a warning" if len(found) == 1 else f"{len(found)} warnings"
        terminal.note(f"note: {warnings} about the agent's templates; {lint}")


def load_models(agent: Agent, terminal: Terminal) -> None:
    """Loads the embedded models that the agent and those it leads use, with a progress bar.

    Of an embedding model only the weights are looked at; it is loaded by its first use. On a
    terminal, weights that are not there are downloaded if the user agrees.

    Raises:
        ModelNotReady: The weights or the runtime are not there.
    """
    _load_chat_models(agent, terminal)
    _check_embedding_weights(agent, terminal)


def _load_chat_models(agent: Agent, terminal: Terminal) -> None:
    from orchestrator.agent.model_use import list_plans

    plans = list_plans(agent.plan)
    models = {id(one.model): one.model for plan in plans for one in plan.stages.values()}
    # Importing the local model is slow; most agents have none.
    if not any(model.model_id.startswith("local:") for model in models.values()):
        return
    from orchestrator.models import LocalModel

    for model in models.values():
        if isinstance(model, LocalModel):
            load_model(model, terminal)


def load_model(model: Any, terminal: Terminal) -> None:
    """Loads an embedded model, with a progress bar; the terminal is told what it reads then.

    Raises:
        ModelNotReady: The weights or the runtime are not there.
    """
    model.reading = terminal.note_reading
    _get_ready(model.load, terminal)


def _check_embedding_weights(agent: Agent, terminal: Terminal) -> None:
    from orchestrator.agent.model_use import uses_embedding_weights
    from orchestrator.models import weights

    if uses_embedding_weights(agent.plan):
        _get_ready(lambda progress: weights.path(weights.EMBEDDING, progress), terminal)


def _get_ready(load: Callable[[Progress | None], Any], terminal: Terminal) -> None:
    try:
        _load_with_progress(load, terminal)
    except ModelNotReady as error:
        if not _offer_download(error, terminal):
            raise
        _load_with_progress(load, terminal)


def find_team_plan(plan: Plan, name: str) -> Plan | None:
    """The agent that is called `name` in the team of an agent; itself for an empty name."""
    from orchestrator.agent.model_use import iter_members

    if not name:
        return plan
    named = (it for it in iter_members(plan) if it.name == name)
    return next((it.agent for it in named), None)


def _load_with_progress(load: Callable[[Progress | None], Any], terminal: Terminal) -> None:
    with progress_bar(terminal) as progress:
        load(progress)


def _offer_download(error: ModelNotReady, terminal: Terminal) -> bool:
    from importlib.util import find_spec

    from orchestrator.models import weights

    missing = [it.weights for it in weights.available() if it.path is None]
    wanted = next((it for it in missing if it.name == error.resource), None)
    if wanted is None or not terminal.interactive:
        return False
    runtime, extra = weights.RUNTIMES[wanted.kind]
    if find_spec(runtime) is None:
        raise DependencyFailed(
            describe_missing_extra("the embedded model needs", extra, runtime),
            resource=wanted.name,
        )
    terminal.note(
        f"The model {wanted.name} is not on this machine yet: "
        f"{wanted.megabytes}, licence {wanted.licence}, kept in {format_path(weights.folder())}."
    )
    try:
        agreed = ask_yes_no(lambda it: terminal.err.input(it, markup=False), "Download it now?")
    except EOFError:
        agreed = False
    if not agreed:
        return False
    with progress_bar(terminal) as progress:
        weights.pull(wanted.name, progress)
    return True
