"""What an import brought: what came over, what to decide, what has no counterpart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.transfer.document import Document
from orchestrator.transfer.sources import ImportedAgents

ShowPath = Callable[[str | Path], str]

_ROLE = "role"
# Codes of notes that need no decision; neither does a role.
_NO_COUNTERPART = ("left-out",)
_MOST_KINDS = 6


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    kind: str  # `agent`, `came`, `decide`, `none`
    subject: str
    text: str
    place: str = ""
    way: str = ""


def name_folders(agents: Mapping[str, Document]) -> dict[str, str]:
    """The folder of each agent: its name, with a number where several have one."""
    taken: set[str] = set()
    folders = {}
    for key, agent in agents.items():
        name, number = agent.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{agent.name}-{number}"
        taken.add(name.lower())
        folders[key] = name
    return folders


def leave_out_known(found: Sequence[Diagnostic], agent: Document) -> list[Diagnostic]:
    """The findings about an agent's new folder that its notes do not say already."""
    # What stands for values that are not known is told with these.
    known = [value for one in agent.iter_agents() for value in one.stand_ins.values()]
    return [
        it
        for it in found
        if it.severity != "info" and not any(value in it.message for value in known)
    ]


def iter_rows(
    found: ImportedAgents,
    agents: Mapping[str, Document],
    folders: Mapping[str, Path],
    written: Mapping[str, Mapping[str, Any]],
    checked: Mapping[str, Sequence[Diagnostic]],
    show_path: ShowPath = str,
) -> Iterator[Row]:
    """What came over of each agent, what is to be decided, and what has no counterpart here.

    Args:
        found: What was read.
        agents: The agents that are taken, by what the file calls them.
        folders: Their folders.
        written: What was written of each, as `written` and `removed`.
        checked: The findings about each folder.
        show_path: How a path is shown.
    """
    for key, agent in agents.items():
        same = "" if written[key]["written"] or written[key].get("removed") else " (as it was)"
        yield from _iter_agent_rows(agent, folders[key], same, show_path)
        for one in checked[key]:
            yield Row("decide", one.code[:11], one.message, _place(one, show_path), one.suggestion)
    roles = [it for agent in agents.values() for it in agent.all_notes() if it.code == _ROLE]
    if found.notes or found.unused or roles:
        yield Row("agent", "beside the agents", "")
    yield from (_row_of_note(it, "", show_path) for it in found.notes)
    if roles:
        text = "AWS has the agents' roles, which only `orchestrator push` needs"
        yield Row("none", "roles", text)
    if found.unused:
        yield Row("none", "resources", f"no counterpart: {_list_kinds(found.unused)}")


def _list_kinds(unused: Mapping[str, int]) -> str:
    # What is Bedrock's comes first: that is what somebody may miss.
    kinds = sorted(unused, key=lambda it: ("edrock" not in it, it))
    shown = [f"{it} ×{unused[it]}" if unused[it] > 1 else it for it in kinds[:_MOST_KINDS]]
    more = len(kinds) - _MOST_KINDS
    return ", ".join(shown) + (f" and {_count(more)}" if more > 0 else "")


def _iter_agent_rows(
    agent: Document, folder: Path, same: str, show_path: ShowPath, leader: str = ""
) -> Iterator[Row]:
    place = _join_place(agent.source.file, agent.line, show_path)
    led = f" (led by {leader})" if leader else ""
    yield Row("agent", agent.name, f"→ {show_path(folder)}{led}{same}", place)
    stand_ins = set(agent.stand_ins.values())
    yield from (it for it in _iter_parts(agent.data) if it.text not in stand_ins)
    rows = [_row_of_note(it, agent.name, show_path) for it in agent.notes if it.code != _ROLE]
    yield from sorted(rows, key=lambda it: it.kind)  # what to decide comes first
    seen: set[int] = set()
    for name, member in agent.team.items():
        if id(member) not in seen:
            seen.add(id(member))
            inner = folder / "collaborators" / name
            yield from _iter_agent_rows(member, inner, "", show_path, agent.name)


# What notes are about, for people, by their codes.
_SUBJECTS = {
    "unknown": "not known",
    "knowledge-base": "knowledge",
    "requirements": "packages",
    "binary": "files",
    "left-out": "left out",
    "unread": "not read",
    "duplicate": "twice",
}


def _row_of_note(one: Diagnostic, name: str, show_path: ShowPath) -> Row:
    subject = _SUBJECTS.get(one.code, one.code)
    if one.code == "role":
        text = "AWS has it, and only `orchestrator push` needs it"
        return Row("none", subject, text, _place(one, show_path))
    text = one.message.removeprefix(f"{name}: ").removeprefix(f"{subject}: ")
    kind = "none" if one.code in _NO_COUNTERPART else "decide"
    return Row(kind, subject, text, _place(one, show_path), one.suggestion)


def _place(one: Diagnostic, show_path: ShowPath) -> str:
    return _join_place(one.file, one.line, show_path)


def _join_place(file: str | None, line: int | None, show_path: ShowPath) -> str:
    return ":".join(str(it) for it in (file and show_path(file), line) if it)


def _count(types: int) -> str:
    return f"{types:,} other type{'' if types == 1 else 's'}"


def _iter_parts(data: Mapping[str, Any]) -> Iterator[Row]:
    """What came over of an agent, in a few words each."""
    if model := data.get("foundationModel"):
        yield Row("came", "model", str(model))
    if instruction := data.get("instruction"):
        yield Row("came", "instruction", f"{len(instruction):,} characters")
    stages = (data.get("promptOverrideConfiguration") or {}).get("promptConfigurations") or ()
    if stages:
        yield Row("came", "prompts", ", ".join(str(it.get("promptType")) for it in stages))
    for group in data.get("actionGroups") or ():
        yield Row("came", "actions", f"{group.get('actionGroupName')}: {_describe(group)}")
    for base in data.get("knowledgeBases") or ():
        yield Row("came", "knowledge", str(base.get("knowledgeBaseId")))
    if guardrail := data.get("guardrailConfiguration"):
        named = guardrail.get("file") or guardrail.get("guardrailIdentifier")
        yield Row("came", "guardrail", str(named))
    if data.get("memoryConfiguration"):
        yield Row("came", "memory", ", ".join(_list_memories(data["memoryConfiguration"])))


def _list_memories(memory: Mapping[str, Any]) -> list[str]:
    return [str(it) for it in memory.get("enabledMemoryTypes") or ("on",)]


def _describe(group: Mapping[str, Any]) -> str:
    executor = group.get("actionGroupExecutor") or {}
    if executor.get("lambda"):
        return str(executor["lambda"])
    if executor.get("customControl"):
        return "returns control to the caller"
    return str(group.get("parentActionGroupSignature") or "no executor")
