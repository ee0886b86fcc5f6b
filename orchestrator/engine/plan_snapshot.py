"""Plans as JSON: what a plan's prompts are made of, kept by digest beside the sessions.

A journal has values and replies, and no template. With the snapshot of the plan that a turn ran
with, its prompts are shown as they were sent, whatever became of the agent's files since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchestrator.engine.plan import Plan, StagePlan
from orchestrator.errors import OrchestratorError
from orchestrator.message import make_json_encoder
from orchestrator.prompts import Dialect, compile_template, load_dialect
from orchestrator.prompts.appended_tools import append_tools, read_appended_tools
from orchestrator.prompts.template_files import get_shipped_folder
from orchestrator.support.safe_json import json_or

_VERSION = 1

# ASCII: what has half a surrogate pair in it is kept, too.
_encode = make_json_encoder(ensure_ascii=True)


def take_snapshot(plan: Plan) -> str:
    """The snapshot of a plan and its team, as JSON text."""
    return _encode(_describe_plan(plan))


def _describe_plan(plan: Plan) -> dict[str, Any]:
    return {
        "v": _VERSION,
        "digest": plan.digest,
        "stages": {name: _describe_stage(stage) for name, stage in plan.stages.items()},
        "team": {
            member.name: _describe_plan(member.agent)
            for member in plan.features.collaborators
            if member.agent is not None
        },
    }


def _describe_stage(stage: StagePlan) -> dict[str, Any]:
    template = stage.template
    return {
        "enabled": stage.enabled,
        "dialect": stage.dialect.name,
        "model": stage.model.model_id,
        "template": template.text,
        "source": template.source,
        "language": template.language,
        "fixed": dict(stage.fixed),
        "appended": None if stage.appended is None else dict(stage.appended),
        "inference": dict(stage.inference),
        "tools": list(stage.tools),
        "tools_in_prompt": stage.tools_in_prompt,
        "creation_mode": stage.creation_mode,
    }


def restore_plan(plan: Plan, snapshot: str) -> Plan | None:
    """The plan with the prompts of a snapshot; `None` where that cannot be read any more.

    Models, actions and parsers are those of `plan`: a past turn asks none of them.
    """
    found = json_or(snapshot, None)
    try:
        return _restore(plan, found)
    except (OrchestratorError, LookupError, TypeError, AttributeError):
        return None


def _restore(plan: Plan, found: Mapping[str, Any]) -> Plan:
    stages = {
        name: _restore_stage(stage, found["stages"][name]) if name in found["stages"] else stage
        for name, stage in plan.stages.items()
    }
    team = [
        replace(member, agent=_restore(member.agent, found["team"][member.name]))
        if member.agent is not None and member.name in found["team"]
        else member
        for member in plan.features.collaborators
    ]
    features = replace(plan.features, collaborators=team) if team else plan.features
    return replace(plan, stages=stages, features=features, digest=found["digest"])


def _restore_stage(stage: StagePlan, found: Mapping[str, Any]) -> StagePlan:
    dialect = _find_dialect(stage, found["dialect"], found["model"])
    template = compile_template(
        found["template"],
        stage=stage.stage,
        dialect=dialect,
        source=found["source"],
        language=None if found["language"] == "bedrock" else found["language"],
    )
    if found["appended"] is not None:
        added, _ = read_appended_tools(dialect)
        template = append_tools(template, added, found["appended"], found["model"])
    return replace(
        stage,
        enabled=found["enabled"],
        dialect=dialect,
        template=template.fill_fixed(found["fixed"]),
        inference=found["inference"],
        tools=found["tools"],
        tools_in_prompt=found["tools_in_prompt"],
        creation_mode=found["creation_mode"],
    )


def _find_dialect(stage: StagePlan, name: str, model_id: str) -> Dialect:
    if stage.dialect.name == name:
        return stage.dialect
    shipped = get_shipped_folder()
    own = next((it.root for it in stage.dialect.places if it.root != shipped), None)
    return load_dialect(name, own, model_id=model_id)
