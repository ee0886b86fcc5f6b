"""What pydantic found wrong → findings with place, plain words and the way out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from orchestrator.actions.names import slug
from orchestrator.definition.fields import (
    AGENT_ID_PATTERN,
    NAME_PATTERN,
    VARIABLE_PATTERN,
    VERSION_PATTERN,
    Part,
)
from orchestrator.diagnostics import Diagnostic
from orchestrator.support.documents import Keys, Source
from orchestrator.support.spelling import find_close

# What people write for Bedrock's members, in lower case without underscores.
_ELSEWHERE = {
    "model": "foundationModel",
    "modelid": "foundationModel",
    "prompt": "instruction",
    "systemprompt": "instruction",
    "tools": "actionGroups",
    "actions": "actionGroups",
    "executor": "actionGroupExecutor",
    "maxtokens": "maximumLength",
    "template": "basePromptTemplate",
    "prompts": "promptOverrideConfiguration",
    "guardrail": "guardrailConfiguration",
    "memory": "memoryConfiguration",
    "team": "agentCollaborators",
    "parser": "overrideLambda",
    "embeddings": "embedder",
}

_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_PATTERNS = {
    NAME_PATTERN: "1 to 100 letters and digits, with at most one _ or - after each",
    VARIABLE_PATTERN: "letters, digits and _, with no digit first",
    AGENT_ID_PATTERN: "ten letters and digits",
    VERSION_PATTERN: "a number of up to 8 digits, or DRAFT",
}

# Members whose values are never repeated in a message.
_SECRET = ("environment", "headers", "tags")


def path_of(keys: Keys) -> str:
    """The way to a value as people write it: `actionGroups[0].apiSchema`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def is_read_only(model: type[Part], error: ErrorDetails) -> bool:
    """Whether an unknown member is one that Bedrock's own answers carry."""
    if error["type"] != "extra_forbidden":
        return False
    owner = _model_at(model, error["loc"][:-1])
    return owner is not None and to_camel(str(error["loc"][-1])) in owner.READ_ONLY


def to_diagnostic(model: type[Part], error: ErrorDetails, source: Source) -> Diagnostic:
    """The finding that says what `error` means, where, and what to do."""
    context: Mapping[str, Any] = error.get("ctx", {})
    keys: Keys = (*error["loc"], *context.get("at", ()))
    if keys[-1:] == ("[key]",):
        keys = keys[:-1]
    kind = error["type"]
    node, found = source.find(keys)
    if kind == "extra_forbidden":
        message, suggestion = _unknown(_model_at(model, keys[:-1]), keys, error["input"], source)
    elif kind == "missing":
        message, suggestion = f"{path_of(keys)!r} is missing", "add it"
    else:
        written = node.text if node and found else ""
        message, suggestion = _wrong(error, keys, written)
        if kind == "model_type" and isinstance(error["input"], str):
            suggestion = _as_mapping(_model_at(model, keys), written or error["input"])
    place = (node.line, node.column) if node else (None, None)
    by_name = kind == "extra_forbidden" or "[key]" in error["loc"]
    if node and found and by_name:
        place = node.key or place
    return Diagnostic(
        severity="error",
        code=kind.replace("_", "-"),
        message=message,
        suggestion=suggestion,
        file=source.file or None,
        line=place[0],
        column=place[1],
    )


def _unknown(owner: type[Part] | None, keys: Keys, value: Any, source: Source) -> tuple[str, str]:
    name = str(keys[-1])
    where = f" of {path_of(keys[:-1])}" if keys[:-1] else " of an agent"
    message = f"{name!r} is not a member{where}"
    members = [str(field.alias) for field in owner.model_fields.values()] if owner else []
    if same := [member for member in members if _fold(member) == _fold(name)]:
        around, _ = source.find(keys[:-1])
        if around and sum(_fold(str(key)) == _fold(name) for key in around.children) > 1:
            return f"{name!r} and {same[0]!r} are the same member", "remove one"
        return message, f"did you mean {same[0]!r}?"
    meant = _ELSEWHERE.get(_fold(name), "")
    if meant in members:
        return message, f"did you mean {meant!r}?"
    if close := find_close(to_camel(name), members, 0.7):
        return message, f"did you mean {close!r}?"
    # Bedrock repeats in a member's name what it belongs to: `actionGroupName`, and not `name`.
    ends = [it for it in members if it.endswith(name[:1].upper() + name[1:])]
    if len(ends) == 1:
        return message, f"did you mean {ends[0]!r}?"
    if owners := _map_owners().get(meant or to_camel(name)):
        owner_name = next((it for it in owners if it in members), owners[0])
        return message, f"{meant or to_camel(name)!r} belongs into {owner_name!r}"
    return message, f"its members are {', '.join(members)}" if len(members) < 6 else "remove it"


def _wrong(error: ErrorDetails, keys: Keys, written: str) -> tuple[str, str]:
    kind, value = error["type"], error["input"]
    context: Mapping[str, Any] = error.get("ctx", {})
    name = path_of(keys) or "the document"
    shown = "" if any(key in _SECRET for key in keys) else _render_value(value, written)
    if kind == "mistake":
        return f"{name}: {context['text']}" if keys else str(context["text"]), ""
    if kind in _WANTED:
        return f"{name} must be {_WANTED[kind]}{shown}", _retype(kind, value, written, bool(shown))
    if kind == "literal_error":
        return f"{name} may not be{shown.removeprefix(', not')}", _choice(context, value)
    if kind == "string_pattern_mismatch":
        return _misspelt(name, str(context["pattern"]), str(value), shown)
    shown = "" if kind.startswith("too_") else shown
    return f"{name} {_bound(kind, context)}{shown}", ""


def _as_mapping(part: type[Part] | None, written: str) -> str:
    """What to write where a file's name stands in the place of a mapping that has it."""
    members = [str(it.alias) for it in part.model_fields.values()] if part else []
    member = next((it for it in ("file", "lambda") if it in members), "")
    is_file = re.fullmatch(r"[\w./-]{1,80}\.[a-z]{2,5}", written)
    return f"write {{{member}: {written}}}" if member and is_file else ""


def _retype(kind: str, value: Any, written: str, show: bool) -> str:
    if kind == "string_type" and written and value is not None:
        return f'put it in quotes: "{written}"' if show else "put it in quotes"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return "leave the quotes out" if re.fullmatch(r"[-+.0-9eE]+", value) else ""
    if kind == "bool_type" and isinstance(value, str):
        return {"yes": "write true", "on": "write true", "no": "write false"}.get(value.lower(), "")
    if value is None:
        return "give it a value or leave it out"
    return ""


def _choice(context: Mapping[str, Any], value: Any) -> str:
    choices = re.findall(r"'([^']+)'", context["expected"])
    upper = {choice.upper(): choice for choice in choices}
    if close := find_close(str(value).upper(), upper):
        return f"did you mean {upper[close]!r}?"
    return f"it is one of {', '.join(choices)}" if len(choices) > 1 else f"write {choices[0]!r}"


def _misspelt(name: str, pattern: str, value: str, shown: str) -> tuple[str, str]:
    message = f"{name} must be {_PATTERNS.get(pattern, pattern)}{shown}"
    better = slug(value) if pattern == NAME_PATTERN else ""
    return message, f"for example {better!r}" if better else ""


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "greater_than":
            return f"must be greater than {context['gt']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}"
        case "string_too_short":
            return "may not be empty"
        case "string_too_long":
            return f"may have at most {context['max_length']:,} characters"
        case "too_long":
            most, have = context["max_length"], context["actual_length"]
            return f"may have at most {most} items, not {have}"
    return f"is wrong ({kind})"


# Only short values say something in a message.
def _render_value(value: Any, written: str) -> str:
    if written:
        return f", not {written[:40]}"
    if isinstance(value, str):
        return f", not {value!r}" if len(value) <= 40 else ""
    if isinstance(value, dict | list):
        return f", not a {'list' if isinstance(value, list) else 'mapping'}"
    return f", not {value!r}" if isinstance(value, bool | int | float) else ", not empty"


def _fold(name: str) -> str:
    return name.replace("_", "").lower()


def _model_at(model: type[Part], keys: Keys) -> type[Part] | None:
    current: type[Part] | None = model
    for key in keys:
        if isinstance(key, int) or current is None:
            continue
        fields = current.model_fields.values()
        inner = [field for field in fields if _fold(str(field.alias)) == _fold(key)]
        # A mapping's own keys (a parameter's name) stand between a part and its parts.
        current = _part_in(inner[0].annotation) if inner else current
    return current


def _part_in(annotation: Any) -> type[Part] | None:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    for argument in get_args(annotation):
        if found := _part_in(argument):
            return found
    return None


@cache
def _map_owners() -> dict[str, list[str]]:
    from orchestrator.definition.agent import AgentDefinition

    homes: dict[str, list[str]] = {}

    def visit(model: type[Part], name: str) -> None:
        for field in model.model_fields.values():
            homes.setdefault(str(field.alias), []).append(name)
            if inner := _part_in(field.annotation):
                visit(inner, str(field.alias))

    visit(AgentDefinition, "the top level")
    return homes
