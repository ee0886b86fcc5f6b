"""`AWS::Bedrock::Agent` in CloudFormation templates, YAML or JSON → `Document`s."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Document as Parsed
from orchestrator.support.documents import Place, Rules, parse, parse_json
from orchestrator.transfer.build_document import (
    as_mapping,
    build_document,
    list_mappings,
)
from orchestrator.transfer.cloudformation.places import find_expression
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.remote import parse_alias_arn
from orchestrator.transfer.unknown_values import make_placeholder_id, make_unknown

_AGENT = "AWS::Bedrock::Agent"
_ALIAS = "AWS::Bedrock::AgentAlias"


def parse_template(text: str, file: str) -> Parsed:
    """The data of a template and its places; its functions as mappings of one member.

    Raises:
        DefinitionError: It is neither YAML nor JSON.
    """
    if text.lstrip()[:1] == "{":
        with suppress(DefinitionError):  # a text that begins like JSON may be YAML's flow style
            return parse_json(text, file, _RULES)
    return parse(text, file, _RULES)


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
    resources = {name: as_mapping(it) for name, it in as_mapping(template.get("Resources")).items()}
    found = {str(name): it for name, it in resources.items() if it.get("Type") == kind}
    properties = {name: it.get("Properties") or {} for name, it in found.items()}
    return {name: it for name, it in properties.items() if isinstance(it, Mapping)}


def read_cloudformation(
    template: Mapping[str, Any], parameters: Mapping[str, str], root: Place | None = None
) -> dict[str, Document]:
    """The agents of a template, by their logical ids, with those of the template that they lead.

    `parameters` may also set pseudo parameters, such as `AWS::Region`. `root` has the places of the
    template, for notes.

    Raises:
        DefinitionError: An agent is wrong, or functions are nested without end.
    """
    reader = _Reader(template, parameters, root)
    return {name: reader.read_agent(name, ()) for name in reader.agents}


class _Reader:
    def __init__(
        self, template: Mapping[str, Any], parameters: Mapping[str, str], root: Place | None = None
    ) -> None:
        self.template = template
        self.parameters = parameters
        self.root = root
        self.agents = _find_by_type(template, _AGENT)
        self.ids = {make_placeholder_id(name): name for name in self.agents}
        self.aliases = {
            make_placeholder_id(name): it for name, it in _find_by_type(template, _ALIAS).items()
        }
        self.known: dict[str, Document] = {}

    def read_agent(self, name: str, above: tuple[str, ...]) -> Document:
        if name not in self.known:
            intrinsics = Intrinsics(self.template, self.parameters)
            properties = dict(as_mapping(intrinsics.evaluate(self.agents[name])))
            parts = [
                list_mappings(properties.pop(part, None))
                for part in ("ActionGroups", "KnowledgeBases", "AgentCollaborators")
            ]
            expressions = {value: what for what, value in intrinsics.assumed.items()}
            document = build_document(properties, parts, expressions=expressions)
            self.known[name] = document
            self.read_team(document, (*above, name))
            self.note_placeholders(document, name, intrinsics)
        return self.known[name]

    def note_placeholders(self, document: Document, name: str, intrinsics: Intrinsics) -> None:
        place = self.root.follow(("Resources", name))[0] if self.root else None
        document.line = place.key[0] if place and place.key else None
        for expression, value in intrinsics.assumed.items():
            line = find_expression(self.agents[name], place, expression) or document.line
            text = f"{document.name}: {expression} is known only when deployed"
            document.place_notes(text, line)
            way = "give it with --parameter, or change it in agent.yaml"
            if expression.startswith("{{"):  # a dynamic reference, which no parameter gives
                way = "change it in agent.yaml"
            one = note("unknown", f"{text}; {value!r} stands for it", way, line=line)
            if value:
                document.notes.append(one)
                document.stand_ins[one] = value
        document.drop_idle_notes()

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


# A value that is left out (`AWS::NoValue`).
NOTHING = object()

_PSEUDO = {
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "000000000000",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "stack",
    "AWS::StackId": "arn:aws:cloudformation:us-east-1:000000000000:stack/stack/0",
}

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
# AWS: "dynamic references", to parameters and secrets that only a deployment reads.
_REFERENCE = re.compile(r"\{\{resolve:([^{}]*)\}\}")
_MOST_DEPTH = 60
# Values and characters of texts that are worked out; functions of functions multiply them.
_MOST_MADE = 20_000_000


class Intrinsics:
    """Evaluates the values of one template, as far as the template alone allows.

    What only a deployment knows (an ARN, an account, a parameter without a default) becomes a
    placeholder of the right form, and is noted in `assumed`.
    """

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self.resources: Mapping[str, Any] = as_mapping(template.get("Resources"))
        self.mappings: Mapping[str, Any] = as_mapping(template.get("Mappings"))
        self.conditions: Mapping[str, Any] = as_mapping(template.get("Conditions"))
        self.parameters: Mapping[str, Any] = as_mapping(template.get("Parameters"))
        self.values = parameters
        self.assumed: dict[str, str] = {}  # by the expressions that the values stand for
        self.depth = 0
        self.made = 0
        self.functions: Mapping[str, Callable[[Any], Any]] = {
            "Ref": self._evaluate_ref,
            "Fn::GetAtt": self._evaluate_get_att,
            "Fn::Sub": self._evaluate_sub,
            "Fn::Join": self._evaluate_join,
            "Fn::If": self._evaluate_if,
            "Fn::FindInMap": self._evaluate_find_in_map,
            "Fn::Select": self._evaluate_select,
            "Fn::Split": self._evaluate_split,
            "Fn::Base64": self.evaluate,
            "Fn::ToJsonString": lambda it: json.dumps(self.evaluate(it), default=str),
            "Fn::ImportValue": self._evaluate_import,
            "Fn::Transform": lambda it: self._assume("Transform", make_unknown("transform")),
            "Fn::GetAZs": lambda it: [],
            "Fn::Cidr": lambda it: [],
        }

    @contextmanager
    def _nest(self, what: str) -> Iterator[None]:
        self.depth += 1
        try:
            if self.depth > _MOST_DEPTH:
                raise DefinitionError(f"the template's {what} are nested too deeply")
            yield
        finally:
            self.depth -= 1

    def _count_output(self, size: int) -> None:
        self.made += size
        if self.made > _MOST_MADE:
            raise DefinitionError("the template's functions make too much: it is not an agent's")

    def evaluate(self, node: Any) -> Any:
        """The value of a node of the template; `NOTHING` when it is left out.

        Raises:
            DefinitionError: It is nested without end, or too large.
        """
        with self._nest("functions"):
            found = self._evaluate_node(node)
            if isinstance(found, str) and "{{resolve:" in found:
                found = _REFERENCE.sub(lambda it: self._assume(it[0], make_unknown(it[1])), found)
            self._count_output(len(found) + 1 if isinstance(found, str) else 1)
            return found

    def _evaluate_node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [it for it in map(self.evaluate, node) if it is not NOTHING]
        if not isinstance(node, Mapping):
            return node
        if len(node) == 1:
            name, argument = next(iter(node.items()))
            if str(name) in self.functions:
                return self.functions[str(name)](argument)
        evaluated = {str(name): self.evaluate(it) for name, it in node.items()}
        return {name: it for name, it in evaluated.items() if it is not NOTHING}

    def _assume(self, expression: str, value: str) -> str:
        self.assumed[expression] = value
        return value

    def _evaluate_ref(self, name: Any) -> Any:
        name = str(name)
        if name == "AWS::NoValue":
            return NOTHING
        if name in self.values:
            return self._convert_parameter(name, self.values[name])
        if name in _PSEUDO:
            return self._assume(name, _PSEUDO[name])
        if name not in self.parameters:
            return self._resolve_attribute(name, "Ref")
        parameter = as_mapping(self.parameters[name])
        # AWS: the default of such a parameter names another parameter, whose value only AWS has.
        is_stored = str(parameter.get("Type", "")).startswith("AWS::SSM::Parameter::Value")
        if "Default" in parameter and not is_stored:
            return self._convert_parameter(name, parameter["Default"])
        allowed = parameter.get("AllowedValues")
        assumed = str(allowed[0]) if isinstance(allowed, list) and allowed else make_unknown(name)
        return self._assume(f"the parameter {name}", assumed)

    def _evaluate_import(self, argument: Any) -> str:
        export = str(self.evaluate(argument))
        return self._assume(f"ImportValue {export}", make_unknown(export))

    def _convert_parameter(self, name: str, value: Any) -> Any:
        kind = str(as_mapping(self.parameters.get(name)).get("Type", ""))
        is_list = kind == "CommaDelimitedList" or kind.startswith("List<")
        return [it.strip() for it in str(value).split(",")] if is_list else value

    def _evaluate_get_att(self, argument: Any) -> Any:
        # AWS: YAML also writes it as one text, `Resource.Attribute`.
        parts = argument if isinstance(argument, list) else str(argument).split(".", 1)
        name, *rest = [str(self.evaluate(it)) for it in parts or [""]]
        return self._resolve_attribute(name, ".".join(rest))

    def _resolve_attribute(self, name: str, attribute: str) -> Any:
        resource = as_mapping(self.resources.get(name))
        kind, properties = str(resource.get("Type", "")), as_mapping(resource.get("Properties"))
        # What the template sets is no guess, such as the version that another resource publishes.
        same = _SAME.get((kind, attribute), attribute)
        if same in properties:
            return self.evaluate(properties[same])
        own = self.evaluate(properties.get(_NAMES.get(kind, "")))
        known = _guess_attribute(kind, attribute, name, own if isinstance(own, str) else "")
        expression = f"{name}.{attribute}" if attribute != "Ref" else f"Ref {name}"
        return self._assume(expression, known or make_unknown(name))

    def _evaluate_sub(self, argument: Any) -> Any:
        # AWS: `${!Name}` stands for the text `${Name}`.
        has_own = isinstance(argument, list) and len(argument) == 2
        text, own = argument if has_own else (argument, {})
        variables = as_mapping(own)

        def substitute(found: re.Match[str]) -> str:
            name = found[1]
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in variables:
                value = self.evaluate(variables[name])
            elif "." in name:
                value = self._evaluate_get_att(name)
            else:
                value = self._evaluate_ref(name.strip())
            text = "" if value is NOTHING else _as_text(value)
            self._count_output(len(text))
            return text

        return _VARIABLE.sub(substitute, str(text))

    def _evaluate_join(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 2:
            return self._assume("Join", "")
        parts = self.evaluate(argument[1])
        texts = [*map(_as_text, parts)] if isinstance(parts, list) else [_as_text(parts)]
        self._count_output(len(str(argument[0])) * len(texts))
        return str(argument[0]).join(texts)

    def _evaluate_split(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 2 or not argument[0]:
            return []
        return _as_text(self.evaluate(argument[1])).split(str(argument[0]))

    def _evaluate_select(self, argument: Any) -> Any:
        try:
            index, parts = self.evaluate(argument)
            return parts[int(index)]
        except (IndexError, TypeError, ValueError):
            return self._assume("Select", "UNKNOWN")

    def _evaluate_find_in_map(self, argument: Any) -> Any:
        found: Any = self.mappings
        keys = self.evaluate(argument)
        for key in keys[:3] if isinstance(keys, list) else ():
            found = as_mapping(found).get(str(key))
        if found is None or found is self.mappings:
            return self._assume(f"FindInMap {keys}", "UNKNOWN")
        return self.evaluate(found)

    def _evaluate_if(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 3:
            return NOTHING
        return self.evaluate(argument[1] if self._is_condition_true(argument[0]) else argument[2])

    def _is_condition_true(self, condition: Any) -> bool:
        if isinstance(condition, str):
            # Only a deployment knows it: true keeps the parts that depend on it.
            if condition not in self.conditions:
                return self._assume(f"the condition {condition}", "true") == "true"
            return self._is_expression_true(self.conditions[condition])
        return self._is_expression_true(condition)

    def _is_expression_true(self, node: Any) -> bool:
        with self._nest("conditions"):
            name, argument = next(iter(as_mapping(node).items()), ("", None))
            several = argument if isinstance(argument, list) else [argument]
            match name:
                case "Fn::Equals":
                    one, other = map(self.evaluate, several[:2])
                    return _as_text(one) == _as_text(other)
                case "Fn::Not":
                    return not self._is_condition_true(several[0])
                case "Fn::And":
                    return all(map(self._is_condition_true, several))
                case "Fn::Or":
                    return any(map(self._is_condition_true, several))
                case "Condition":
                    return self._is_condition_true(argument)
            return True


def _as_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


# The properties that name resources of these types.
_NAMES = {
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Serverless::Function": "FunctionName",
    "AWS::Lambda::Alias": "Name",
    "AWS::Lambda::Version": "FunctionName",
    "AWS::IAM::Role": "RoleName",
    "AWS::S3::Bucket": "BucketName",
}
# Attributes that are what a property says (AWS: "Return values" of each resource type).
_SAME = {
    ("AWS::Bedrock::GuardrailVersion", "GuardrailId"): "GuardrailIdentifier",
    ("AWS::Bedrock::GuardrailVersion", "GuardrailArn"): "GuardrailIdentifier",
    ("AWS::SSM::Parameter", "Ref"): "Name",
    ("AWS::DynamoDB::Table", "Ref"): "TableName",
}
_VERSIONS = {
    ("AWS::Bedrock::Guardrail", "Version"): "DRAFT",
    ("AWS::Bedrock::GuardrailVersion", "Version"): "1",
    (_AGENT, "AgentVersion"): "DRAFT",
}
_BEDROCK = {
    _AGENT: "agent",
    # Which agent's alias it is, whoever reads the ARN finds by the alias's id.
    _ALIAS: "agent-alias/0000000000",
    "AWS::Bedrock::KnowledgeBase": "knowledge-base",
    "AWS::Bedrock::Guardrail": "guardrail",
}


def _guess_attribute(kind: str, attribute: str, name: str, own: str) -> str:
    # Attributes that no agent needs have no value.
    place = "us-east-1:000000000000"
    is_ref = attribute == "Ref"
    if version := _VERSIONS.get((kind, attribute)):
        return version
    if kind in _BEDROCK:
        id, is_arn = make_placeholder_id(name), attribute.endswith("Arn")
        if kind == "AWS::Bedrock::Guardrail":
            id, is_arn = id.lower(), is_arn or is_ref
        return f"arn:aws:bedrock:{place}:{_BEDROCK[kind]}/{id}" if is_arn else id
    if kind == "AWS::IAM::Role":
        return (own or name) if is_ref else f"arn:aws:iam::000000000000:role/{own or name}"
    if kind == "AWS::KMS::Key" and attribute == "Arn":
        return f"arn:aws:kms:{place}:key/00000000-0000-0000-0000-000000000000"
    if kind == "AWS::S3::Bucket":
        bucket = own or name.lower()
        return f"arn:aws:s3:::{bucket}" if attribute == "Arn" else bucket
    if kind in _NAMES:
        is_name = is_ref and kind != "AWS::Lambda::Alias"
        return (own or name) if is_name else f"arn:aws:lambda:{place}:function:{own or name}"
    return ""
