"""An agent's folder → a `Document`, with the texts of its files in place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.definition import (
    AgentDefinition,
    definition_of,
    dump_definition,
    load_definition,
    prompt_text,
)
from orchestrator.definition.dump import as_data
from orchestrator.definition.fields import NAME_PATTERN
from orchestrator.definition.files import locate, locate_folder
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.prompts import STAGES
from orchestrator.prompts.languages import language_of
from orchestrator.support.atomic_files import write_atomically
from orchestrator.support.documents import MAX_BYTES, decode
from orchestrator.support.safe_json import json_or
from orchestrator.transfer.document import Document, stages_of
from orchestrator.transfer.normalize import normalize_agent


def read_folder(path: str | Path) -> Document:
    """Reads an agent's folder, and the folders of the agents that it leads. No code is run.

    Raises:
        ResourceNotFound: There is nothing at `path`.
        DefinitionError: A definition is wrong, or names a file that is not there.
    """
    return _read_agent_folder(Path(path), {}, 1)


def _read_agent_folder(path: Path, known: dict[Path, Document], level: int) -> Document:
    definition = load_definition(path)
    document = Document(as_data(definition), source=definition.source)
    _inline_templates(document.data, definition)
    _inline_schemas(document.data, definition)
    for index, member in enumerate(definition.agent_collaborators):
        where = member.agent_descriptor
        if where is None or where.folder is None:
            continue
        at = ("agentCollaborators", index, "agentDescriptor", "folder")
        folder = locate_folder(definition, where.folder, at)
        if level >= MOST_LEVELS:
            raise definition.source.error(
                f"there are more than {MOST_LEVELS} levels of agents that lead agents", *at
            )
        if folder not in known:
            known[folder] = _read_agent_folder(folder, known, level + 1)
        document.team[member.collaborator_name] = known[folder]
        del document.data["agentCollaborators"][index]["agentDescriptor"]
    return document


def _inline_templates(data: dict[str, Any], definition: AgentDefinition) -> None:
    for stage in stages_of(data):
        if stage.pop("basePromptTemplateFile", None) is not None:
            found = prompt_text(definition, stage["promptType"])
            if found is not None:
                stage["basePromptTemplate"] = found.text
                if language := found.language or language_of(found.source):
                    stage["templateFormat"] = language


def _inline_schemas(data: dict[str, Any], definition: AgentDefinition) -> None:
    for index, group in enumerate(data.get("actionGroups", [])):
        schema = group.get("apiSchema") or {}
        if schema.get("file") is not None:
            at = ("actionGroups", index, "apiSchema", "file")
            file = locate(definition, schema["file"], at)
            group["apiSchema"] = {"payload": decode(file.read_bytes(), str(file))}


def list_named_files(file: str) -> set[str]:
    """The templates and schemas that a definition names, relative to its folder."""
    groups = load_definition(file).action_groups
    schemas = {it.api_schema.file for it in groups if it.api_schema and it.api_schema.file}
    return {*list_named_templates(file), *(PurePosixPath(it).as_posix() for it in schemas)}


def list_named_templates(file: str) -> set[str]:
    """The templates that a definition names, relative to its folder."""
    overrides = load_definition(file).prompt_override_configuration
    stages = overrides.prompt_configurations if overrides else ()
    names = {it.base_prompt_template_file for it in stages if it.base_prompt_template_file}
    return {PurePosixPath(it).as_posix() for it in names}


# Names that are no files' names on Windows, with any suffix.
_RESERVED = {"con", "prn", "aux", "nul", *(f"{it}{n}" for it in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is not as it would be written.

    Attributes:
        path: The file, relative to the agent's folder.
        before: Its text; `None` when there is no such file.
        after: What would be written; `None` when there would be no such file.
    """

    path: str
    before: str | None
    after: str | None


def files_of(document: Document) -> dict[str, str]:
    """The files of an agent's folder that `Agent.load` runs, by their paths in it.

    Templates and API schemas are files of their own, collaborators are folders in `collaborators/`.
    All names are checked before they become paths.

    Raises:
        DefinitionError: The data is no agent's.
    """
    data = deepcopy(normalize_agent(document.data))
    files: dict[str, str] = {}
    _check_names(data)
    _extract_templates(data, files)
    _extract_schemas(data, files)
    _extract_team(document, data, files)
    if len(str(data)) > MAX_BYTES:
        # It could not be loaded again, and YAML takes a minute to write ten times as much.
        text = f"the agent {document.name!r} is wrong: its agent.yaml would be larger than"
        raise DefinitionError(f"{text} {MAX_BYTES:,} bytes")
    try:
        definition = definition_of(data)
    except DefinitionError as error:
        raise DefinitionError(f"the agent {document.name!r} is wrong: {error.reason}") from None
    return {"agent.yaml": dump_definition(definition), **files, **document.code}


def _check_names(data: Mapping[str, Any]) -> None:
    # The names come from a service or a file that may be anybody's; they become paths.
    for member, key in (
        ("actionGroups", "actionGroupName"),
        ("agentCollaborators", "collaboratorName"),
    ):
        for part in data.get(member) or ():
            name = part.get(key)
            if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
                raise DefinitionError(
                    f"the {key} {name!r} is no name that Bedrock gives; nothing was written"
                )


def _extract_templates(data: dict[str, Any], files: dict[str, str]) -> None:
    for stage in stages_of(data):
        text, kind = stage.get("basePromptTemplate"), stage.get("promptType")
        if kind not in STAGES or not isinstance(text, str) or not _can_round_trip(text):
            # The definition refuses other prompt types.
            continue
        suffix = "json" if text.lstrip()[:1] in ("{", "[") else "txt"
        path = f"templates/{kind.lower()}.{suffix}"
        files[path] = stage.pop("basePromptTemplate")
        stage["basePromptTemplateFile"] = path


def _extract_schemas(data: dict[str, Any], files: dict[str, str]) -> None:
    taken: set[str] = set()
    for group in data.get("actionGroups") or ():
        text = (group.get("apiSchema") or {}).get("payload")
        if not isinstance(text, str) or not _can_round_trip(text):
            continue
        folder = _choose_folder_name(group["actionGroupName"], taken)
        suffix = "json" if isinstance(json_or(text, None), dict) else "yaml"
        path = f"action_groups/{folder}/openapi.{suffix}"
        files[path] = text
        group["apiSchema"] = {"file": path}


def _extract_team(document: Document, data: dict[str, Any], files: dict[str, str]) -> None:
    taken: set[str] = set()
    folders: dict[int, str] = {}
    for member in data.get("agentCollaborators") or ():
        agent = document.team.get(member["collaboratorName"])
        if agent is None:
            continue
        if id(agent) not in folders:
            folder = f"collaborators/{_choose_folder_name(member['collaboratorName'], taken)}"
            folders[id(agent)] = folder
            files |= {f"{folder}/{path}": text for path, text in files_of(agent).items()}
        member["agentDescriptor"] = {"folder": folders[id(agent)]}


def _choose_folder_name(name: str, taken: set[str]) -> str:
    # File systems of macOS and Windows take upper and lower case for one, and Windows reserves
    # names.
    folder = f"{name}_" if name.lower() in _RESERVED else name
    while folder.lower() in taken:
        folder += "_"
    taken.add(folder.lower())
    return folder


def _can_round_trip(text: str) -> bool:
    # A text that would change on its way through a file stays in `agent.yaml`.
    try:
        return bool(text) and decode(text.encode(), "") == text
    except (DefinitionError, UnicodeEncodeError):
        return False


def changes(files: Mapping[str, str], folder: Path) -> list[Change]:
    """What writing `files` into `folder` would make new or different, or take away.

    Templates and schemas that the agents in `files` do not have any more are taken away: a template
    would still count. Other files are the folder's own.

    Raises:
        ValidationError: A file would lie outside of the folder, or a link leads out of it.
    """
    found = []
    for path, text in files.items():
        target = _resolve_inside(folder, path)
        before = _read_text(target)
        if before != text:
            found.append(Change(path, before, text))
    agents = [
        it.removesuffix("agent.yaml") for it in files if PurePosixPath(it).name == "agent.yaml"
    ]
    for agent in agents:
        known = {it.removeprefix(agent) for it in files if it.startswith(agent)}
        for path in find_leftover_files(folder / agent, known):
            found.append(
                Change(agent + path, _read_text(_resolve_inside(folder, agent + path)), None)
            )
    return found


def find_leftover_files(folder: Path, known: Collection[str]) -> list[str]:
    """Files that an earlier pull wrote into an agent's folder, and that are not in `known`."""
    stages = [f"templates/{it.lower()}.{suffix}" for it in STAGES for suffix in ("json", "txt")]
    schemas = [f"action_groups/*/openapi.{suffix}" for suffix in ("json", "yaml")]
    found = [it for pattern in (*stages, *schemas) for it in folder.glob(pattern)]
    # Upper and lower case may be one on the disk.
    names = {it.lower() for it in known}
    paths = (it.relative_to(folder).as_posix() for it in found if it.is_file())
    return sorted(it for it in paths if it.lower() not in names)


def write_files(files: Mapping[str, str], folder: Path, *, force: bool = False) -> list[Change]:
    """Writes the files that are new or different; each is there whole, or as it was.

    What the agent does not have any more is taken away, see `changes`.

    Args:
        files: Texts by paths, as `files_of` gives them.
        folder: The agent's folder, which is made when it is not there.
        force: Overwrite files that have other texts, and take away those that are left over.

    Returns:
        What was written, or taken away.

    Raises:
        ValidationError: A file that is there has another text or would go, and `force` was not
            given; nothing was written. Or a path leads out of the folder.
    """
    found = changes(files, folder)
    changed = [it.path for it in found if it.before is not None]
    if changed and not force:
        listed = ", ".join(repr(it) for it in changed[:5])
        listed += f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise ValidationError(
            f"{listed} in {str(folder)!r} would be changed or removed, and nothing was written; "
            "--force does that, another folder keeps both"
        )
    for change in found:
        target = _resolve_inside(folder, change.path)
        if change.after is None:
            target.unlink(missing_ok=True)
        else:
            write_atomically(target, change.after)
    return found


def _resolve_inside(folder: Path, path: str) -> Path:
    parts = PurePosixPath(path)
    root = folder.resolve()
    target = root.joinpath(*parts.parts)
    if parts.is_absolute() or ".." in parts.parts or target.resolve() != target:
        raise ValidationError(
            f"{path!r} leads to a place outside of {str(folder)!r}, or through a link; nothing was "
            "written"
        )
    return target


def _read_text(file: Path) -> str | None:
    if file.is_dir():
        raise ValidationError(f"{str(file)!r} is a folder, and a file is to be written there")
    try:
        with file.open("rb") as stream:
            return stream.read(2 * MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
