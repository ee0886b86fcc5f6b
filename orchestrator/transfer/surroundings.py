"""What stands beside agents in the same sources, and goes into their folders with them.

The code of their Lambda functions, their guardrails, and API schemas that are objects in Amazon S3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.actions.names import slug
from orchestrator.definition.dump import dump_data
from orchestrator.definition.guardrail_file import guardrail_of, list_unsupported
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import OrchestratorError
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.function_code import FunctionCode, bring_code
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.request_members import to_request_members


@dataclass(frozen=True, slots=True)
class GuardrailSource:
    """A guardrail as it is deployed: the members of CreateGuardrail, in any spelling."""

    members: Mapping[str, Any]
    file: str | None = None
    line: int | None = None

    def note(self, message: str, way: str) -> Diagnostic:
        """A note about it."""
        return note("guardrail", message, way, file=self.file, line=self.line)


@dataclass(slots=True)
class Surroundings:
    """What stands beside agents."""

    files: ProjectFiles
    functions: dict[str, FunctionCode] = field(default_factory=dict)  # by their ARNs
    guardrails: dict[str, GuardrailSource] = field(default_factory=dict)  # by ids and ARNs
    objects: dict[tuple[str, str], str] = field(default_factory=dict)  # texts, by bucket and key

    def add(self, others: Surroundings) -> None:
        """Adds what stands in other sources of the same project; its own comes first."""
        self.functions = {**others.functions, **self.functions}
        self.guardrails = {**others.guardrails, **self.guardrails}
        self.objects = {**others.objects, **self.objects}

    def bring(self, document: Document) -> None:
        """Puts into an agent, and those that it leads, what they name of it."""
        for one in document.iter_agents():
            bring_code(one, self.functions, self.files)
            self.bring_guardrail(one)
            self.bring_schemas(one)
            one.drop_idle_notes()
            sharpen_notes(one)

    def bring_guardrail(self, document: Document) -> None:
        """Puts a guardrail of the same sources into the agent's folder."""
        part = document.data.get("guardrailConfiguration") or {}
        source = self.guardrails.get(str(part.get("guardrailIdentifier")))
        if source is None or not source.members:
            return
        try:
            text, unsupported = _write_guardrail(source)
        except OrchestratorError as error:
            message = f"{document.name}: its guardrail stays in AWS: {error.message}"
            way = "write guardrail.yaml, and set guardrailConfiguration: {file: guardrail.yaml}"
            document.notes.append(
                note("guardrail", message, way, file=source.file, line=source.line)
            )
            return
        document.code["guardrail.yaml"] = text
        document.data["guardrailConfiguration"] = {"file": "guardrail.yaml"}
        if unsupported:
            message = (
                f"{document.name}: guardrail.yaml does not enforce {', '.join(unsupported)}: only "
                "Amazon's models can"
            )
            way = "name a deployed guardrail with guardrailIdentifier, or go without"
            document.notes.append(
                note("guardrail", message, way, file=source.file, line=source.line)
            )

    def bring_schemas(self, document: Document) -> None:
        """Puts API schemas that are objects of the same sources in place."""
        for group in document.parts("actionGroups"):
            s3 = (group.get("apiSchema") or {}).get("s3") or {}
            bucket, key = str(s3.get("s3BucketName")), str(s3.get("s3ObjectKey"))
            found = self.objects.get((bucket, key))
            same = [text for (_, name), text in self.objects.items() if name == key]
            if found is not None or len(same) == 1:
                group["apiSchema"] = {"payload": found if found is not None else same[0]}


def sharpen_notes(document: Document) -> None:
    """Has the notes on values that are not known say what to do about each of them."""
    bases = {it.get("knowledgeBaseId") for it in document.parts("knowledgeBases")}
    for one, value in [*document.stand_ins.items()]:
        better = one
        if value in bases:
            way = "write the id of a knowledge base, or add `folder:` with documents"
            better = replace(one, code="knowledge-base", suggestion=way)
        elif ":role/" in value:
            better = replace(one, code="role", suggestion="only `orchestrator push` needs it")
        if better is not one and one in document.notes:
            document.notes[document.notes.index(one)] = better
            document.stand_ins[better] = document.stand_ins.pop(one)


def _write_guardrail(source: GuardrailSource) -> tuple[str, list[str]]:
    members = to_request_members("CreateGuardrail", source.members, [], service="bedrock")
    # Tags and keys are of the guardrail in AWS.
    for name in ("tags", "kmsKeyId", "clientRequestToken", "crossRegionConfig"):
        members.pop(name, None)
    members = {name: it for name, it in members.items() if it not in (None, "", {}, [])}
    members["name"] = slug(str(members.get("name") or "")) or "guardrail"
    unsupported = list_unsupported(members)
    if unsupported:
        members["notEnforced"] = unsupported
    guardrail_of(members)
    return dump_data(members), unsupported
