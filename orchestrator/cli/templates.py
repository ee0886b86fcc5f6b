"""Templates of other languages for `lint` and `render`, which otherwise look at agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.findings import as_findings
from orchestrator.cli.options import parse_pairs
from orchestrator.errors import DefinitionError

if TYPE_CHECKING:
    from orchestrator.agent.render import Prompt
    from orchestrator.diagnostics import Diagnostic


def is_template(path: Path) -> bool:
    """Whether a path is that of a template in another language than Bedrock's."""
    from orchestrator.prompts.languages import language_of

    return language_of(path) is not None and not path.is_dir()


def lint_template_file(path: Path) -> list[Diagnostic]:
    """What is wrong or doubtful in a template.

    Raises:
        ResourceNotFound: There is no such file.
    """
    from orchestrator.prompts import load_template
    from orchestrator.prompts.languages.inputs import check_declared_inputs

    try:
        document = load_template(path)
    except DefinitionError as error:
        return list(as_findings(error))
    return [*document.diagnostics, *check_declared_inputs(document)]


def template_prompt(path: Path, words: Sequence[str]) -> tuple[Prompt, list[Diagnostic]]:
    """The messages of a template, and what is doubtful about them.

    Args:
        path: Its file.
        words: Its inputs, each `name=value`; a value that is a list or a map of JSON is that.

    Raises:
        ResourceNotFound: There is no such file.
        TemplateError: It is wrong, or cannot be rendered.
        ValidationError: A required input is missing, or a word is no `name=value`.
    """
    from orchestrator.agent.render import Prompt
    from orchestrator.prompts import load_template
    from orchestrator.prompts.languages.inputs import check_given_inputs

    document = load_template(path)
    inputs = {
        name: _parse_value(text) for name, text in parse_pairs(list(words), "an input").items()
    }
    rendered = document.render(inputs)
    system, messages, tools = rendered.converse()
    model_id = str(document.settings.get("model", "any model"))
    inference = document.settings.get("inference", {})
    prompt = Prompt("TEMPLATE", model_id, system, messages, tools, inference)
    found = [*document.diagnostics, *rendered.diagnostics, *check_given_inputs(document, inputs)]
    return prompt, list(dict.fromkeys(found))


def _parse_value(text: str) -> Any:
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
