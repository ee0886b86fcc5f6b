"""An agent's folder → a `Document`, with the texts of its files in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.definition import AgentDefinition, load_definition, prompt_text
from orchestrator.definition.document import decode
from orchestrator.definition.dump import as_data
from orchestrator.definition.files import locate, locate_folder
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.prompts.languages import language_of
from orchestrator.transfer.document import Document

__all__ = ["read_folder"]


def read_folder(path: str | Path) -> Document:
    """Reads an agent's folder, and the folders of the agents that it leads. No code is run.

    Args:
        path: The folder, or its `agent.yaml`.

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
    stages = data.get("promptOverrideConfiguration", {}).get("promptConfigurations", [])
    for stage in stages:
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
