"""A change in the text of an `agent.yaml` that leaves everything else, comments too, as it is."""

from __future__ import annotations

import json
import re
from typing import Any

from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.dump import as_data, dump_data
from orchestrator.definition.files import PROMPTS, parse_text
from orchestrator.definition.load import parse_definition
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Place

# What YAML may write for a value that is replaced: a quoted text or a word.
_SCALAR = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[^\s#,{}\[\]]+")


def template_members(stage: str, template: str) -> dict[str, str]:
    """The members of `promptConfigurations` that have a stage run with a template of a file."""
    return {
        "promptType": stage,
        "promptCreationMode": "OVERRIDDEN",
        "promptState": "ENABLED",
        "basePromptTemplateFile": template,
    }


def name_template(text: str, file: str, stage: str, template: str) -> str | None:
    """The text of a definition, changed so that a stage runs with the template of a file.

    Args:
        text: The definition, as YAML, or as JSON when `file` ends in `.json`.
        file: Its name.
        stage: The prompt type.
        template: The template's file, relative to the agent's folder.

    Returns:
        The new text; `None` when it is written in a way in which this cannot be inserted, such as
        lists in brackets, or an anchor.

    Raises:
        DefinitionError: The definition is wrong as it is.
    """
    before = parse_definition(text, file=file)
    if file.endswith(".json"):
        changed = _change_json(text, file, stage, template)
    else:
        changed = _change_yaml(text, before, stage, template)
    # YAML can be written in more ways than are known here: the result counts.
    try:
        after = parse_definition(changed, file=file)
    except DefinitionError:
        return None
    return changed if as_data(after) == _with_template(before, stage, template) else None


def _with_template(definition: AgentDefinition, stage: str, template: str) -> dict[str, Any]:
    data = as_data(definition)
    _add_members(data, stage, template)
    return data


def _add_members(agent: dict[str, Any], stage: str, template: str) -> None:
    prompts = agent.setdefault(PROMPTS[0], {}).setdefault(PROMPTS[1], [])
    mine = next((it for it in prompts if it.get("promptType") == stage), None)
    if mine is None:
        prompts.insert(0, mine := {})
    mine.update(template_members(stage, template))


def _change_json(text: str, file: str, stage: str, template: str) -> str:
    data, _ = parse_text(text, file)
    # A dump of GetAgent has it one level deeper.
    _add_members(data.get("agent", data), stage, template)
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def _change_yaml(text: str, definition: AgentDefinition, stage: str, template: str) -> str:
    source = definition.source
    lines = text.removesuffix("\n").split("\n")
    members = template_members(stage, template)
    overrides, there = source.find(PROMPTS[:1])
    prompts, listed = source.find(PROMPTS)
    index = next((n for n, it in enumerate(definition.prompts) if it.prompt_type == stage), None)
    if overrides is None or not there:
        lines += _write_block({PROMPTS[0]: {PROMPTS[1]: [members]}}, 0)
    elif prompts is None or not listed:
        block = _write_block({PROMPTS[1]: [members]}, _find_indent(overrides))
        _insert_after_key(lines, overrides, block)
    elif index is not None:
        _set_members(lines, prompts.children[index], members)
    else:
        _insert_after_key(lines, prompts, _write_block([members], _find_dash(lines, prompts)))
    return "\n".join(lines) + "\n"


def _write_block(data: Any, indent: int) -> list[str]:
    text = dump_data(data) if isinstance(data, dict) else dump_data({"list": data})
    block = text.rstrip("\n").split("\n")
    if not isinstance(data, dict):
        block = [line.removeprefix("  ") for line in block[1:]]
    return [" " * indent + line for line in block]


def _find_indent(place: Place) -> int:
    return min((it.key[1] for it in place.children.values() if it.key), default=1) - 1


def _find_dash(lines: list[str], prompts: Place) -> int:
    first = prompts.children.get(0)
    return max(lines[first.line - 1].rfind("-", 0, first.column - 1), 0) if first else 0


def _insert_after_key(lines: list[str], place: Place, block: list[str]) -> None:
    # What stands first under a member may have a comment above it, which must stay with it.
    line = place.key[0] if place.key else place.line
    lines[line:line] = block


def _set_members(lines: list[str], item: Place, members: dict[str, str]) -> None:
    missing = []
    for name, value in members.items():
        place = item.child(name)
        if place is None:
            missing.append(f"{' ' * (item.column - 1)}{name}: {value}")
        else:
            line, start = lines[place.line - 1], place.column - 1
            lines[place.line - 1] = line[:start] + _SCALAR.sub(value, line[start:], 1)
    kind = item.child("promptType")
    after = kind.line if kind is not None else item.line
    lines[after:after] = missing
