"""`AWS::Bedrock::Agent` in CloudFormation templates, YAML or JSON → `Document`s."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.support.documents import Rules, parse
from orchestrator.transfer.build_document import build_document, make_placeholder_id
from orchestrator.transfer.cloudformation_functions import Intrinsics
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.remote import parse_alias_arn

_AGENT = "AWS::Bedrock::Agent"
_ALIAS = "AWS::Bedrock::AgentAlias"


def load_yaml(text: str, file: str) -> Any:
    """The data of a template's YAML; its functions as mappings of one member.

    Raises:
        DefinitionError: It is no YAML.
    """
    return parse(text, file, _RULES).data


def _construct_function(tag: str, value: Any) -> dict[str, Any]:
    # `!Sub text` is short for `{"Fn::Sub": text}` (AWS: "Intrinsic function reference").
    name = tag.removeprefix("!")
    return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


# CloudFormation reads YAML 1.1, and templates share parts by aliases.
_RULES = Rules(
    scalars="1.1",
    aliases=True,
    merge_keys=True,
    tags=_construct_function,
    max_depth=100,
    max_nodes=200_000,  # AWS: a template has at most 1 MB
)


def is_cloudformation(data: Mapping[str, Any]) -> bool:
    """Whether data is a template with agents."""
    return bool(_find_by_type(data, _AGENT))


def _find_by_type(template: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
    resources = template.get("Resources")
    return {
        str(name): properties
        for name, it in (resources.items() if isinstance(resources, Mapping) else ())
        if isinstance(it, Mapping) and it.get("Type") == kind
        for properties in [it.get("Properties") or {}]
        if isinstance(properties, Mapping)
    }


def read_cloudformation(
    template: Mapping[str, Any], parameters: Mapping[str, str]
) -> dict[str, Document]:
    """The agents of a template, by their logical ids, with those of the template that they lead.

    `parameters` may also set pseudo parameters, such as `AWS::Region`.

    Raises:
        DefinitionError: An agent is wrong, or functions are nested without end.
    """
    reader = _Reader(template, parameters)
    return {name: reader.read_agent(name, ()) for name in reader.agents}


class _Reader:
    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self.template = template
        self.parameters = parameters
        self.agents = _find_by_type(template, _AGENT)
        self.ids = {make_placeholder_id(name): name for name in self.agents}
        self.aliases = {
            make_placeholder_id(name): it for name, it in _find_by_type(template, _ALIAS).items()
        }
        self.known: dict[str, Document] = {}

    def read_agent(self, name: str, above: tuple[str, ...]) -> Document:
        if name not in self.known:
            intrinsics = Intrinsics(self.template, self.parameters)
            found = intrinsics.evaluate(self.agents[name])
            properties = dict(found) if isinstance(found, Mapping) else {}
            parts = [
                [it for it in _as_list(properties.pop(part, None)) if isinstance(it, Mapping)]
                for part in ("ActionGroups", "KnowledgeBases", "AgentCollaborators")
            ]
            document = self.known[name] = build_document(properties, *parts)
            self.read_team(document, (*above, name))
            document.notes += _note_placeholders(document, intrinsics)
        return self.known[name]

    def read_team(self, document: Document, above: tuple[str, ...]) -> None:
        for member in document.parts("agentCollaborators"):
            led = self.find_collaborator((member.get("agentDescriptor") or {}).get("aliasArn"))
            if led and led not in above and len(above) < MOST_LEVELS:
                document.team[str(member.get("collaboratorName"))] = self.read_agent(led, above)

    def find_collaborator(self, arn: Any) -> str | None:
        """The logical id of the agent whose alias an ARN names."""
        ids = parse_alias_arn(arn)
        alias = self.aliases.get(ids[1]) if ids else None
        if alias is None:
            return None
        agent = Intrinsics(self.template, self.parameters).evaluate(alias.get("AgentId"))
        return self.ids.get(str(agent))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _note_placeholders(document: Document, intrinsics: Intrinsics) -> Iterator[Any]:
    members = [
        {**it, "agentDescriptor": None} if it.get("collaboratorName") in document.team else it
        for it in document.parts("agentCollaborators")
    ]
    text = str({**document.data, "agentCollaborators": members})
    for expression, value in intrinsics.assumed.items():
        if value and value in text:
            known_late = f"{document.name}: {expression} is known only when deployed"
            way = "give it with --parameter, or change it in agent.yaml"
            yield note("unknown", f"{known_late}; {value!r} stands for it", way)
