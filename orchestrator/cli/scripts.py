"""Scripts and templates for `lint` and `render`, which otherwise look at agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.findings import collect_findings
from orchestrator.cli.options import read_input
from orchestrator.errors import OrchestratorError, ValidationError
from orchestrator.message import Text
from orchestrator.models.base import Model, ModelReply, ModelRequest
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
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


def lint_script(path: Path, libraries: Sequence[Path] = ()) -> list[Diagnostic]:
    """What is wrong or doubtful in a script, or in all scripts of a folder."""
    from orchestrator.flows.languages import ENDINGS, Grants, lint_program, read_file

    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.name.endswith(tuple(ENDINGS)))
    found: list[Diagnostic] = []
    for file in files:
        with collect_findings(found):
            found += lint_program(read_file(file, Grants(libraries)))
    return found


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
    path: Path,
    words: Sequence[str],
    model: str | None,
    tool: Sequence[str] | None,
    libraries: Sequence[Path] = (),
) -> tuple[Prompt, str]:
    """The first prompt that a script sends with these arguments, and where it does.

    Functions that it calls before are called; no model is.

    Raises:
        OrchestratorError: The script is wrong, or fails before it asks a model.
        ValidationError: It asks none.
    """
    from orchestrator.agent.flow import load_flow
    from orchestrator.cli.run import load_tools, parse_arguments
    from orchestrator.engine.rendered_prompt import Prompt
    from orchestrator.models import resolve_model

    flow = load_flow(path, libraries=libraries)
    catching = _CapturingModel(resolve_model(model or "local").model_id)
    options: dict[str, Any] = {"model": catching, "tools": load_tools(tool)}
    place = ""
    try:
        for event in flow.stream(parse_arguments(words, flow), **options):
            if event.type == "statement_start":
                place = f"line {event.line}: {event.statement}"
    except OrchestratorError:
        if catching.request is None:
            raise
    request = catching.request
    if request is None:
        raise ValidationError("the script asks no model before it ends, or waits")
    system = request.system if isinstance(request.system, Text) else Text(request.system)
    messages, tools = list(request.messages), request.tools
    prompt = Prompt("SCRIPT", catching.model_id, system, messages, tools, request.inference)
    return prompt, place


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


def lint_template_file(path: Path, *, strict: bool = False) -> list[Diagnostic]:
    """What is wrong or doubtful in a template.

    Raises:
        ResourceNotFound: There is no such file.
    """
    from orchestrator.prompts.languages.base import check_declared_inputs

    found: list[Diagnostic] = []
    with collect_findings(found):
        document = load_template_file(path, strict=strict).document
        found += [*document.diagnostics, *check_declared_inputs(document)]
    return found


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
    from orchestrator.cli.run import load_tools
    from orchestrator.engine.rendered_prompt import Prompt
    from orchestrator.prompts.languages.base import check_given_inputs

    template = load_template_file(path, load_tools(tool, dotted=True), strict=strict)
    document, inputs = template.document, read_template_inputs(words, template)
    rendered = template.render(inputs)
    system, messages, tools = rendered.converse()
    model_id = str(document.settings.get("model", "any model"))
    inference = document.settings.get("inference", {})
    prompt = Prompt("TEMPLATE", model_id, system, messages, tools, inference)
    found = [*document.diagnostics, *rendered.diagnostics, *check_given_inputs(document, inputs)]
    return prompt, list(dict.fromkeys(found))
