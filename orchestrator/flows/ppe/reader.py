"""Reads a script, whole, before anything of it runs."""

from __future__ import annotations

from typing import Any

from orchestrator.flows.ppe.data import Source, data_of, split_front_matter
from orchestrator.flows.ppe.nodes import Link, Script
from orchestrator.flows.ppe.settings import settings_of, style_of
from orchestrator.flows.ppe.statement_reader import StatementReader
from orchestrator.flows.steps import Place


def read_script(text: str, id: str = "", file: str | None = None) -> Script:
    """Reads a script.

    Raises:
        FlowError: It is wrong, with line and column.
    """
    front_source, body = split_front_matter(text, file)
    front: Any = {}
    if front_source is not None:
        node = front_source.compose()
        front = data_of(node, front_source) if node is not None else {}
        if not isinstance(front, dict):
            front_source.fail(
                front_source.place(0), "the front matter is a mapping", "front matter 须是字典"
            )
    source = front_source or body
    settings = settings_of(front, source)
    reader = StatementReader(file, style_of(front, source), settings)
    reader.warnings += _without_effect(front, source)
    statements = reader.front_messages(front, source) + reader.body(body)
    tools = [Link(source.place(0), name, False) for name in settings.tools]
    return Script(
        id,
        file,
        front,
        statements,
        [*reader.calls, *tools],
        reader.warnings,
        settings,
        reader.biases,
    )


def _without_effect(front: dict[str, Any], source: Source) -> list[tuple[Place, str]]:
    """What the front matter asks for and does not get."""
    if not front.get("export"):
        return []
    told = "'export' has no effect but for tools: scripts beside one another know each other"
    return [(source.place(0), told)]
