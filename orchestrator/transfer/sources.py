"""A file or folder in any format that agents are exported or deployed in → `Document`s."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.definition import Source
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, ResourceNotFound, ValidationError
from orchestrator.support.documents import Place, decode
from orchestrator.support.safe_json import is_too_deep, read_json
from orchestrator.transfer.agentcore_toolkit import (
    is_get_agent,
    is_toolkit,
    read_get_agent,
    read_toolkit,
)
from orchestrator.transfer.build_document import as_mapping, refuse_untrusted_document
from orchestrator.transfer.cloudformation.agents import (
    is_cloudformation,
    parse_template,
    read_cloudformation,
)
from orchestrator.transfer.cloudformation.cdk import Assembly, read_assets
from orchestrator.transfer.cloudformation.surroundings import (
    TemplateFile,
    find_surroundings,
    import_values,
    include_files,
)
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.terraform.agents import read_agents
from orchestrator.transfer.terraform.resources import (
    REMOTE,
    Resource,
    is_terraform,
    read_resources,
)
from orchestrator.transfer.terraform.source import read_source_folder
from orchestrator.transfer.terraform.surroundings import find_surroundings as find_beside_resources

_MOST_BYTES = 50_000_000
# Larger ones have no places; AWS: a template has at most 1 MB.
_MOST_PLACED = 2_000_000
MEND = "mend it and import again, if agents of it are missing here"
"""What to do about a file that cannot be read, beside others that can."""
_FORMATS = (
    "GetAgent's answer, a bedrock_config.json, a CloudFormation template with AWS::Bedrock::Agent, "
    "Terraform's sources, or the JSON of a Terraform plan or state"
)


@dataclass(slots=True)
class ImportedAgents:
    """The agents of a file or folder."""

    format: str  # what the file is, for people
    agents: dict[str, Document]  # all of its agents, by what the file calls them
    notes: list[Diagnostic] = field(default_factory=list)  # what is not about one agent
    # The types of resources beside the agents, which nothing here stands for
    unused: Counter[str] = field(default_factory=Counter)

    def find_top_level(self) -> dict[str, Document]:
        """The agents that none of the others leads."""
        led = {id(it) for one in self.agents.values() for it in one.team.values()}
        own = {name: it for name, it in self.agents.items() if id(it) not in led}
        return own or dict(self.agents)

    def get_agent(self, name: str) -> Document:
        """The agent with a name: what the file calls it, or its own.

        Raises:
            ValidationError: There is none, or there are several.
        """
        if name in self.agents:
            return self.agents[name]
        found = [it for it in self.agents.values() if it.name == name]
        if len(found) == 1:
            return found[0]
        some = "several agents" if found else "no agent"
        known = (f"{it.name} ({key})" for key, it in self.agents.items())
        raise ValidationError(f"there is {some} {name!r}; there are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file's data, and the places in it where they are known."""

    path: Path
    data: Mapping[str, Any]
    root: Place | None = None


def read_source(
    file: Path, others: Sequence[Path] = (), parameters: Mapping[str, str] | None = None
) -> ImportedAgents:
    """Reads the agents of a file, or of all files in a folder, whatever their formats.

    What agents name beside them (the code of handlers, guardrails, schemas) comes along, as far as
    it is in the folder, or in that of the file.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: It is none of the formats, or its agents name what is on this machine.
        DefinitionError: It cannot be read, or an agent is wrong.
        DependencyFailed: It is Terraform's source, and the extra `terraform` is not installed.
    """
    if file.is_dir():
        from orchestrator.transfer.project import read_project

        if others:
            raise ValidationError("a folder has no files beside it; give the folder alone")
        return read_project(file, parameters or {})
    if file.suffix == ".tf":
        found = read_terraform_folder(file.parent, ProjectFiles(file.parent), parameters or {})
        return _check(found, file)
    loaded = load_file(file)
    extra = [load_file(it) for it in others]
    found = read_loaded(loaded, extra, parameters or {}, ProjectFiles(file.parent))
    if extra and found.format != "GetAgent":
        raise ValidationError(f"only GetAgent's answer has others beside it, not {found.format}")
    return _check(found, file)


def _check(found: ImportedAgents, file: Path) -> ImportedAgents:
    if not found.agents and found.notes:
        raise make_unread_error(found.notes[0])
    if not found.agents:
        raise ValidationError(f"{str(file)!r} has no aws_bedrockagent_agent")
    for document in found.agents.values():
        refuse_untrusted_document(document)
    return found


def make_unread_error(first: Diagnostic) -> DefinitionError:
    """The error that says what could not be read, and the way out, where no agent could."""
    way = f"; {first.suggestion}" if first.suggestion != MEND else ""
    return DefinitionError(first.message + way, file=first.file, line=first.line)


def read_loaded(
    loaded: LoadedFile,
    extra: Sequence[LoadedFile],
    parameters: Mapping[str, str],
    files: ProjectFiles,
    assembly: Assembly | None = None,
) -> ImportedAgents:
    """The agents of a file, which may be a template of an app of the AWS CDK.

    Raises:
        ValidationError: It is none of the formats.
        DefinitionError: An agent is wrong.
    """
    data, file = loaded.data, loaded.path
    if is_cloudformation(data):
        exports = assembly.exports if assembly else {}
        template = include_files(import_values(data, exports), files, file.parent)
        assets = read_assets(file, files) if assembly else {}
        own = TemplateFile(template, file, loaded.root, assets)
        return _read_template(own, files, parameters, assembly)
    if is_terraform(data):
        return _read_terraform_data(data, file, files)
    if is_toolkit(data):
        document = read_toolkit(data)
        return _name_source(ImportedAgents("bedrock_config.json", {document.name: document}), file)
    if is_get_agent(data):
        document = read_get_agent(data, [it.data for it in extra])
        return _name_source(ImportedAgents("GetAgent", {document.name: document}), file)
    raise ValidationError(f"{str(file)!r} holds no agent: {_FORMATS} would")


def _read_template(
    template: TemplateFile,
    files: ProjectFiles,
    parameters: Mapping[str, str],
    assembly: Assembly | None,
) -> ImportedAgents:
    agents = read_cloudformation(template.data, parameters, template.root)
    beside = find_surroundings(template, files, parameters)
    if assembly:
        beside.add(assembly.beside)
    for document in agents.values():
        beside.bring(document)
    kinds = (as_mapping(it).get("Type") for it in as_mapping(template.data["Resources"]).values())
    found = ImportedAgents("CloudFormation", agents)
    found.unused.update(it for it in map(str, kinds) if it not in _USED_TYPES)
    return _name_source(found, template.file)


def _read_terraform_data(
    data: Mapping[str, Any], file: Path, files: ProjectFiles
) -> ImportedAgents:
    resources = read_resources(data)
    found = _build_from_resources(resources, data, files, file.parent)
    return _name_source(found, file)


def read_terraform_folder(
    folder: Path, files: ProjectFiles, parameters: Mapping[str, str]
) -> ImportedAgents:
    """The agents of Terraform's sources in a folder; there may be none.

    Raises:
        DefinitionError: A file cannot be read, or an agent is wrong.
        DependencyFailed: The extra `terraform` is not installed.
    """
    folder = files.resolve(str(folder.resolve()))
    resources = read_source_folder(folder, files, parameters)
    found = _build_from_resources(resources, {}, files, folder)
    found.format = "Terraform's sources"
    found.notes += [_note_remote(it) for it in resources if it.mode == REMOTE]
    for resource in resources:
        if resource.address in found.agents and resource.file:
            found.agents[resource.address].source = Source(file=resource.file)
    return _place_notes(found)


def _note_remote(module: Resource) -> Diagnostic:
    text = f"{module.address}: what a module that is not here ({module.kind}) makes is not read"
    way = "import the JSON of `terraform show -json`, which has all modules"
    return note("unread", text, way, file=module.file, line=module.line)


def _build_from_resources(
    resources: Sequence[Resource], plan: Mapping[str, Any], files: ProjectFiles, folder: Path
) -> ImportedAgents:
    agents = read_agents(resources, plan)
    beside = find_beside_resources(resources, files, folder)
    for document in agents.values():
        beside.bring(document)
    found = ImportedAgents("Terraform", agents)
    managed = (it.kind for it in resources if it.mode == "managed")
    found.unused.update(it for it in managed if not it.startswith(_USED_KINDS))
    return found


_USED_TYPES = (
    *("AWS::Bedrock::Agent", "AWS::Bedrock::AgentAlias", "AWS::Bedrock::Guardrail"),
    *("AWS::Bedrock::GuardrailVersion", "AWS::Bedrock::KnowledgeBase", "AWS::CDK::Metadata"),
    *("AWS::Lambda::Function", "AWS::Serverless::Function", "AWS::Lambda::Permission"),
    *("AWS::Lambda::Alias", "AWS::Lambda::Version", "AWS::IAM::Role", "AWS::IAM::Policy"),
)
_USED_KINDS = (
    *("aws_bedrockagent_agent", "awscc_bedrock_agent", "aws_bedrock_guardrail"),
    *("awscc_bedrock_guardrail", "aws_bedrockagent_knowledge_base", "aws_lambda_function"),
    *("awscc_bedrock_knowledge_base", "aws_lambda_permission", "aws_lambda_alias", "aws_iam_"),
    *("aws_s3_object", "aws_s3_bucket_object"),
)


def _name_source(found: ImportedAgents, file: Path) -> ImportedAgents:
    for one in {id(it): it for top in found.agents.values() for it in top.iter_agents()}.values():
        one.source = Source(file=str(file))
    return _place_notes(found)


def _place_notes(found: ImportedAgents) -> ImportedAgents:
    # A note that knows no better place has its agent's.
    from dataclasses import replace

    for one in {id(it): it for top in found.agents.values() for it in top.iter_agents()}.values():
        file = one.source.file or None
        one.notes = [
            it if it.file else replace(it, file=file, line=it.line or one.line) for it in one.notes
        ]
    return found


def load_file(file: Path) -> LoadedFile:
    """Reads a file in YAML or JSON.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: It holds something else than a mapping.
        DefinitionError: It is neither, too large or nested too deeply.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file {str(file)!r}") from None
    text = decode(content, str(file), limit=_MOST_BYTES)
    data, root = _parse(text, str(file))
    if not isinstance(data, Mapping):
        raise ValidationError(f"{str(file)!r} holds no agent: {_FORMATS} would")
    if is_too_deep(data):
        raise DefinitionError("it is nested too deeply", file=str(file))
    return LoadedFile(file, data, root)


def _parse(text: str, file: str) -> tuple[Any, Place | None]:
    if text.lstrip()[:1] != "{":
        parsed = parse_template(text, file)
        return parsed.data, parsed.root
    try:
        data = read_json(text)
    except RecursionError:
        raise DefinitionError("it is nested too deeply", file=file) from None
    except json.JSONDecodeError as error:
        with suppress(DefinitionError):  # a text that begins like JSON may be YAML's flow style
            parsed = parse_template(text, file)
            return parsed.data, parsed.root
        raise DefinitionError(
            f"this is not JSON: {error.msg}", file=file, line=error.lineno, column=error.colno
        ) from None
    if isinstance(data, dict) and is_cloudformation(data) and len(text) <= _MOST_PLACED:
        with suppress(DefinitionError):
            return data, parse_template(text, file).root
    return data, None
