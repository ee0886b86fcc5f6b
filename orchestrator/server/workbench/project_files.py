"""Templates and scripts in an agent's folder that are no stage's: found, shown, rendered and run.

What `orchestrator lint`, `render` and `run` do with one of them, its page does, by the same code.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import (
    DefinitionError,
    FlowError,
    OrchestratorError,
    ResourceNotFound,
    ValidationError,
)
from orchestrator.message import to_json
from orchestrator.server.runtime.invoke import run_blocking
from orchestrator.server.workbench.chat import stream_events
from orchestrator.server.workbench.evaluation_files import key_of
from orchestrator.server.workbench.lines import to_line
from orchestrator.server.workbench.projects import Project, walk_files
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from orchestrator.agent.flow import Flow
    from orchestrator.agent.flow_run import FlowEvent, FlowResult
    from orchestrator.agent.template import PromptTemplate
    from orchestrator.diagnostics import Diagnostic
    from orchestrator.engine.rendered_prompt import Prompt
    from orchestrator.models import Model

_MOST_LISTED = 500
_MOST_BYTES = 1_000_000
_MOST_INPUTS = 100
# What stages read is on the page of the definition.
_STAGE_FOLDERS = ("templates", "memory")
_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A template or a script."""

    key: str
    name: str  # relative to the agent's folder
    path: Path
    kind: str  # `template` or `script`
    language: str


def list_project_files(project: Project) -> list[ProjectFile]:
    """The templates and scripts of an agent's folder, by name."""
    found = list(_iterate(project.folder))
    return sorted(found, key=lambda one: one.name)[:_MOST_LISTED]


def find_project_file(project: Project, key: str) -> ProjectFile:
    """One of these.

    Raises:
        ResourceNotFound: There is none.
    """
    for one in _iterate(project.folder):
        if one.key == key:
            return one
    raise ResourceNotFound("the agent's folder has no such template or script")


def _iterate(folder: Path) -> Iterator[ProjectFile]:
    for root, name in walk_files(folder):
        file = Path(root, name)
        parts = file.relative_to(folder).parts
        if _STAGE_FOLDERS[0] in parts[:-1] or _STAGE_FOLDERS[1] in parts[:-1]:
            continue
        if file.is_symlink() or (kind := _find_kind(file)) is None:
            continue
        shown = file.relative_to(folder).as_posix()
        yield ProjectFile(key_of(folder, file), shown, file, *kind)


def _find_kind(file: Path) -> tuple[str, str] | None:
    from orchestrator.agent.files import is_script, is_template
    from orchestrator.flows.languages import ENDINGS
    from orchestrator.prompts.languages import language_of

    try:
        if is_script(file):
            return "script", next(one for end, one in ENDINGS.items() if file.name.endswith(end))
        if file.suffix in _ENDINGS and file.stat().st_size > _MOST_BYTES:
            return None
        if is_template(file):
            return "template", language_of(file) or "semantic-kernel"
    except (OSError, OrchestratorError):  # no text, or not to be read
        return None
    return None


def read_text_of(file: ProjectFile) -> str:
    """The text of a file.

    Raises:
        DefinitionError: It is too large.
    """
    with file.path.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise DefinitionError(f"it has more than {_MOST_BYTES:,} bytes", file=file.path)
    return content.decode("utf-8-sig", "replace")


def lint_project_file(file: ProjectFile) -> list[Diagnostic]:
    """What `orchestrator lint` says of it."""
    from orchestrator.agent.lint import lint_script, lint_template_file

    return lint_script(file.path) if file.kind == "script" else lint_template_file(file.path)


def list_inputs(file: ProjectFile) -> list[dict[str, Any]]:
    """The inputs of a template, or the arguments of a script; none of one that is wrong."""
    try:
        if file.kind == "script":
            program = _load_flow(file).program
            names = [*program.arguments()[0]]
            text = program.text_input if program.language == "ppe" else ""
            names += [text] if text and text not in names else []
            return [{"name": one, "kind": "", "required": False, "default": ""} for one in names]
        return [
            {
                "name": one.name,
                "kind": one.kind,
                "required": one.required,
                "default": "" if one.default is None else _to_text(one.default),
            }
            for one in _load_template(file).inputs
        ]
    except OrchestratorError:
        return []


def _to_text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def read_inputs(given: Any, file: ProjectFile) -> dict[str, Any]:
    """Inputs as a form has them: texts, of which those that are JSON are read as such.

    Raises:
        ValidationError: They are no object of texts.
    """
    if not isinstance(given, dict) or len(given) > _MOST_INPUTS:
        raise ValidationError("'inputs' must be an object of texts")
    if not all(isinstance(value, str) for value in given.values()):
        raise ValidationError("'inputs' must be an object of texts")
    # As on the command line: a template's text stays one, unless it is a list or a map.
    return {
        name: json_or(value, value)
        if file.kind == "script" or value.strip()[:1] in ("[", "{")
        else value
        for name, value in given.items()
        if value != ""
    }


def render_project_file(
    file: ProjectFile, inputs: Mapping[str, Any], model: str | Model | None
) -> tuple[Prompt, list[Diagnostic], str]:
    """The messages of a template, or the first prompt of a script, with findings and a place.

    Raises:
        OrchestratorError: It is wrong, an input is missing, or a script asks no model.
    """
    from orchestrator.agent.files import capture_first_prompt, render_template_file

    if file.kind == "template":
        return *render_template_file(_load_template(file), inputs), ""
    name = model if isinstance(model, str) or model is None else model.model_id
    prompt, place = capture_first_prompt(_load_flow(file), inputs, name, {})
    return prompt, [], place


def _load_template(file: ProjectFile) -> PromptTemplate:
    from orchestrator.agent.files import load_template_file

    return load_template_file(file.path)


def _load_flow(file: ProjectFile) -> Flow:
    from orchestrator.agent.flow import load_flow

    return load_flow(file.path)


async def run_project_file(
    file: ProjectFile, inputs: Mapping[str, Any], model: str | Model | None
) -> AsyncGenerator[bytes, None]:
    """The events of a run as lines; closing it stops the run.

    Raises:
        OrchestratorError: It is wrong, or has no model.
    """
    if file.kind == "script":
        flow = await run_blocking(_load_flow, file)
        events = flow.astream(inputs, model=model or "local")
        async with aclosing(_stream_flow(events)) as lines:
            async for line in lines:
                yield line
        return
    from orchestrator.agent.template_model import names_model

    template = await run_blocking(_load_template, file)
    if model is None and not names_model(template.document):
        model = "local"
    async with aclosing(stream_events(template.astream(inputs, model=model))) as lines:
        async for line in lines:
            yield line


async def resume_project_file(
    file: ProjectFile, body: Mapping[str, Any], model: str | Model | None
) -> AsyncGenerator[bytes, None]:
    """The events of a script that goes on: with its `state`, and a `mode`, `text` or `results`.

    Raises:
        OrchestratorError: The state is another script's, or it waits for something else.
    """
    state = json_or(body["state"], None) if isinstance(body.get("state"), str) else None
    if file.kind != "script" or not isinstance(state, dict):
        raise ValidationError("'state' must be that of a script which waits")
    options: dict[str, Any] = {name: body[name] for name in ("mode", "text") if body.get(name)}
    if body.get("results") is not None:
        options["results"] = body["results"]
    flow = await run_blocking(_load_flow, file)
    events = flow.aresume_stream(state, model=model or "local", **options)
    async with aclosing(_stream_flow(events)) as lines:
        async for line in lines:
            yield line


async def _stream_flow(events: AsyncGenerator[FlowEvent, None]) -> AsyncGenerator[bytes, None]:
    yield b""
    async with aclosing(events):
        try:
            async for event in events:
                yield to_line({**event.as_dict(), "type": "flow", "kind": event.type})
                if event.result is not None:
                    yield to_line(_describe_result(event.result))
        except OrchestratorError as error:
            place = f"line {error.line}: " if isinstance(error, FlowError) and error.line else ""
            yield to_line({"type": "error", "message": f"{place}{error.message}"})


def _describe_result(result: FlowResult) -> dict[str, Any]:
    return {
        "type": "end",
        "output": result.output,
        "variables": dict(result.variables),
        "waits_for": result.waits_for,
        "question": result.question,
        "line": result.line,
        "statement": result.statement,
        # As text, for it is signed: a browser rounds large numbers of JSON.
        "state": None if result.paused is None else to_json(result.paused),
        "usage": result.reply.usage._asdict(),
    }
