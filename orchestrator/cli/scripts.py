"""Scripts and templates of a command line: their arguments, and the prompts of `render`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.options import read_input
from orchestrator.errors import ValidationError
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from orchestrator.agent.template import PromptTemplate
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.engine.rendered_prompt import Prompt


def capture_first_prompt(
    path: Path,
    words: Sequence[str],
    model: str | None,
    tool: Sequence[str] | None,
    libraries: Sequence[Path] = (),
) -> tuple[Prompt, str]:
    """The first prompt that a script sends with these words, and where; as `agent.files` has it.

    Raises:
        OrchestratorError: The script is wrong, or fails before it asks a model.
        ValidationError: It asks none.
    """
    from orchestrator.agent import files
    from orchestrator.agent.flow import load_flow
    from orchestrator.cli.run import load_tools, parse_arguments

    flow = load_flow(path, libraries=libraries)
    return files.capture_first_prompt(flow, parse_arguments(words, flow), model, load_tools(tool))


def read_template_inputs(words: Sequence[str], template: PromptTemplate) -> dict[str, Any]:
    """The inputs that words of a command line mean: `NAME=VALUE`, `NAME=@FILE`, or one text.

    A list or a map of JSON is read as such. A text alone is the input that is the question.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: A word means no input.
    """
    from orchestrator.agent.template_chat import ChatInputs

    found: dict[str, Any] = {}
    texts = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            texts.append(word)
            continue
        value = read_input(value[1:]) if value.startswith("@") else value
        found[name] = json_or(value, value) if value.strip()[:1] in ("[", "{") else value
    if not texts:
        return found
    question = ChatInputs(template.document, found).question
    if len(texts) > 1 or question is None:
        names = ", ".join(one.name for one in template.inputs[:20]) or "none"
        raise ValidationError(f"{texts[-1]!r} is not NAME=VALUE; the template's inputs: {names}")
    return {**found, question: texts[0]}


def template_prompt(
    path: Path, words: Sequence[str], tool: Sequence[str] | None = None, *, strict: bool = False
) -> tuple[Prompt, list[Diagnostic]]:
    """The messages of a template, and what is doubtful about them.

    The words are inputs, as `read_template_inputs` reads them.

    Raises:
        ResourceNotFound: There is no such file.
        TemplateError: It is wrong, or cannot be rendered.
        ValidationError: A required input is missing, or a word means no input.
    """
    from orchestrator.agent import files
    from orchestrator.cli.run import load_tools

    template = files.load_template_file(path, load_tools(tool, dotted=True), strict=strict)
    return files.render_template_file(template, read_template_inputs(words, template))
