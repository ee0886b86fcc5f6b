"""A definition → readable YAML: Bedrock's spelling, only what was set, texts as blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.emitter import ScalarAnalysis
from yaml.nodes import ScalarNode

from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.fields import Part
from orchestrator.support.documents import PLAIN_SCALARS


def dump_definition(definition: AgentDefinition) -> str:
    """The text of an `agent.yaml` that reads back as an equal definition.

    It has the members that were set, in Bedrock's spelling and this package's order.
    """
    return dump_data(as_data(definition))


def dump_data(data: Mapping[str, Any]) -> str:
    """Plain data as readable YAML; texts of several lines are blocks."""
    text: str = yaml.dump(
        dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def as_data(part: Part) -> dict[str, Any]:
    """The members that were set, as plain data in Bedrock's spelling."""
    return {
        str(field.alias): _plain(getattr(part, name))
        for name, field in type(part).model_fields.items()
        if name in part.model_fields_set
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return as_data(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


# Texts of several lines are written as blocks: prompts stay readable.
class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def analyze_scalar(self, scalar: str) -> ScalarAnalysis:
        analysis = super().analyze_scalar(scalar)
        # PyYAML has no blocks for tabs and spaces at a line's end; YAML keeps both there.
        if analysis.multiline and not _AWKWARD.search(scalar):
            analysis.allow_block = True
        return analysis


# What YAML does not print, and the line ends besides "\n", which it would change.
_AWKWARD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _represent_text(dumper: _Dumper, text: str) -> ScalarNode:
    style = "|" if "\n" in text else None
    if _AWKWARD.search(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
for _kind, (_pattern, _first) in PLAIN_SCALARS.items():
    # An empty scalar is null too.
    _Dumper.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", _pattern, [*_first, *([""] * (_kind == "null"))]
    )
