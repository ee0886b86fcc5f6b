"""Looks into an agent's folder, and those of the agents that it leads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.agent.lint.scripts import lint_script
from orchestrator.agent.lint.templates import TemplateLint
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError
from orchestrator.support.content_root import get_agent_root
from orchestrator.support.findings import as_findings, collect_findings
from orchestrator.support.spelling import did_you_mean

if TYPE_CHECKING:
    from orchestrator.agent.build import Attempt
    from orchestrator.definition import AgentDefinition


def lint_agent(folder: Path, model: str | None = None, *, strict: bool = False) -> list[Diagnostic]:
    """Checks an agent, and those that it leads, without running a turn or needing its models.

    The agent is built as `Agent.load` builds it, so what keeps it from loading is found. Python
    files that action groups name with `python:` are run, since their functions are the group;
    handlers and parsers are not.

    Returns:
        The findings in the order of their places.

    Raises:
        ResourceNotFound: There is nothing at `folder`.
    """
    found: list[Diagnostic] = []
    attempts: list[Attempt] = []
    with collect_findings(found):
        attempts = _try_build(folder, model)
    try:
        by_folder = {attempt.source.folder: attempt for attempt in reversed(attempts)}
        found += _lint_folder(folder, model, strict, by_folder, 1)
        known = [(it.file, it.line, it.column) for it in found if it.severity == "error"]
        for mistake in (it for attempt in attempts for it in _find_mistakes(attempt)):
            # A template is looked into more closely above than when it is built.
            if (mistake.file, mistake.line, mistake.column) not in known or mistake.file is None:
                found.append(mistake)
    finally:
        for attempt in attempts:
            attempt.close()
    return sorted(
        dict.fromkeys(found), key=lambda it: (it.file or "", it.line or 0, it.column or 0)
    )


def _try_build(folder: Path, model: str | None) -> list[Attempt]:
    from orchestrator.agent.build import source_from_folder, try_build
    from orchestrator.models.scripted_model import ScriptedModel

    source = source_from_folder(folder, model=model)
    # Without a model it loads with one that is given.
    stand_in = model or source.definition.foundation_model
    return try_build(source if stand_in else replace(source, model=ScriptedModel(())))


def _find_mistakes(attempt: Attempt) -> Iterator[Diagnostic]:
    for error in attempt.mistakes:
        if isinstance(error, DefinitionError):
            yield from as_findings(error)
        else:
            yield attempt.source.definition.source.diagnostic("error", "load", error.message)


def _lint_folder(
    folder: Path,
    model: str | None,
    strict: bool,
    attempts: Mapping[Path | None, Attempt],
    level: int,
) -> list[Diagnostic]:
    from orchestrator.definition import lint_collaborator, lint_definition, load_definition

    found: list[Diagnostic] = []
    definition: AgentDefinition | None = None
    root = get_agent_root(folder)
    with collect_findings(found):
        definition = load_definition(folder)
        found += lint_definition(definition)
        found += lint_collaborator(definition) if level > 1 else _check_model(definition, model)
        if (attempt := attempts.get(root)) is not None:
            found += _check_patterns(attempt)
            found += _find_appended_tools(attempt)
            found += _lint_script(attempt)
        found += _lint_team(definition, model, strict, attempts, level)
    found += TemplateLint(root, definition, model, strict).lint()
    return found


def _check_model(definition: AgentDefinition, model: str | None) -> Iterator[Diagnostic]:
    if model is None and definition.foundation_model is None:
        text = "the agent names no foundationModel, and needs one to run"
        way = "name one, such as `foundationModel: local`, or give one with --model"
        yield definition.source.diagnostic("info", "no-model", text, suggestion=way)


def _check_patterns(attempt: Attempt) -> Iterator[Diagnostic]:
    from orchestrator.actions.coercion import find_unchecked_patterns

    definition = attempt.source.definition
    groups = {it.name: it for it in attempt.parts.get("groups", ())}
    for index, group in enumerate(definition.action_groups):
        executor = group.action_group_executor
        if executor is not None and executor.mcp is not None:  # the server checks its arguments
            continue
        built = groups.get(group.action_group_name)
        for operation in built.operations if built else ():
            for pattern, why in find_unchecked_patterns(operation.schema):
                text = (
                    f"the pattern {pattern[:80]!r} of {operation.name!r} is not checked ({why}); "
                    "write it without, or check the argument in the action"
                )
                at = ("actionGroups", index, "actionGroupName")
                yield definition.source.diagnostic("warning", "pattern", text, *at)


def _find_appended_tools(attempt: Attempt) -> list[Diagnostic]:
    from orchestrator.prompts.appended_tools import APPENDED_TOOLS

    findings = attempt.agent.diagnostics if attempt.agent is not None else ()
    return [one for one in findings if one.code == APPENDED_TOOLS]


def _lint_script(attempt: Attempt) -> list[Diagnostic]:
    from orchestrator.definition.files import locate

    definition = attempt.source.definition
    if definition.orchestration is None:
        return []
    # Every turn passes these two.
    inputs = ("question", "content")
    found = lint_script(locate(definition, definition.orchestration, ("orchestration",)))
    found = [one for one in found if one.code != "argument" or _extract_name(one) not in inputs]
    if not {"groups", "knowledge_bases"} <= attempt.parts.keys():
        return found
    return list(_check_calls(found, _list_callable_names(attempt)))


def _check_calls(found: Sequence[Diagnostic], known: set[str]) -> Iterator[Diagnostic]:
    # The functions of the agent are there, whatever the program's own lint says of them.
    for one in found:
        name = _extract_name(one)
        if one.code == "function" and name not in known:
            text = f"the agent has no action @{name}(...){did_you_mean(name, known)}"
            yield replace(one, severity="warning", message=text, suggestion="")
        elif one.code != "function":
            yield one


def _list_callable_names(attempt: Attempt) -> set[str]:
    from orchestrator.definition import collaborators_of

    names: set[str] = set()
    for one in (it for group in attempt.parts["groups"] for it in group.operations):
        names |= {one.name, f"{one.group}__{one.name}", one.tool_use_name}
    bases = attempt.parts["knowledge_bases"]
    names |= {"search", *(one.id for one in bases)} if bases else set()
    names |= {one.collaborator_name for one in collaborators_of(attempt.source.definition)}
    return {re.sub(r"\W", "_", name) for name in names}


def _extract_name(finding: Diagnostic) -> str:
    return finding.message.split()[0].lstrip("$@")


def _lint_team(
    definition: AgentDefinition,
    model: str | None,
    strict: bool,
    attempts: Mapping[Path | None, Attempt],
    level: int,
) -> Iterator[Diagnostic]:
    from orchestrator.definition import collaborators_of
    from orchestrator.definition.files import locate_folder
    from orchestrator.engine.plan import MOST_LEVELS

    for index, member in enumerate(collaborators_of(definition)):
        where = member.agent_descriptor
        if where is None or where.folder is None or level == MOST_LEVELS:
            continue
        at = ("agentCollaborators", index, "agentDescriptor", "folder")
        folder = locate_folder(definition, where.folder, at)
        yield from _lint_folder(folder, model, strict, attempts, level + 1)
