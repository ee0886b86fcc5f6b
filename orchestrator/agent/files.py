"""Files that are no agents: scripts, and templates in other languages than Bedrock's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.message import Text
from orchestrator.models.base import Model, ModelReply, ModelRequest

if TYPE_CHECKING:
    from orchestrator.agent.flow import Flow
    from orchestrator.agent.template import PromptTemplate
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.engine.rendered_prompt import Prompt


def is_script(path: Path) -> bool:
    """Whether a path is that of a script, or of a folder that has one and no agent."""
    from orchestrator.flows.languages import ENDINGS

    endings = tuple(ENDINGS)
    if path.is_dir():
        named = any(path.glob("agent.*")) or (path / "templates").is_dir()
        return not named and any(one.name.endswith(endings) for one in path.iterdir())
    return path.name.endswith(endings)


def is_template(path: Path) -> bool:
    """Whether a path is that of a template in another language than Bedrock's."""
    from orchestrator.prompts.languages import is_prompt_folder, is_prompt_yaml, language_of
    from orchestrator.prompts.template_files import read_text

    if path.is_dir():
        return is_prompt_folder(path)
    if path.suffix.lower() in (".yaml", ".yml") and language_of(path) is None:
        return path.is_file() and is_prompt_yaml(read_text(path))
    return language_of(path) is not None


def load_template_file(
    path: Path, functions: Mapping[str, Callable[..., Any]] | None = None, *, strict: bool = False
) -> PromptTemplate:
    """Reads a template, which may call these functions.

    With `strict`, an unset variable or a forged mark is an error.

    Raises:
        ResourceNotFound: There is no such file.
        TemplateError: It is wrong, with its place.
    """
    from orchestrator.agent.template import load_template
    from orchestrator.prompts.languages import language_of

    options: dict[str, Any] = {}
    language = language_of(path) or "semantic-kernel"
    if language == "prompty":
        # Semantic Kernel's tags are strict by default; other languages have no such option.
        options = {"strict": True} if strict else {}
    elif language != "ppe" and functions:
        options = {"functions": functions}
    return load_template(path, **options)


def render_template_file(
    template: PromptTemplate, inputs: Mapping[str, Any]
) -> tuple[Prompt, list[Diagnostic]]:
    """The messages of a template with these inputs, and what is doubtful about them.

    Raises:
        TemplateError: It cannot be rendered.
        ValidationError: A required input is missing.
    """
    from orchestrator.engine.rendered_prompt import Prompt
    from orchestrator.prompts.languages.base import check_given_inputs

    document = template.document
    rendered = template.render(inputs)
    system, messages, tools = rendered.converse()
    model_id = str(document.settings.get("model", "any model"))
    inference = document.settings.get("inference", {})
    prompt = Prompt("TEMPLATE", model_id, system, messages, tools, inference)
    found = [*document.diagnostics, *rendered.diagnostics, *check_given_inputs(document, inputs)]
    return prompt, list(dict.fromkeys(found))


class _FirstCallReached(OrchestratorError):
    pass


# A script has no prompt before it runs: so it runs, up to its first model call.
class _CapturingModel(Model):
    def __init__(self, model_id: str) -> None:
        self.model_id = model_id
        self.request: ModelRequest | None = None

    def complete(self, request: ModelRequest) -> ModelReply:
        self.request = self.request or request
        raise _FirstCallReached("no model is asked")


def capture_first_prompt(
    flow: Flow,
    arguments: Mapping[str, Any] | str,
    model: str | None,
    tools: Mapping[str, Callable[..., Any]],
) -> tuple[Prompt, str]:
    """The first prompt that a script sends with these arguments, and where it does.

    Functions that it calls before are called; no model is.

    Raises:
        OrchestratorError: The script fails before it asks a model.
        ValidationError: It asks none.
    """
    from orchestrator.engine.rendered_prompt import Prompt
    from orchestrator.models import resolve_model

    catching = _CapturingModel(resolve_model(model or "local").model_id)
    place = ""
    try:
        for event in flow.stream(arguments, model=catching, tools=tools):
            if event.type == "statement_start":
                place = f"line {event.line}: {event.statement}"
    except OrchestratorError:
        if catching.request is None:
            raise
    request = catching.request
    if request is None:
        raise ValidationError("the script asks no model before it ends, or waits")
    system = request.system if isinstance(request.system, Text) else Text(request.system)
    messages, tools_of_request = list(request.messages), request.tools
    prompt = Prompt(
        "SCRIPT", catching.model_id, system, messages, tools_of_request, request.inference
    )
    return prompt, place
