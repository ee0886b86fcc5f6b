"""Import by dropping: what files would become is shown first, and written after a click.

What `orchestrator import` and `pull` do, they do here, too: the same reader, the same check of what
others may name, the same files. A template goes into an agent's folder instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.definition.files import FILE_NAMES
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import (
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ValidationError,
)
from orchestrator.server.workbench import saving
from orchestrator.server.workbench.chat import check_members
from orchestrator.server.workbench.dropped_files import unpack_files
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.server.workbench.template_imports import plan_template

if TYPE_CHECKING:
    from orchestrator.transfer import Change, Document
    from orchestrator.transfer.sources import ImportedAgents

_MOST_PARAMETERS = 100
_MOST_LINES = 2_000  # of a file's difference


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What a page asks for.

    Attributes:
        files: What was dropped.
        into: The key of an agent whose folder is written, or the place of new agents.
        agent: The agent to take, by what its file calls it; empty for all.
        parameters: Of a template of CloudFormation, or variables of Terraform.
        stage: Of a template, the stage; empty for a file beside the agent.
        digest: Of what was shown; empty to be shown it.
    """

    files: Any
    into: str
    agent: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""
    digest: str = ""

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> ImportRequest:
        """What a request asks for.

        Raises:
            ValidationError: It is not understood.
        """
        check_members(body, cls.__dataclass_fields__, "an import")
        for name in ("into", "agent", "stage", "digest"):
            if not isinstance(body.get(name, ""), str):
                raise ValidationError(f"{name!r} must be a text")
        given = body.get("parameters", {})
        if not isinstance(given, dict) or len(given) > _MOST_PARAMETERS:
            raise ValidationError("'parameters' must be an object of texts")
        if not all(isinstance(one, str) for one in given.values()):
            raise ValidationError("'parameters' must be an object of texts")
        return cls(**{"files": None, "into": "", **body})


@dataclass(slots=True)
class Plan:
    """What would be written.

    Attributes:
        document: What the page shows.
        folders: The files' texts of each folder.
    """

    document: dict[str, Any]
    folders: dict[Path, dict[str, str]]
    write: Callable[[], None]


def list_places(projects: Projects) -> list[dict[str, str]]:
    """Where an import can go: new folders, and those of agents that are there."""
    new = [
        {"key": f"new:{number}", "name": str(root), "kind": "new"}
        for number, root in enumerate(projects.import_roots())
    ]
    own = [
        {"key": one.key, "name": one.name, "kind": "agent"}
        for one in projects.all()
        if one.has_folder
    ]
    return [*new, *own]


def carry_out(projects: Projects, asked: ImportRequest) -> dict[str, Any]:
    """Shows what an import would write; with the digest of that, writes it.

    Raises:
        SessionConflict: Something else would be written than was shown.
        OrchestratorError: The files hold nothing that can be imported, or a place is wrong.
    """
    with unpack_files(asked.files) as files:
        plan = _plan(projects, asked, files)
        digest = _digest(plan.folders, plan.document)
        if not asked.digest:
            return {**plan.document, "digest": digest}
        if asked.digest != digest:
            raise SessionConflict("what would be written has changed: look at it again")
        plan.write()
        return {**plan.document, "digest": digest, "written": True}


def _digest(folders: Mapping[Path, Mapping[str, str]], document: Mapping[str, Any]) -> str:
    shown = json.dumps(
        [{str(folder): files for folder, files in folders.items()}, document["files"]],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:16]


def _plan(projects: Projects, asked: ImportRequest, files: Sequence[Path]) -> Plan:
    from orchestrator.agent.files import is_template

    if len(files) == 1 and (is_template(files[0]) or asked.stage):
        return _plan_template(projects, asked, files[0])
    from orchestrator.transfer.sources import read_source

    root = files[0].parent
    # Several files belong together, as in the folder of a project.
    found = read_source(files[0] if len(files) == 1 else root, (), asked.parameters)
    return _plan_agents(projects, asked, found, root)


# -- agents --------------------------------------------------------------------------------------


def _plan_agents(
    projects: Projects, asked: ImportRequest, found: ImportedAgents, dropped: Path
) -> Plan:
    from orchestrator.transfer import files_of
    from orchestrator.transfer.folder import changes, write_files
    from orchestrator.transfer.import_summary import iter_rows

    agents = _choose_agents(found, asked.agent)
    folders = _choose_folders(projects, asked.into, agents)
    texts = {key: files_of(agent) for key, agent in agents.items()}
    changed = {key: changes(texts[key], folders[key]) for key in agents}
    checked = {key: _lint(texts[key], agents[key]) for key in agents}
    written = {key: {"written": [one.path for one in changed[key]]} for key in agents}

    def show_path(path: str | Path) -> str:
        return _show_path(path, dropped, projects)

    rows = list(iter_rows(found, agents, folders, written, checked, show_path))
    document = {
        "kind": "agents",
        "format": found.format,
        "choices": [{"key": key, "name": one.name} for key, one in found.find_top_level().items()],
        "agent": asked.agent,
        "rows": [asdict(row) for row in rows],
        "files": [
            _describe_change(folders[key], change) for key in agents for change in changed[key]
        ],
        "agents": [
            {
                "name": agents[key].name,
                "folder": str(folders[key]),
                "key": folders[key].name if asked.into.startswith("new:") else asked.into,
            }
            for key in agents
        ],
    }

    def write() -> None:
        is_new = asked.into.startswith("new:")
        for key, folder in folders.items():
            write_files(texts[key], folder, force=True)
            if is_new:
                projects.add(folder)
        if not is_new:
            projects.find(asked.into).refresh()

    return Plan(document, {folders[key]: texts[key] for key in agents}, write)


def _choose_agents(found: ImportedAgents, name: str) -> dict[str, Document]:
    return {name: found.get_agent(name)} if name else found.find_top_level()


def _choose_folders(
    projects: Projects, into: str, agents: Mapping[str, Document]
) -> dict[str, Path]:
    from orchestrator.transfer.import_summary import name_folders

    if not into.startswith("new:"):
        folder = projects.find(into).folder
        for name in FILE_NAMES[1:]:
            if (folder / name).is_file():
                raise ValidationError(
                    f"the agent is described in {name!r}, and an import writes {FILE_NAMES[0]!r}; "
                    "rename the file, or import the agent into a new folder"
                )
        if len(agents) > 1:
            raise ValidationError(
                f"the file has {len(agents)} agents: choose one of them to replace {into!r}"
            )
        return dict.fromkeys(agents, folder)
    root = _find_root(projects, into)
    folders = {key: root / name for key, name in name_folders(agents).items()}
    for folder in folders.values():
        _refuse_link(root, folder)
        projects.check_name(folder)
    return folders


def _find_root(projects: Projects, into: str) -> Path:
    number = into.removeprefix("new:")
    roots = projects.import_roots()
    if not number.isdecimal() or len(number) > 4 or int(number) >= len(roots):
        raise ResourceNotFound("there is no such place for new agents")
    return roots[int(number)]


def _refuse_link(root: Path, folder: Path) -> None:
    base = root.parent.resolve() / root.name
    if folder.resolve() != base / folder.name:
        raise ValidationError(f"{str(folder)!r} leads elsewhere through a link; nothing is written")


def _lint(files: Mapping[str, str], agent: Document) -> list[Diagnostic]:
    """The findings about the folder as it would be; no code of it is run."""
    from tempfile import TemporaryDirectory

    from orchestrator.agent.lint import lint_agent
    from orchestrator.transfer.folder import write_files
    from orchestrator.transfer.import_summary import leave_out_known

    with TemporaryDirectory(prefix="import-") as scratch:
        folder = Path(scratch).resolve() / agent.name
        write_files(files, folder)
        try:
            found = leave_out_known(lint_agent(folder), agent)
        except OrchestratorError as error:
            return [Diagnostic(severity="error", code="lint", message=error.message)]
        return [_place_inside(one, folder) for one in found]


def _place_inside(finding: Diagnostic, folder: Path) -> Diagnostic:
    from dataclasses import replace

    if finding.file and Path(finding.file).is_relative_to(folder):
        return replace(finding, file=Path(finding.file).relative_to(folder).as_posix())
    return finding


def _show_path(path: str | Path, dropped: Path, projects: Projects) -> str:
    for root in (dropped, *(one.parent for one in projects.import_roots())):
        if Path(path).is_relative_to(root):
            return Path(path).relative_to(root).as_posix()
    return str(path)


# -- templates -----------------------------------------------------------------------------------


def _plan_template(projects: Projects, asked: ImportRequest, file: Path) -> Plan:
    if asked.into.startswith("new:"):
        raise ValidationError("a template goes into an agent's folder: choose the agent")
    project: Project = projects.find(asked.into)
    planned = plan_template(project, file, asked.stage)
    document = {
        "kind": "template",
        "format": planned.language,
        "inputs": planned.inputs,
        "stage": asked.stage,
        "findings": [one.as_dict() for one in planned.findings],
        "files": [_describe_change(project.folder, one) for one in planned.changes],
        "agents": [{"name": project.name, "folder": str(project.folder), "key": project.key}],
    }
    texts = {one.path: one.after for one in planned.changes if one.after is not None}
    return Plan(document, {project.folder: texts}, planned.write)


def _describe_change(folder: Path, change: Change) -> dict[str, Any]:
    lines = saving.compare(change.before or "", change.after or "")
    kind = "new" if change.before is None else "removed" if change.after is None else "changed"
    return {
        "folder": str(folder),
        "path": change.path,
        "kind": kind,
        "added": sum(sign == "+" for sign, _ in lines),
        "removed": sum(sign == "-" for sign, _ in lines),
        "lines": [list(one) for one in lines[:_MOST_LINES]],
        "more": max(len(lines) - _MOST_LINES, 0),
    }
