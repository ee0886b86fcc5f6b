"""What an import brought, in one table: what came over, what to decide, what has no counterpart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.findings import format_path
from orchestrator.cli.terminal import Terminal, assemble, clean, format_count

if TYPE_CHECKING:
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.transfer import Document
    from orchestrator.transfer.sources import ImportedAgents

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


def show_import(
    terminal: Terminal,
    found: ImportedAgents,
    agents: Mapping[str, Document],
    folders: Mapping[str, Path],
    written: Mapping[str, Mapping[str, Any]],
    checked: Mapping[str, Sequence[Diagnostic]],
) -> None:
    """Writes the table."""
    decisions: set[tuple[str, str]] = set()
    for number, row in enumerate(_iter_rows(found, agents, folders, written, checked)):
        if row.kind == "agent" and number:
            terminal.print()
        # One value that several agents need is one decision.
        again = row.kind == "decide" and (row.text, row.way) in decisions
        _show_row(terminal, _shorten(row) if again else row)
        if row.kind == "decide":
            decisions.add((row.text, row.way))
    _show_summary(terminal, len(agents), found.format, len(decisions))


def _shorten(row: Row) -> Row:
    return replace(row, place=f"{row.place} (as above)".lstrip(), way="")


_MARKS = {
    "agent": ("", "name"),
    "came": ("✓", "good"),
    "decide": ("!", "warning"),
    "none": ("–", "quiet"),
}


_INDENT = 14  # of what stands beside the mark and the subject


def _show_row(terminal: Terminal, row: Row) -> None:
    mark, style = _MARKS[row.kind]
    own = {"agent": "name", "none": "quiet"}.get(row.kind, "")
    head = row.subject if row.kind == "agent" else f"{row.subject:<11}"
    first = assemble((mark, style), " " if mark else "", (clean(head), own), " ")
    text = assemble((clean(row.text), own))
    if row.place:
        text.append(f"  {clean(row.place)}", "quiet")
    width = max(terminal.out.width - _INDENT, 30)
    for number, line in enumerate(text.wrap(terminal.out, width)):
        whole = assemble(first if number == 0 else " " * _INDENT, line)
        whole.rstrip()
        terminal.path(whole)
    if row.way:
        way = assemble(("= ", "quiet"), (clean(row.way), "good"))
        terminal.block(way, _INDENT)


def _show_summary(terminal: Terminal, count: int, form: str, decisions: int) -> None:
    text = f"\n{format_count(count, 'agent')} from {form}"
    todo = f"{format_count(decisions, 'decision')} to take" if decisions else "nothing to decide"
    terminal.print(assemble(text, ", ", (todo, "warning" if decisions else "good")))


def _iter_rows(
    found: ImportedAgents,
    agents: Mapping[str, Document],
    folders: Mapping[str, Path],
    written: Mapping[str, Mapping[str, Any]],
    checked: Mapping[str, Sequence[Diagnostic]],
) -> Iterator[Row]:
    for key, agent in agents.items():
        same = "" if written[key]["written"] or written[key].get("removed") else " (as it was)"
        yield from _iter_agent_rows(agent, folders[key], same)
        for one in checked[key]:
            yield Row("decide", one.code[:11], one.message, _place(one), one.suggestion)
    roles = [it for agent in agents.values() for it in agent.all_notes() if it.code == _ROLE]
    if found.notes or found.unused or roles:
        yield Row("agent", "beside the agents", "")
    yield from map(_row_of_note, found.notes)
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
    return ", ".join(shown) + (f" and {format_count(more, 'other type')}" if more > 0 else "")


def _iter_agent_rows(agent: Document, folder: Path, same: str, leader: str = "") -> Iterator[Row]:
    place = _join_place(agent.source.file, agent.line)
    led = f" (led by {leader})" if leader else ""
    yield Row("agent", agent.name, f"→ {format_path(folder)}{led}{same}", place)
    stand_ins = set(agent.stand_ins.values())
    yield from (it for it in _iter_parts(agent.data) if it.text not in stand_ins)
    rows = [_row_of_note(it, agent.name) for it in agent.notes if it.code != _ROLE]
    yield from sorted(rows, key=lambda it: it.kind)  # what to decide comes first
    seen: set[int] = set()
    for name, member in agent.team.items():
        if id(member) not in seen:
            seen.add(id(member))
            inner = folder / "collaborators" / name
            yield from _iter_agent_rows(member, inner, "", agent.name)


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


def _row_of_note(one: Diagnostic, name: str = "") -> Row:
    subject = _SUBJECTS.get(one.code, one.code)
    if one.code == "role":
        return Row(
            "none", subject, "AWS has it, and only `orchestrator push` needs it", _place(one)
        )
    text = one.message.removeprefix(f"{name}: ").removeprefix(f"{subject}: ")
    kind = "none" if one.code in _NO_COUNTERPART else "decide"
    return Row(kind, subject, text, _place(one), one.suggestion)


def _place(one: Diagnostic) -> str:
    return _join_place(one.file, one.line)


def _join_place(file: str | None, line: int | None) -> str:
    return ":".join(str(it) for it in (file and format_path(file), line) if it)


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
