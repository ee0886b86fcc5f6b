"""CloudFormation's intrinsic functions, worked out as far as a template alone allows.

What only a deployment knows (an ARN, an account, a parameter without a default) becomes a
placeholder of the right form, and a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.transfer.build_document import make_placeholder_id

NOTHING = object()
"""A value that is left out (`AWS::NoValue`)."""

_PSEUDO = {
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "000000000000",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "stack",
    "AWS::StackId": "arn:aws:cloudformation:us-east-1:000000000000:stack/stack/0",
}

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_MOST_DEPTH = 60
# Values and characters of texts that are worked out; functions of functions multiply them.
_MOST_MADE = 20_000_000


class Intrinsics:
    """Evaluates the values of one template."""

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self.resources: Mapping[str, Any] = _as_mapping(template.get("Resources"))
        self.mappings: Mapping[str, Any] = _as_mapping(template.get("Mappings"))
        self.conditions: Mapping[str, Any] = _as_mapping(template.get("Conditions"))
        self.parameters: Mapping[str, Any] = _as_mapping(template.get("Parameters"))
        self.values = parameters
        self.assumed: dict[str, str] = {}  # by the expressions that the values stand for
        self.depth = 0
        self.made = 0

    def _count_output(self, size: int) -> None:
        self.made += size
        if self.made > _MOST_MADE:
            raise DefinitionError("the template's functions make too much: it is not an agent's")

    def evaluate(self, node: Any) -> Any:
        """The value of a node of the template; `NOTHING` when it is left out.

        Raises:
            DefinitionError: It is nested without end, or too large.
        """
        self.depth += 1
        try:
            if self.depth > _MOST_DEPTH:
                raise DefinitionError("the template's functions are nested too deeply")
            found = self._evaluate_node(node)
            self._count_output(len(found) + 1 if isinstance(found, str) else 1)
            return found
        finally:
            self.depth -= 1

    def _evaluate_node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [it for it in map(self.evaluate, node) if it is not NOTHING]
        if not isinstance(node, Mapping):
            return node
        if len(node) == 1:
            name, argument = next(iter(node.items()))
            function = self._functions().get(str(name))
            if function is not None:
                return function(argument)
        evaluated = {str(name): self.evaluate(it) for name, it in node.items()}
        return {name: it for name, it in evaluated.items() if it is not NOTHING}

    def _functions(self) -> Mapping[str, Callable[[Any], Any]]:
        return {
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
            "Fn::ImportValue": lambda it: self._assume(
                f"ImportValue {self.evaluate(it)}", "imported"
            ),
            "Fn::Transform": lambda it: self._assume("Transform", "transformed"),
            "Fn::GetAZs": lambda it: [],
            "Fn::Cidr": lambda it: [],
        }

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
        if name in self.parameters:
            return self._resolve_default(name)
        return self._resolve_attribute(name, "Ref")

    def _resolve_default(self, name: str) -> Any:
        parameter = _as_mapping(self.parameters[name])
        if "Default" in parameter:
            return self._convert_parameter(name, parameter["Default"])
        return self._assume(f"the parameter {name}", f"UNKNOWN-{name}")

    def _convert_parameter(self, name: str, value: Any) -> Any:
        kind = str(_as_mapping(self.parameters.get(name)).get("Type", ""))
        is_list = kind == "CommaDelimitedList" or kind.startswith("List<")
        return [it.strip() for it in str(value).split(",")] if is_list else value

    def _evaluate_get_att(self, argument: Any) -> Any:
        # AWS: YAML also writes it as one text, `Resource.Attribute`.
        parts = argument if isinstance(argument, list) else str(argument).split(".", 1)
        name, *rest = [str(self.evaluate(it)) for it in parts or [""]]
        return self._resolve_attribute(name, ".".join(rest))

    def _resolve_attribute(self, name: str, attribute: str) -> Any:
        resource = _as_mapping(self.resources.get(name))
        kind = str(resource.get("Type", ""))
        properties = _as_mapping(resource.get("Properties"))
        known = _guess_attribute(
            kind, attribute, name, lambda member: self._read_property(properties, member)
        )
        expression = f"{name}.{attribute}" if attribute != "Ref" else f"Ref {name}"
        return self._assume(expression, known or f"UNKNOWN-{name}")

    def _read_property(self, properties: Mapping[str, Any], member: str) -> str:
        value = self.evaluate(properties.get(member, ""))
        return value if isinstance(value, str) else ""

    def _evaluate_sub(self, argument: Any) -> Any:
        # AWS: `${!Name}` stands for the text `${Name}`.
        text, own = (
            argument if isinstance(argument, list) and len(argument) == 2 else (argument, {})
        )
        variables = _as_mapping(own)

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
            found = _as_mapping(found).get(str(key))
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
        self.depth += 1
        try:
            if self.depth > _MOST_DEPTH:
                raise DefinitionError("the template's conditions are nested too deeply")
            name, argument = next(iter(_as_mapping(node).items()), ("", None))
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
        finally:
            self.depth -= 1


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


_ARNS = {
    "AWS::Lambda::Function": ("lambda", "function:", "FunctionName"),
    "AWS::Serverless::Function": ("lambda", "function:", "FunctionName"),
    "AWS::Lambda::Alias": ("lambda", "function:", "Name"),
    "AWS::Lambda::Version": ("lambda", "function:", "FunctionName"),
}


def _guess_attribute(kind: str, attribute: str, name: str, member: Callable[[str], str]) -> str:
    # Attributes that no agent needs have no value.
    place = "us-east-1:000000000000"
    if kind in _ARNS:
        service, prefix, called = _ARNS[kind]
        own = member(called) or name
        is_name = attribute == "Ref" and not kind.startswith("AWS::Lambda::A")
        return own if is_name else f"arn:aws:{service}:{place}:{prefix}{own}"
    if kind == "AWS::IAM::Role":
        role = member("RoleName") or name
        return role if attribute == "Ref" else f"arn:aws:iam::000000000000:role/{role}"
    if kind == "AWS::KMS::Key" and attribute == "Arn":
        return f"arn:aws:kms:{place}:key/00000000-0000-0000-0000-000000000000"
    if kind == "AWS::S3::Bucket":
        return member("BucketName") or name.lower()
    return _guess_bedrock_attribute(kind, attribute, name, place)


def _guess_bedrock_attribute(kind: str, attribute: str, name: str, place: str) -> str:
    id = make_placeholder_id(name)
    arn = f"arn:aws:bedrock:{place}:"
    is_arn = attribute.endswith("Arn")
    match kind:
        case "AWS::Bedrock::Agent":
            return f"{arn}agent/{id}" if is_arn else id
        case "AWS::Bedrock::AgentAlias":
            # Which agent's alias it is, whoever reads the ARN finds by the alias's id.
            return f"{arn}agent-alias/0000000000/{id}" if is_arn else id
        case "AWS::Bedrock::KnowledgeBase":
            return f"{arn}knowledge-base/{id}" if is_arn else id
        case "AWS::Bedrock::Guardrail":
            whole = is_arn or attribute == "Ref"
            return f"{arn}guardrail/{id.lower()}" if whole else id.lower()
        case "AWS::Bedrock::GuardrailVersion":
            return "1"
    return ""
