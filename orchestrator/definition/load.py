"""Reading a definition: a folder, a file, a text, or plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError as PydanticError
from pydantic_core import ErrorDetails

from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.files import (
    FILE_NAMES,
    copy_data,
    missing_files,
    parse_text,
    read_file,
)
from orchestrator.definition.validation_errors import is_read_only, path_of, to_diagnostic
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.support.documents import Place, Source, combine_findings
from orchestrator.support.spelling import find_close

# Mistakes that are looked into: a file of nonsense must not cost minutes.
MOST_MISTAKES = 500
# Files beside one that is not there, of which one may be meant.
_MOST_NAMES = 1000


def load_definition(path: str | Path) -> AgentDefinition:
    """Reads an agent's folder, or its `agent.yaml`, `agent.yml` or `agent.json`.

    Dumps of Bedrock's GetAgent are read too: `{"agent": {…}}`, with the members that only Bedrock
    sets (ids, status, times), which are left out and noted in `definition.source.notes`.

    Args:
        path: The folder or the file.

    Returns:
        The definition, which knows the places of its members (`definition.source`). No code of
        the agent's folder was run.

    Raises:
        ResourceNotFound: There is nothing at `path`.
        DefinitionError: The definition is wrong, or names a file that is missing or outside of
            the folder. The error has all mistakes.
    """
    file = _file_of(Path(path))
    folder = file.absolute().parent
    definition = parse_definition(read_file(file), file=str(file), folder=folder)
    if mistakes := missing_files(definition):
        raise combine_findings(mistakes)
    return definition


def _list_beside(path: Path) -> list[str]:
    try:
        return sorted(it.name for it in islice(path.parent.iterdir(), _MOST_NAMES))
    except OSError:
        return []


def _file_of(path: Path) -> Path:
    if path.is_file():
        if path.suffix == ".py":
            raise ResourceNotFound(
                f"there is no agent at {str(path)!r}: it is a Python program, which `python` runs; "
                f"give a folder with {FILE_NAMES[0]}"
            )
        return path
    if not path.is_dir():
        close = find_close(path.name, _list_beside(path))
        hint = f"did you mean {str(path.parent / close)!r}?" if close else "give its folder or file"
        raise ResourceNotFound(f"there is no agent at {str(path)!r}; {hint}")
    found = [path / name for name in FILE_NAMES if (path / name).is_file()]
    if not found:
        raise DefinitionError(
            f"the folder has no {FILE_NAMES[0]}; `orchestrator init` makes one", file=path
        )
    # Which one counts would depend on an order that nobody sees.
    if len(found) > 1:
        names = " and ".join(file.name for file in found)
        raise DefinitionError(f"the folder has both {names}; keep one", file=path)
    return found[0]


def parse_definition(
    text: str, *, file: str = "agent.yaml", folder: Path | None = None
) -> AgentDefinition:
    """Reads a definition from text, without looking at the files that it names.

    Args:
        text: YAML, or JSON when `file` ends in `.json`.
        file: The name for messages.
        folder: The agent's folder, for whoever reads the files later.

    Raises:
        DefinitionError: The definition is wrong. The error has all mistakes.
    """
    data, source = parse_text(text, file, folder)
    if data is None:
        raise source.error("the file is empty; write at least 'agentName: …'")
    if not isinstance(data, dict):
        raise source.error("the file must hold a mapping, such as 'agentName: claims'")
    return _validate(data, source)


def definition_of(members: Mapping[str, Any]) -> AgentDefinition:
    """A definition made of plain data, such as the members of a CreateAgent request.

    Raises:
        DefinitionError: The data is wrong. The error has all mistakes.
    """
    return _validate(copy_data(members), Source())


def _validate(data: dict[str, Any], source: Source) -> AgentDefinition:
    data, source = _unwrap(data, source)
    try:
        definition = AgentDefinition.model_validate(data)
    except PydanticError as error:
        details = error.errors(include_url=False)[:MOST_MISTAKES]
        mistakes = [it for it in details if not is_read_only(AgentDefinition, it)]
        if mistakes:
            raise combine_findings(
                to_diagnostic(AgentDefinition, it, source) for it in mistakes
            ) from None
        # What only Bedrock sets is dropped, so that a dump of GetAgent can be used as it is.
        # Others may follow after these: only whole parts are checked for agreement.
        notes = (*source.notes, *(_drop_read_only(data, it, source) for it in details))
        return _validate(data, replace(source, notes=notes))
    definition._source = source
    return definition


# The members of GetAgent's answer stand one level deeper.
def _unwrap(data: dict[str, Any], source: Source) -> tuple[dict[str, Any], Source]:
    inner = data.get("agent")
    if not isinstance(inner, dict) or not data.keys() <= {"agent", "ResponseMetadata"}:
        return data, source
    root = source.root.children.get("agent", Place(1, 1)) if source.root else None
    return inner, replace(source, root=root)


def _drop_read_only(data: Any, error: ErrorDetails, source: Source) -> Diagnostic:
    *way, name = error["loc"]
    for key in way:
        data = data[key]
    del data[name]
    message = f"{path_of(error['loc'])!r} is set by Bedrock only and was left out"
    return source.diagnostic("info", "read-only-member", message, *error["loc"])
