"""A whole project's folder → all agents in it, whichever way they are deployed.

The same agent is often there several times: as a source, as what was made of it, and as a dump of
what is deployed. The form that knows the most is taken, and the others are noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.definition.files import FILE_NAMES
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import (
    DefinitionError,
    DependencyFailed,
    OrchestratorError,
    ValidationError,
)
from orchestrator.transfer.build_document import as_mapping, refuse_untrusted_document
from orchestrator.transfer.cloudformation.agents import is_cloudformation
from orchestrator.transfer.cloudformation.cdk import (
    Assembly,
    is_assembly,
    list_templates,
    read_assets,
)
from orchestrator.transfer.cloudformation.surroundings import (
    TemplateFile,
    find_exports,
    find_surroundings,
)
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.folder import files_of
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.sources import (
    MEND,
    ImportedAgents,
    LoadedFile,
    load_file,
    make_unread_error,
    read_loaded,
    read_terraform_folder,
)
from orchestrator.transfer.surroundings import Surroundings
from orchestrator.transfer.terraform.source import list_called_folders

_MOST_BYTES = 50_000_000
_MOST_CANDIDATES = 500
_MARKS = (b"AWS::Bedrock::Agent", b"aws_bedrockagent_agent", b"awscc_bedrock_agent")
# A module of a registry, or of another repository, that may make agents.
_MODULE = re.compile(rb'source\s*=\s*"(?![./"])[^"]*bedrock', re.IGNORECASE)
_DUMP_MARKS = (b'"agentName"', b'"agentActionGroup"', b'"action_groups"')
_ANSWER_MARKS = (b'"agentArn"', b'"agent"')
_SUFFIXES = (".json", ".yaml", ".yml", ".template", ".tfstate")
# The forms, those first that know the most of an agent.
_RANKS = (
    *("CDK", "CloudFormation", "Terraform", "Terraform's sources", "bedrock_config.json"),
    "GetAgent",
)


def read_project(folder: Path, parameters: Mapping[str, str]) -> ImportedAgents:
    """The agents of everything in a folder; what cannot be read is noted.

    Raises:
        ValidationError: There is no agent.
        DefinitionError: There are too many files, or no agent can be read.
    """
    found = _ProjectReader(ProjectFiles(folder), parameters).read()
    for key, document in [*found.agents.items()]:
        try:
            refuse_untrusted_document(document)
            files_of(document)
        except OrchestratorError as error:
            file = Path(document.source.file)
            found.notes.append(replace(_note_unread(file, error), line=document.line))
            del found.agents[key]
    if not found.agents:
        raise _make_empty_error(folder, found.notes)
    return found


def _make_empty_error(folder: Path, notes: Sequence[Diagnostic]) -> OrchestratorError:
    errors = [it for it in notes if it.code == "unread"]
    if errors:
        return make_unread_error(errors[0])
    return ValidationError(
        f"{str(folder)!r} holds no agent: neither templates of CloudFormation, SAM or the CDK, nor "
        "Terraform's sources, plans or states, nor answers of GetAgent"
    )


def _note_unread(file: Path, error: OrchestratorError) -> Diagnostic:
    way = "install it and import again" if isinstance(error, DependencyFailed) else MEND
    if not isinstance(error, DefinitionError):
        return note("unread", f"not read: {error.message}", way, file=str(file))
    name = error.file or str(file)
    return note("unread", f"not read: {error.reason}", way, file=name, line=error.line)


@dataclass(slots=True)
class _ProjectReader:
    files: ProjectFiles
    parameters: Mapping[str, str]
    found: list[ImportedAgents] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    def read(self) -> ImportedAgents:
        files = [*self.files.iter_files()]
        assemblies = [it.parent for it in files if it.name == "manifest.json"]
        assemblies = [it for it in assemblies if is_assembly(it)]
        for folder in assemblies:
            if not any(it in folder.parents for it in assemblies):
                self.read_assembly(folder)
        rest = [it for it in files if not any(one in it.parents for one in assemblies)]
        self.read_data_files([it for it in rest if it.suffix in _SUFFIXES])
        self.read_terraform(sorted({it.parent for it in rest if it.suffix == ".tf"}))
        return self.merge()

    def attempt(self, file: Path, read: Callable[[], ImportedAgents | None]) -> None:
        """Reads something; what is wrong with it is noted, and the rest goes on."""
        try:
            found = read()
        except OrchestratorError as error:
            self.notes.append(_note_unread(file, error))
            return
        if found is not None and found.agents:
            self.found.append(found)
        self.notes += found.notes if found is not None else ()

    # What the CDK synthesised.

    def read_assembly(self, folder: Path) -> None:
        loaded: list[LoadedFile] = []
        for file in list_templates(folder):
            if _has_mark(file, (b"AWS::",)):
                self.attempt(file, partial(_load_into, loaded, file))
        assembly = self.build_assembly(loaded)
        for one in loaded:
            self.attempt(one.path, partial(self.read_stack, one, assembly))

    def build_assembly(self, loaded: Sequence[LoadedFile]) -> Assembly:
        assembly = Assembly(find_exports([it.data for it in loaded]), Surroundings(self.files))
        for one in loaded:
            self.attempt(one.path, partial(self.add_stack, one, assembly))
        return assembly

    def add_stack(self, one: LoadedFile, assembly: Assembly) -> None:
        assets = read_assets(one.path, self.files)
        template = TemplateFile(one.data, one.path, one.root, assets)
        assembly.beside.add(find_surroundings(template, self.files, self.parameters))

    def read_stack(self, one: LoadedFile, assembly: Assembly) -> ImportedAgents | None:
        if not _has_mark(one.path, _MARKS[:1]):
            return None
        found = read_loaded(one, (), self.parameters, self.files, assembly)
        found.format = "CDK"
        return found

    # Files that hold one thing each, and answers of the API, which belong together.

    def read_data_files(self, files: Sequence[Path]) -> None:
        marked = [it for it in files if _has_mark(it, (*_MARKS, *_DUMP_MARKS))]
        if len(marked) > _MOST_CANDIDATES:
            raise DefinitionError(
                f"more than {_MOST_CANDIDATES} files name agents; import a folder inside of it"
            )
        answers: list[LoadedFile] = []
        for file in marked:
            self.attempt(file, partial(self.read_data_file, file, answers))
        for agent in [it for it in answers if _agent_of(it.data)]:
            others = [it for it in answers if _belongs(it, agent, answers)]
            self.attempt(
                agent.path,
                partial(read_loaded, agent, others, self.parameters, self.files),
            )

    def read_data_file(self, file: Path, answers: list[LoadedFile]) -> ImportedAgents | None:
        loaded = load_file(file)
        if _is_own(loaded):
            return None
        if _is_answer(loaded.data):
            answers.append(loaded)
            return None
        try:
            found = read_loaded(loaded, (), self.parameters, self.files)
        except ValidationError:  # it holds something else, whatever it is called
            return None
        return found if found.format != "GetAgent" else None

    # Terraform's sources, of which those count that no other calls as a module.

    def read_terraform(self, folders: Sequence[Path]) -> None:
        called: set[Path] = set()
        roots: list[Path] = []
        for folder in folders if any(map(_has_agents, folders)) else ():
            if _has_agents(folder) or _has_calls(folder):
                roots.append(folder)
                self.attempt(folder, partial(self.add_calls, folder, called))
        for folder in roots:
            if folder not in called and not self.has_failed(folder):
                self.attempt(
                    folder,
                    partial(read_terraform_folder, folder, self.files, self.parameters),
                )

    def add_calls(self, folder: Path, called: set[Path]) -> None:
        called.update(it for it in list_called_folders(folder, self.files) if it != folder)

    def has_failed(self, folder: Path) -> bool:
        return any(
            it.code == "unread" and it.file and folder in (Path(it.file), Path(it.file).parent)
            for it in self.notes
        )

    # All together.

    def merge(self) -> ImportedAgents:
        ranked = sorted(self.found, key=_rank)
        merged = ImportedAgents(
            ", ".join(dict.fromkeys(it.format for it in ranked)), {}, self.notes
        )
        taken: list[tuple[str, Document]] = []
        for one in ranked:
            merged.unused += one.unused
            own = [(one.format, it) for top in one.agents.values() for it in top.iter_agents()]
            for key, document in one.find_top_level().items():
                same = _find_same(one.format, document, taken)
                if same is None:
                    self.add(merged, key, document)
                else:
                    self.note_duplicate(merged, document, same)
            taken += own
        return merged

    def add(self, merged: ImportedAgents, key: str, document: Document) -> None:
        if key in merged.agents:
            file = self.files.show(Path(document.source.file))
            key = f"{file}:{key}"
        merged.agents[key] = document

    def note_duplicate(self, merged: ImportedAgents, document: Document, same: Document) -> None:
        where = self.files.show(Path(same.source.file))
        text = f"{document.name} is here, too; it was taken from {where}"
        way = "import this file alone to take it from here"
        file, line = document.source.file, document.line
        merged.notes.append(note("duplicate", text, way, file=file, line=line))


def _find_same(
    form: str, document: Document, taken: Sequence[tuple[str, Document]]
) -> Document | None:
    """The agent of the same name that is taken already, in another form."""
    # Two files of one form hold two agents, but a plan and a state beside each other do not.
    folder = Path(document.source.file).parent
    for other_form, other in taken:
        beside = form.startswith("Terraform") and Path(other.source.file).parent == folder
        if other.name == document.name and (form != other_form or beside):
            return other
    return None


def _rank(found: ImportedAgents) -> tuple[int, int]:
    files = [Path(it.source.file) for it in found.agents.values()]
    return _RANKS.index(found.format), 0 if files and files[0].suffix == ".tfstate" else 1


def _load_into(loaded: list[LoadedFile], file: Path) -> None:
    loaded.append(load_file(file))


def _has_mark(file: Path, marks: Sequence[bytes]) -> bool:
    content = _read_start(file)
    return any(it in content for it in marks)


def _read_start(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return b""


def _has_agents(folder: Path) -> bool:
    return any(
        _has_mark(it, _MARKS[1:]) or _MODULE.search(_read_start(it)) for it in _list_sources(folder)
    )


def _has_calls(folder: Path) -> bool:
    return any(_has_mark(it, (b"module ", b'module"')) for it in _list_sources(folder))


def _list_sources(folder: Path) -> Iterator[Path]:
    return (it for it in sorted(folder.glob("*.tf")) if it.is_file())


def _is_own(loaded: LoadedFile) -> bool:
    """Whether it is the file of an agent that runs here already, which is nothing to import."""
    if loaded.path.name not in FILE_NAMES or _has_mark(loaded.path, _ANSWER_MARKS):
        return False
    return not is_cloudformation(loaded.data)


_PARTS = ("agentActionGroup", "agentKnowledgeBase", "agentCollaborator")


def _is_answer(data: Mapping[str, Any]) -> bool:
    return bool(_agent_of(data)) or any(name in data or f"{name}s" in data for name in _PARTS)


def _agent_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The agent in GetAgent's answer; empty for anything else."""
    if "action_groups" in data:  # the toolkit's
        return {}
    inner = as_mapping(data.get("agent", data.get("agentVersion"))) or data
    return inner if isinstance(inner.get("agentName"), str) else {}


def _belongs(answer: LoadedFile, agent: LoadedFile, answers: Sequence[LoadedFile]) -> bool:
    """Whether an answer about a part is of an agent: by its id, or else by its folder."""
    if answer is agent or _agent_of(answer.data):
        return False
    parts = [as_mapping(answer.data.get(name)) for name in _PARTS]
    ids = {str(it["agentId"]) for it in parts if it.get("agentId")}
    known = {str(_agent_of(it.data).get("agentId")) for it in answers if _agent_of(it.data)}
    if ids & known:
        return str(_agent_of(agent.data).get("agentId")) in ids
    return answer.path.parent == agent.path.parent
