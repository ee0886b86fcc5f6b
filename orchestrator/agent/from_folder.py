"""Agents in folders: the source of an agent is an `agent.yaml` and the files beside it."""

from __future__ import annotations

from pathlib import Path

from orchestrator.agent.source import AgentSource, Resolver
from orchestrator.definition import AgentCollaborator, load_definition
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.models import Model


def source_from_folder(
    path: Path,
    *,
    model: str | Model | None = None,
    resolver: Resolver | None = None,
    level: int = 1,
) -> AgentSource:
    """The source of the agent in a folder; `level` counts the agents down to this one.

    Raises:
        DefinitionError: The definition is wrong, with file, line and column.
        ResourceNotFound: There is no such folder or file.
    """
    # Nothing of a folder runs here: files are only read when the agent is built.
    definition = load_definition(path)
    resolver = resolver or Resolver()
    root = path if path.is_dir() else path.parent

    def open_collaborator(index: int, one: AgentCollaborator) -> AgentSource:
        from orchestrator.definition.files import locate_folder

        keys = ("agentCollaborators", index, "agentDescriptor", "folder")
        name = one.agent_descriptor.folder if one.agent_descriptor else None
        folder = locate_folder(definition, str(name), keys, root)
        if level >= MOST_LEVELS:  # before it is read, which would go down as far as folders do
            raise definition.source.error(
                f"with {one.collaborator_name!r} there are {level + 1} levels of agents that "
                f"lead agents; the most are {MOST_LEVELS}",
                *keys,
            )
        return source_from_folder(folder, model=model, resolver=resolver, level=level + 1)

    # A folder of texts about memory is found beside that of the templates, which may be missing.
    own = [root / name for name in ("templates", "memory")]
    return AgentSource(
        definition,
        root,
        resolver,
        open_collaborator=open_collaborator,
        model=model,
        templates=own[0] if any(map(Path.is_dir, own)) else None,
    )
