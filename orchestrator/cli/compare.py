"""Two agents' prompts, as `render` shows them, side by side; for `diff`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.agents import load_agent
from orchestrator.cli.render import render_lines
from orchestrator.support.content_root import content_root, get_agent_root

if TYPE_CHECKING:
    from orchestrator.transfer import Change, Document


def looks_like_id(text: str) -> bool:
    """Whether an argument may be an agent's id, and not only a folder."""
    # AWS: Id, [0-9a-zA-Z]{10}.
    return re.fullmatch("[0-9a-zA-Z]{10}", text) is not None


def compare_prompts(
    before: Document, after: Document, model: str | None, question: str
) -> list[Change]:
    """The prompts that differ, of every stage that is on, and of the agents that both lead.

    Raises:
        OrchestratorError: One of the agents is wrong, or names no model.
    """
    from orchestrator.transfer import list_changes

    one, other = (dict(_render_team(it, "", model, question)) for it in (before, after))
    return list_changes(one, other)


def _render_team(
    document: Document, prefix: str, model: str | None, question: str
) -> Iterator[tuple[str, str]]:
    file = Path(document.source.file)
    agent = load_agent(file, model)
    for stage, plan in agent.plan.stages.items():
        if plan.enabled:
            prompt = agent.render(stage, question)
            place = _name_template(plan.template.source, get_agent_root(file))
            yield f"{prefix}prompt of {stage}", "\n".join(render_lines(prompt, place))
    for name, member in document.team.items():
        yield from _render_team(member, f"{prefix}collaborators/{name}/", model, question)


def _name_template(source: str | None, root: Path) -> str:
    # Two folders have different paths, which makes no different prompt.
    path = Path(source or "of the definition")
    for folder in (root.resolve(), content_root()):
        if path.resolve().is_relative_to(folder):
            return str(path.resolve().relative_to(folder))
    return path.name
