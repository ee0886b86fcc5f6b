"""The files that a definition names: confined to the agent's folder, found early, read late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from orchestrator.definition.action_group import ActionGroupDefinition
from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.fields import Document
from orchestrator.definition.validation_errors import path_of
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError
from orchestrator.message import clean
from orchestrator.support.documents import MAX_BYTES, Keys, Rules, Source, decode, parse, parse_json
from orchestrator.support.spelling import find_close

_RULES = Rules(aliases=True, any_names=False)

# What a definition's file may be called.
FILE_NAMES = ("agent.yaml", "agent.yml", "agent.json")

# Where the configurations of the stages are.
PROMPTS = ("promptOverrideConfiguration", "promptConfigurations")

# Characters of a template (Bedrock: BasePromptTemplate).
MAX_TEMPLATE = 100_000


def read_file(file: Path) -> str:
    """The text of a definition's file.

    Raises:
        DefinitionError: It is too large, or is not UTF-8.
    """
    # One byte more than allowed is enough to know.
    with file.open("rb") as stream:
        return decode(stream.read(MAX_BYTES + 1), str(file))


def parse_text(text: str, file: str, folder: Path | None = None) -> tuple[Any, Source]:
    """The data of a definition and its places: JSON when the file is called `*.json`, else YAML.

    Raises:
        DefinitionError: The text is no such document, names a member twice, or is too deep.
    """
    read = parse_json if file.endswith(".json") else parse
    document = read(text, file, _RULES)
    return document.data, Source(file=file, folder=folder, root=document.root)


def copy_data(members: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a definition given as plain data, within the bounds of a file.

    Raises:
        DefinitionError: It is too deep, has too many values, or holds half of a surrogate pair.
    """
    for count, (keys, value) in enumerate(_walk(members, ())):
        wrong = ""
        if len(keys) > _RULES.max_depth:
            wrong = f"is nested deeper than {_RULES.max_depth} levels"
        elif count > _RULES.max_nodes:
            wrong = f"comes after more than {_RULES.max_nodes:,} values"
        elif isinstance(value, str) and clean(value) != value:
            wrong = "holds half of a surrogate pair"
        if wrong:
            raise DefinitionError(f"{path_of(keys)[:200] or 'the document'} {wrong}")
    return deepcopy(dict(members))


def _walk(value: Any, keys: Keys) -> Iterator[tuple[Keys, Any]]:
    yield keys, value
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield keys, name  # a name can be wrong too, and stands in no message then
            yield from _walk(item, (*keys, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, (*keys, index))


class PromptText(NamedTuple):
    """A template that a definition brings."""

    text: str
    source: str  # the file it was read from, or the agent's file with the stage's name
    language: str | None = None  # the language that the definition says it is written in


def prompt_text(
    definition: AgentDefinition, prompt_type: str, folder: Path | None = None
) -> PromptText | None:
    """The template that the definition brings for a stage, or `None` for the dialect's own.

    `folder` is the agent's; by default the one that the definition was read from.

    Raises:
        DefinitionError: The file is missing, outside of the folder, too long or not UTF-8.
    """
    for index, prompt in enumerate(definition.prompts):
        if prompt.prompt_type != prompt_type or not prompt.overridden:
            continue
        if prompt.base_prompt_template is not None:
            file = definition.source.file or "basePromptTemplate"
            label = f"{file} ({prompt_type})"
            return PromptText(prompt.base_prompt_template, label, prompt.template_format)
        keys = (*PROMPTS, index, "basePromptTemplateFile")
        path = locate(definition, str(prompt.base_prompt_template_file), keys, folder)
        text = decode(path.read_bytes(), str(path), limit=4 * MAX_TEMPLATE)
        if not 0 < len(text) <= MAX_TEMPLATE:
            raise DefinitionError(
                f"a template has 1 to {MAX_TEMPLATE:,} characters, not {len(text):,}", file=path
            )
        return PromptText(text, str(path), prompt.template_format)
    return None


def locate(definition: Document, name: str, keys: Keys, folder: Path | None = None) -> Path:
    """The file called `name` in the agent's folder.

    Links are followed as long as they stay in the folder, by default the one that the definition
    was read from. `keys` is where the name stands in the definition, for messages.

    Raises:
        DefinitionError: The file is outside of the folder, or is no file, or there is no folder.
    """
    fail = definition.source.error
    root, path = _inside(definition, name, keys, folder)
    if path.is_dir():
        raise fail(f"{name!r} is a folder; name a file", *keys)
    if not path.is_file():
        raise fail(f"there is no file {name!r} in the agent's folder{_similar(root, name)}", *keys)
    return path


def locate_folder(definition: Document, name: str, keys: Keys, folder: Path | None = None) -> Path:
    """The folder called `name` in the agent's folder; see `locate`.

    Raises:
        DefinitionError: It is outside of the agent's folder, or the same, or no folder.
    """
    fail = definition.source.error
    root, path = _inside(definition, name, keys, folder)
    if path == root:
        raise fail(f"{name!r} is the agent's own folder; name one inside of it", *keys)
    if path.is_file():
        raise fail(f"{name!r} is a file; name a folder", *keys)
    if not path.is_dir():
        similar = _similar(root, name)
        raise fail(f"there is no folder {name!r} in the agent's folder{similar}", *keys)
    return path


def _inside(definition: Document, name: str, keys: Keys, folder: Path | None) -> tuple[Path, Path]:
    fail = definition.source.error
    folder = folder or definition.source.folder
    if problem := _find_path_problem(name):
        raise fail(f"{name!r} {problem}; name something inside of the agent's folder", *keys)
    if folder is None:
        way = "read the agent from its folder, or say which one it is (folder=)"
        raise fail(f"{name!r} is relative to an agent's folder, and there is none; {way}", *keys)
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise fail(f"{name!r} links to a place outside of the agent's folder; copy it in", *keys)
    return root, path


def _find_path_problem(name: str) -> str:
    if not name.strip() or "\0" in name:
        return "is no file's name"
    windows = PureWindowsPath(name)
    # Both systems' absolute paths: a folder may be copied from one to the other.
    if PurePosixPath(name).is_absolute() or windows.drive or windows.root:
        return "is an absolute path"
    if "\\" in name:
        return "has a backslash; write / instead"
    return "leads out of the folder with '..'" if ".." in windows.parts else ""


def _similar(root: Path, name: str) -> str:
    folder = (root / name).parent
    names = sorted(it.name for it in folder.iterdir()) if folder.is_dir() else []
    names = [it for it in names if it not in FILE_NAMES]
    close = find_close(PurePosixPath(name).name, names[:500])
    return f"; did you mean {str(PurePosixPath(name).with_name(close))!r}?" if close else ""


def missing_files(definition: AgentDefinition) -> list[Diagnostic]:
    """A finding for every file and folder that the definition names and that cannot be used."""
    findings = []
    for find, named in ((locate, _iter_files), (locate_folder, _iter_folders)):
        for keys, name in named(definition):
            try:
                find(definition, name, keys)
            except DefinitionError as error:
                findings.append(definition.source.diagnostic("error", "file", error.reason, *keys))
    return findings


def _iter_files(definition: AgentDefinition) -> Iterator[tuple[Keys, str]]:
    overrides = definition.prompt_override_configuration
    if overrides and overrides.override_lambda and not is_arn(overrides.override_lambda):
        yield (*PROMPTS[:1], "overrideLambda"), handler_of(overrides.override_lambda)[0]
    for index, prompt in enumerate(definition.prompts):
        if prompt.base_prompt_template_file is not None:
            yield (*PROMPTS, index, "basePromptTemplateFile"), prompt.base_prompt_template_file
    for index, group in enumerate(definition.action_groups):
        yield from _files_of_group(group, index)
    orchestrates = definition.orchestration_lambda
    if orchestrates and not is_arn(orchestrates):
        yield ("customOrchestration", "executor", "lambda"), handler_of(orchestrates)[0]
    if definition.orchestration is not None:
        yield ("orchestration",), definition.orchestration
    guardrail = definition.guardrail_configuration
    if guardrail and guardrail.file is not None:
        yield ("guardrailConfiguration", "file"), guardrail.file


def _files_of_group(group: ActionGroupDefinition, index: int) -> Iterator[tuple[Keys, str]]:
    executor = group.action_group_executor
    if group.api_schema and group.api_schema.file is not None:
        yield ("actionGroups", index, "apiSchema", "file"), group.api_schema.file
    at = ("actionGroups", index, "actionGroupExecutor")
    if executor and executor.python is not None:
        yield (*at, "python"), executor.python
    if executor and executor.lambda_ is not None and not is_arn(executor.lambda_):
        yield (*at, "lambda"), handler_of(executor.lambda_)[0]


def _iter_folders(definition: AgentDefinition) -> Iterator[tuple[Keys, str]]:
    for index, base in enumerate(definition.knowledge_bases):
        if base.folder is not None:
            yield ("knowledgeBases", index, "folder"), base.folder
    for index, member in enumerate(definition.agent_collaborators):
        where = member.agent_descriptor
        if where and where.folder is not None:
            yield ("agentCollaborators", index, "agentDescriptor", "folder"), where.folder


def is_arn(name: str) -> bool:
    """Whether a Lambda function is named by its ARN, and not by a file."""
    return name.startswith("arn:")


def handler_of(name: str) -> tuple[str, str]:
    """File and function of `handler.py:function`; the function is `lambda_handler` by default."""
    file, colon, function = name.rpartition(":")
    return (file, function) if colon and function.isidentifier() else (name, "lambda_handler")
