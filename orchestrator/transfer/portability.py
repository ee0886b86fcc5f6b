"""A folder's agent as the API can hold it, and what of it the API cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from orchestrator.actions import Operation
from orchestrator.definition.files import is_arn
from orchestrator.diagnostics import Diagnostic
from orchestrator.prompts.languages import language_of
from orchestrator.support.documents import Keys
from orchestrator.transfer.document import CUSTOM, PARSER, PARTS, Document, note, stages_of
from orchestrator.transfer.folder import list_named_templates
from orchestrator.transfer.normalize import DEFAULT_TTL, normalize_agent
from orchestrator.transfer.request_members import find_violations

NOT_PORTABLE = "not-portable"
"""Code of findings about what was taken out; the rest can be pushed without it."""

_LOCAL_MODELS = ("local:", "openai:", "scripted:", "replay:")
# Members that the API does not have, and what to do about each.
_OURS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("limits",), "Bedrock has no limits of a turn", "leave it out there"),
    (("awsCompat",), "Bedrock has no awsCompat", "leave it out there"),
    (("unknownOutcomes",), "Bedrock has no turns that wait for a decision", "leave it out there"),
    (("orchestration",), "Bedrock has no scripts that orchestrate", "leave it out there"),
    (
        ("guardrailConfiguration", "checkResults"),
        "Bedrock does not have guardrails check results",
        "leave checkResults out there",
    ),
    (
        ("guardrailConfiguration", "file"),
        "the guardrail is a file, which Bedrock cannot read",
        "make it with CreateGuardrail, and name its guardrailIdentifier",
    ),
)


@dataclass(slots=True)
class Portable:
    """The part of an agent that the API can hold."""

    # The members that the API holds, without what says nothing
    data: dict[str, Any] = field(default_factory=dict)
    # What it cannot hold, with its place and the way out
    left: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)  # what is different there


def make_portable(
    document: Document,
    lambdas: Mapping[str, str],
    *,
    known: Mapping[str, str] | None = None,
    model: str | None = None,
    local_models: bool = False,
) -> Portable:
    """What of an agent the API can hold."""
    return _PortableBuilder(document, lambdas, known or {}, model, local_models).build()


@dataclass(slots=True)
class _PortableBuilder:
    """Takes out of an agent what the API cannot hold, and notes it."""

    document: Document
    lambdas: Mapping[str, str]
    known: Mapping[str, str]
    model: str | None
    local_models: bool
    data: dict[str, Any] = field(init=False)
    left: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    def build(self) -> Portable:
        # The service makes aliases one by one.
        self.data = {k: v for k, v in deepcopy(self.document.data).items() if k != "aliases"}
        self.check_members()
        self.check_models()
        self.check_stages()
        self.replace_code(PARSER, self.data.get("promptOverrideConfiguration"), "overrideLambda")
        custom = self.data.get("customOrchestration")
        self.replace_code(CUSTOM, (custom or {}).get("executor"), "lambda", "executor")
        self.check_loose_files()
        places = {part: self.keep_portable(part) for part in PARTS}
        data = normalize_agent(self.data)
        self.check_limits(data, places)
        return Portable(data, self.left, self.notes)

    def refuse(self, message: str, way: str, *keys: str | int, code: str = NOT_PORTABLE) -> None:
        text = f"{self.document.name}: {message}"
        source = self.document.source
        self.left.append(source.diagnostic("error", code, text, *keys, suggestion=way))

    def check_members(self) -> None:
        for keys, message, way in _OURS:
            owner = (self.data.get(keys[0]) or {}) if keys[1:] else self.data
            if owner.pop(keys[-1], None):
                self.refuse(message, way, *keys)
        team = self.data.get("agentCollaborators")
        if team and self.data.get("agentCollaboration") in (None, "DISABLED"):
            self.refuse(
                "there are agentCollaborators, and nothing says that they are led",
                "set agentCollaboration: SUPERVISOR, or leave them out",
                "agentCollaborators",
            )
            del self.data["agentCollaborators"]

    def check_models(self) -> None:
        if self.model is not None:
            self.data["foundationModel"] = self.model
        self.check_model(self.data, "name one of Bedrock's with --model")
        for index, stage in enumerate(stages_of(self.data)):
            self.check_model(stage, "name one of Bedrock's, or leave it out", *_STAGES, index)

    def check_model(self, part: dict[str, Any], way: str, *keys: str | int) -> None:
        spec = part.get("foundationModel") or ""
        if self.local_models and spec == "local":
            return
        if spec == "local" or spec.startswith(_LOCAL_MODELS):
            del part["foundationModel"]
            self.refuse(f"Bedrock has no model {spec!r}", way, *keys, "foundationModel")

    def check_stages(self) -> None:
        # Bedrock reads templates in its own language only, and takes these settings of a stage
        # only where promptCreationMode is OVERRIDDEN (AWS: PromptConfiguration).
        for index, stage in enumerate(stages_of(self.data)):
            language = stage.pop("templateFormat", "bedrock")
            if language != "bedrock" and stage.pop("basePromptTemplate", None) is not None:
                self.refuse(
                    f"the template of {stage['promptType']} is written in {language}, which "
                    "Bedrock does not read",
                    "write it in Bedrock's own language there",
                    *(*_STAGES, index),
                )
            if stage.get("basePromptTemplate") is not None:
                continue
            for member in ("promptState", "inferenceConfiguration"):
                if stage.pop(member, None):
                    self.refuse(
                        f"Bedrock changes the {member} of {stage['promptType']} only together "
                        "with its template",
                        "give the stage its whole template, too",
                        *(*_STAGES, index, member),
                    )

    def replace_code(self, name: str, part: dict[str, Any] | None, member: str, *way: str) -> None:
        # A parser or an orchestration is a file here and a Lambda function there.
        spec = (part or {}).get(member)
        if part is None or spec is None:
            return
        if arn := self.find_lambda(name, spec):
            part[member] = arn
            return
        del part[member]
        at = (name, *way, member) if way else ("promptOverrideConfiguration", name)
        self.refuse(
            f"{spec!r} runs in this process, and Bedrock calls Lambda functions",
            f"deploy it, and give --lambda {name}=ARN",
            *at,
        )
        if name == PARSER:
            for stage in stages_of(self.data):
                stage.pop("parserMode", None)
        else:
            self.data.pop("customOrchestration", None)
            self.data.pop("orchestrationType", None)

    def check_loose_files(self) -> None:
        # These change prompts although `agent.yaml` does not name them.
        root = self.document.source.folder
        if root is None:
            return
        named = list_named_templates(self.document.source.file)
        for name in ("templates", "memory"):
            found = sorted(
                file.relative_to(root).as_posix()
                for file in (root / name).rglob("*")
                if file.is_file()
                and (file.suffix in (".j2", ".json", ".txt", ".yaml") or language_of(file))
            )
            loose = [file for file in found if file not in named]
            if loose:
                self.refuse(
                    f"{loose[0]!r} changes the shipped prompts, which Bedrock does not have",
                    "name whole templates as basePromptTemplateFile, which are transferred",
                )

    def keep_portable(self, part: str) -> list[int]:
        # The places in the folder's list are for messages: items that go would shift them.
        checks = {"actionGroups": self.check_group, "knowledgeBases": self.check_knowledge_base}
        portable = [
            (index, it)
            for index, it in enumerate(self.data.get(part) or ())
            if part not in checks or checks[part](index, it)
        ]
        self.data[part] = [it for _, it in portable]
        return [index for index, _ in portable]

    def check_knowledge_base(self, index: int, base: dict[str, Any]) -> bool:
        at = ("knowledgeBases", index)
        if base.get("folder") is not None:
            self.refuse(
                f"the knowledge base {base['knowledgeBaseId']!r} is a folder of documents",
                "make a knowledge base there, and name its id instead of the folder",
                *(*at, "folder"),
            )
            return False
        if base.pop("retrievalConfiguration", None):
            self.refuse(
                "Bedrock keeps no retrievalConfiguration with an agent",
                "send it with each call (sessionState.knowledgeBaseConfigurations)",
                *(*at, "retrievalConfiguration"),
            )
        return True

    def check_group(self, index: int, group: dict[str, Any]) -> bool:
        at = ("actionGroups", index)
        name = group["actionGroupName"]
        executor = group.get("actionGroupExecutor") or {}
        had_environment = bool(group.pop("environment", None))
        group.pop("isolation", None)  # a Lambda function always is
        own = next((it for it in ("python", "mcp", "http") if executor.get(it)), None)
        handler = executor.get("lambda")
        if own is None and handler is None:
            return True
        arn = self.find_lambda(name, handler or "")
        if not arn or own == "mcp":
            self.refuse_group(name, own, handler, (*at, "actionGroupExecutor"))
            return False
        if own == "python":
            group["functionSchema"] = self.build_function_schema(index)
        group["actionGroupExecutor"] = {"lambda": arn}
        if had_environment:
            text = f"{self.document.name}: the environment of the action group {name!r}"
            self.notes.append(note("environment", f"{text} is not transferred; {arn} has its own"))
        return True

    def find_lambda(self, name: str, spec: str) -> str:
        """The function that is called there; empty when there is none."""
        if name not in self.lambdas and is_arn(spec):
            return spec
        arn = self.lambdas.get(name) or self.known.get(name, "")
        if arn and not is_arn(spec):
            text = f"{self.document.name}: {name} calls {arn} there"
            self.notes.append(note("lambda", text))
        return arn

    def refuse_group(self, name: str, own: str | None, handler: str | None, at: Keys) -> None:
        if own == "mcp":
            self.refuse(
                f"the action group {name!r} is an MCP server, which Bedrock's agents do not ask",
                "give it a functionSchema and customControl: RETURN_CONTROL there",
                *at,
            )
            return
        what = {"http": "calls an API over HTTP", "python": "runs Python functions"}
        reason = what.get(own or "", f"runs {handler!r} in this process")
        self.refuse(
            f"the action group {name!r} {reason}, and Bedrock calls Lambda functions",
            f"deploy a function that does it, and give --lambda {name}=ARN",
            *at,
        )

    def build_function_schema(self, index: int) -> dict[str, Any]:
        # This runs the Python file: its functions are known only then.
        from orchestrator.definition import build_action_groups, load_definition

        source = self.document.source
        definition = load_definition(source.file)
        only = definition.model_copy(update={"action_groups": (definition.action_groups[index],)})
        return to_function_schema(build_action_groups(only, source.folder)[0].operations)

    def check_limits(self, data: dict[str, Any], places: Mapping[str, list[int]]) -> None:
        if "foundationModel" not in data and not self.left:
            self.refuse_value(("foundationModel",), "is missing, and Bedrock needs it")
        for keys, text in find_violations("CreateAgent", to_agent_request(data)):
            self.refuse_value(self.locate_in_source(data, keys), text)
        for part, kind in PARTS.items():
            for place, value in zip(places[part], data.get(part) or (), strict=True):
                for keys, text in find_violations(kind.create_operation, value):
                    if keys[0] not in _GIVEN_LATER:
                        self.refuse_value((part, place, *keys), text)

    def locate_in_source(self, data: Mapping[str, Any], keys: Keys) -> Keys:
        """The way to a stage's member in the document, whose stages may be in another order."""
        if keys[:2] != _STAGES or len(keys) < 3:
            return keys
        stage = stages_of(data)[int(keys[2])]["promptType"]
        written = [it["promptType"] for it in stages_of(self.document.data)]
        return (*_STAGES, written.index(stage), *keys[3:])

    def refuse_value(self, keys: Keys, text: str) -> None:
        from orchestrator.definition.validation_errors import path_of

        self.refuse(f"{path_of(keys)} {text}", "", *keys, code="bedrock-limit")


_STAGES = ("promptOverrideConfiguration", "promptConfigurations")
_GIVEN_LATER = ("agentId", "agentVersion", "agentDescriptor")


def to_agent_request(data: Mapping[str, Any]) -> dict[str, Any]:
    """The members of CreateAgent and UpdateAgent, without ids and tags; nothing is left to guess.

    A stage without a template of its own says that it has none.
    """
    request = {k: v for k, v in data.items() if k not in (*PARTS, "agentId", "tags")}
    request.setdefault("idleSessionTTLInSeconds", DEFAULT_TTL)
    if overrides := request.get("promptOverrideConfiguration"):
        stages = [{"promptCreationMode": "DEFAULT", **it} for it in stages_of(data)]
        request["promptOverrideConfiguration"] = {**overrides, "promptConfigurations": stages}
    return request


def to_function_schema(operations: Iterable[Operation]) -> dict[str, Any]:
    """Bedrock's `functionSchema` of functions in Python."""
    functions = [
        {
            "name": operation.name,
            "description": operation.description,
            "requireConfirmation": "ENABLED" if operation.require_confirmation else "DISABLED",
            "parameters": {
                it.name: {
                    "type": it.type if it.type != "object" else "string",
                    "description": it.description,
                    "required": it.required,
                }
                for it in operation.parameters
            },
        }
        for operation in operations
    ]
    return {"functions": functions}
