"""What differs between an agent's folder and an agent at an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ResourceNotFound
from orchestrator.support.documents import decode
from orchestrator.transfer.document import PARTS, Document, list_lambdas
from orchestrator.transfer.folder import Change, files_of, find_leftover_files, list_named_files
from orchestrator.transfer.normalize import KEPT_THERE, is_same_schema
from orchestrator.transfer.portability import make_portable
from orchestrator.transfer.pull import read_agent
from orchestrator.transfer.push import find_agent
from orchestrator.transfer.remote import Remote


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs.

    Attributes:
        agent_id: The agent there.
        changes: The files that would differ if the agent there was pulled: `before` is as it is
            there, `after` as in the folder.
        notes: What was not compared, because the service does not have it.
    """

    agent_id: str
    changes: list[Change]
    notes: list[Diagnostic]


def difference(
    document: Document,
    remote: Remote,
    agent_id: str | None = None,
    *,
    alias: str | None = None,
    version: str | None = None,
) -> Difference:
    """Compares an agent, and those that it leads, with an agent at an endpoint.

    Ids are not compared, nor in what order parts are, nor how a schema is written; nor what the
    folder leaves to the place where the agent runs (its role, functions for its handlers).

    Args:
        document: The agent, as `read_folder` gives it.
        remote: Where the other is.
        agent_id: Its id; by default the agent with the document's id or name.
        alias: The id or the name of an alias: the version that it leads to is compared.
        version: A version's number; without both, the working draft.

    Raises:
        ResourceNotFound: There is no such agent.
        OrchestratorError: The endpoint failed.
    """
    agent_id = agent_id or find_agent(remote, document)
    if not agent_id:
        raise ResourceNotFound(
            f"there is no agent {document.name!r} to compare with; `orchestrator push` makes it"
        )
    there = read_agent(remote, agent_id, alias=alias, version=version)
    notes: list[Diagnostic] = []
    local = remote.endpoint_url is not None
    one, other = _make_comparable(there, document, notes, local)
    after = {**_read_leftover_files(document), **files_of(other)}
    return Difference(agent_id, list_changes(files_of(one), after), notes)


def compare_folders(before: Document, after: Document) -> list[Change]:
    """What differs between two agents that were read from folders, and those that they lead.

    As for `difference`, neither ids are compared, nor in what order parts are, nor how a schema is
    written; nor what actions do.

    Raises:
        DefinitionError: The data of one of them is no agent's.
    """
    one, other = _without_order(before), _without_order(after)
    _unify_team_schemas(one, other)
    return list_changes(files_of(one), files_of(other))


def list_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """The texts that are not the same in both, by their paths."""
    return [
        Change(path, before.get(path), after.get(path))
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path)
    ]


def _without_order(document: Document) -> Document:
    data = deepcopy(document.data)
    _drop_identity(data)
    return Document(data, {name: _without_order(it) for name, it in document.team.items()})


def _unify_team_schemas(one: Document, other: Document) -> None:
    _unify_schemas(one.data, other.data)
    for name in one.team.keys() & other.team.keys():
        _unify_team_schemas(one.team[name], other.team[name])


def _read_leftover_files(document: Document) -> dict[str, str]:
    # A pull would write these, although no definition names them any more.
    root, found = document.source.folder, {}
    for one in document.iter_agents():
        folder = one.source.folder
        if root is None or folder is None or not folder.is_relative_to(root):
            continue
        for path in find_leftover_files(folder, list_named_files(one.source.file)):
            file = folder / path
            found[file.relative_to(root).as_posix()] = decode(file.read_bytes(), str(file))
    return found


# Stands for what runs here, where no function does there.
_HANDLER = "arn:aws:lambda:us-east-1:000000000000:function:handler"


def _make_comparable(
    there: Document, here: Document, notes: list[Diagnostic], local: bool
) -> tuple[Document, Document]:
    # Parts have no order that means anything: both sides are sorted before they are compared.
    groups = (str(it.get("actionGroupName")) for it in there.parts("actionGroups"))
    known = {**dict.fromkeys(groups, _HANDLER), **dict(list_lambdas(there.data))}
    found = make_portable(here, {}, known=known, local_models=local)
    for group in found.data.get("actionGroups", ()):
        if group.get("actionGroupExecutor") == {"lambda": _HANDLER}:
            del group["actionGroupExecutor"]
    unsupported = (it for it in found.left if it.code == "not-portable")
    notes += [replace(it, severity="info", suggestion="") for it in unsupported]
    one, other = deepcopy(there.data), found.data
    for member in KEPT_THERE:
        if member not in other:
            one.pop(member, None)
    for data in (one, other):
        _drop_identity(data)
    _unify_schemas(one, other)
    led_there, led_here = {}, {}
    for name, agent in here.team.items():
        if name in there.team:
            led_there[name], led_here[name] = _make_comparable(
                there.team[name], agent, notes, local
            )
        else:
            led_here[name] = Document(make_portable(agent, {}, local_models=local).data, agent.team)
    return Document(one, led_there), Document(other, led_here)


def _drop_identity(data: dict[str, Any]) -> None:
    data.pop("agentId", None)
    data.pop("aliases", None)
    for part, kind in PARTS.items():
        if part in data:
            data[part] = sorted(data[part], key=lambda it: str(it.get(kind.key)))


def _unify_schemas(one: dict[str, Any], other: dict[str, Any]) -> None:
    texts = {it["actionGroupName"]: it.get("apiSchema") or {} for it in one.get("actionGroups", ())}
    for group in other.get("actionGroups", ()):
        mine = (group.get("apiSchema") or {}).get("payload")
        theirs = texts.get(group["actionGroupName"], {}).get("payload")
        if mine and theirs and is_same_schema(mine, theirs):
            group["apiSchema"] = {"payload": theirs}
