"""JSON Schemas of scripts, and whether a value fits: in a bounded number of steps.

`jsonschema` does the work. What it leaves to the schema's author is bounded here, since a model
wrote the value: patterns run on RE2 (`orchestrator.support.regexes`), unique items are compared by
their texts, references lead nowhere but into the schema, and each keyword that is looked at costs
units of a budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import islice
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.flows.expressions import import_library
from orchestrator.flows.tree import ScriptError
from orchestrator.support.regexes import compile_schema_pattern
from orchestrator.support.work_budget import CheckBudget, TooMuchWork

# What one check may cost: some half a second at worst.
_MOST_WORK = 20_000_000
_KEYWORD = 300
_MEMBER = 10
_DEEPEST = 100
_FEW = 5

# Keywords that hand parts of the value on, and have no messages of their own about the whole.
_APPLICATORS = frozenset(
    "$ref $dynamicRef additionalProperties allOf dependentSchemas if items patternProperties "
    "prefixItems properties propertyNames".split()
)
# Keywords that look at all that is in their member.
_WHOLE = frozenset({"const", "dependentRequired"})
_REFERENCES = frozenset({"$ref", "$dynamicRef"})

Keyword = Callable[[Any, Any, Any, Any], Any]


class _Budget(CheckBudget):
    """A check's budget, and the sizes of the lists and mappings of the schema and the value."""

    sizes: Mapping[int, int]
    schema: int
    enums: dict[int, set[str]]

    def size(self, value: Any) -> int:
        """Characters and values in a value."""
        if isinstance(value, str):
            return len(value)
        return self.sizes.get(id(value), 1) if isinstance(value, list | dict) else 1


_work = _Budget()


def describe_mismatch(value: Any, schema: Mapping[str, Any]) -> str:
    """What is wrong with a value; empty for nothing.

    Raises:
        ScriptError: The schema is wrong, or the check would take too long.
    """
    found = _find_errors(_plain(schema), value)
    return "; ".join(f"{one.json_path}: {one.message[:200]}" for one in found)


def describe_schema_mistake(schema: Mapping[str, Any]) -> str:
    """What is wrong with a schema, or in it cannot be checked; empty for nothing."""
    plain = _plain(schema)
    try:
        found = _find_errors(_validator_class().META_SCHEMA, plain)
        if found:
            return str(found[0].message)[:200]
        for pattern in _find_patterns(plain):
            compile_schema_pattern(pattern)
    except ScriptError as error:
        return error.message
    except DefinitionError as error:
        return f"a pattern is not checked: {error.message[:300]}"
    return ""


def _find_errors(schema: Any, value: Any) -> list[Any]:
    sizes: dict[int, int] = {}
    _work.schema = _measure(schema, sizes)
    _measure(value, sizes)
    _work.sizes, _work.enums, _work.left = sizes, {}, _MOST_WORK
    from referencing import Registry

    # Without a registry of its own, `jsonschema` fetches what references name.
    validator = _validator_class()(schema, registry=Registry())
    try:
        return list(islice(validator.iter_errors(value), _FEW))
    except ScriptError:
        raise
    except TooMuchWork:
        raise ScriptError(
            "it is too large to be checked against the schema", "内容过大，无法按 schema 检查"
        ) from None
    except Exception as error:  # a schema that is none: jsonschema raises many kinds of errors
        kind = type(error).__name__
        raise ScriptError(f"the schema is wrong: {kind}", f"schema 有误: {kind}") from error


def _plain(value: Any) -> Any:
    # `jsonschema` changes to another class of validators where a schema names its dialect.
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items() if key != "$schema"}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _measure(value: Any, sizes: dict[int, int], depth: int = 0) -> int:
    if depth > _DEEPEST:
        raise ScriptError(f"it is nested deeper than {_DEEPEST} levels", f"嵌套超过 {_DEEPEST} 层")
    if isinstance(value, str):
        return 1 + len(value)
    if not isinstance(value, list | dict):
        return 1
    inner = value if isinstance(value, list) else (*value, *value.values())
    sizes[id(value)] = size = 1 + sum(_measure(one, sizes, depth + 1) for one in inner)
    return size


@cache
def _validator_class() -> Any:
    jsonschema = import_library("jsonschema")
    base = jsonschema.Draft202012Validator
    own = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "uniqueItems": _check_unique_items,
        "enum": _check_enum,
        # They look a second time at all that the other keywords looked at.
        "unevaluatedItems": _refuse_keyword,
        "unevaluatedProperties": _refuse_keyword,
    }
    checks = {
        name: partial(_count_steps, name, check)
        for name, check in {**base.VALIDATORS, **own}.items()
    }
    return jsonschema.validators.extend(base, checks)


def _count_steps(
    name: str, check: Keyword, validator: Any, member: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    _work.spend(_KEYWORD + _count_parts(instance) + _count_member(name, member))
    applies = name in _APPLICATORS
    if applies and _has_false(member):
        _work.spend(_work.size(instance))
    for error in check(validator, member, instance, schema) or ():
        if not applies:  # its message has the whole value
            _work.spend(_work.size(instance))
        yield error


def _count_parts(value: Any) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


def _count_member(name: str, member: Any) -> int:
    if name in _REFERENCES:  # looking one up may go through the whole schema
        return _work.schema
    if name == "enum":  # its values are looked up by their texts
        return 0
    return _work.size(member) if name in _WHOLE else _MEMBER * _count_parts(member)


# The schema `false` refuses a value with a message that has all of it.
def _has_false(member: Any) -> bool:
    if isinstance(member, dict):
        member = member.values()
    return member is False or (not isinstance(member, str | bool) and False in list(member))


def _matches(pattern: str, text: str) -> bool | None:
    """Whether a pattern is in a text; `None` when RE2 cannot say."""
    try:
        regex = compile_schema_pattern(pattern)
    except DefinitionError:  # lint reports it
        return None
    _work.spend(regex.size * len(text))
    return regex.search(text)


def _find_patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _find_patterns(one)
    if isinstance(schema, dict):
        yield from (one for key, one in schema.items() if key == "pattern" and isinstance(one, str))
        named = schema.get("patternProperties")
        yield from named if isinstance(named, dict) else ()
        yield from _find_patterns(list(schema.values()))


# Keywords of JSON Schema (draft 2020-12)


def _error(message: str) -> Any:
    return import_library("jsonschema").ValidationError(message)


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and _matches(pattern, instance) is False:
        yield _error(f"{instance[:200]!r} does not match {pattern!r}")


def _check_pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        _work.spend(len(instance))
        for key, value in instance.items():
            if _matches(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _check_additional_properties(
    validator: Any, wanted: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = (key for key in instance if key not in known)
    extra = [key for key in others if not any(_matches(it, key) for it in patterns)]
    if isinstance(wanted, dict):
        for key in extra:
            yield from validator.descend(instance[key], wanted, path=key)
    elif wanted is False and extra:
        names = ", ".join(repr(key[:100]) for key in extra[:_FEW])
        were = "was" if len(extra) == 1 else "were"
        yield _error(f"Additional properties are not allowed ({names} {were} unexpected)")


def _check_unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if wanted is not True or not isinstance(instance, list):
        return
    _work.spend(_work.size(instance) * 50)
    if len({_canonical_text(one) for one in instance}) < len(instance):
        yield _error("it has non-unique elements")


def _check_enum(validator: Any, values: Any, instance: Any, schema: Any) -> Iterator[Any]:
    keys = _work.enums.get(id(values))
    if keys is None:
        keys = _work.enums[id(values)] = {_canonical_text(one) for one in values}
    _work.spend(_work.size(instance) * _MEMBER)
    if _canonical_text(instance) not in keys:
        yield _error(f"{instance!r} is not one of {values[: _FEW * 10]!r}")


# Texts, since the hashes of numbers can be made to collide.
def _canonical_text(value: Any) -> str:
    return json.dumps(_normalize(value), sort_keys=True)


def _normalize(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normalize(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_normalize(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refuse_keyword(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    raise ScriptError(
        "the schema has 'unevaluatedItems' or 'unevaluatedProperties', which are not checked; "
        "write 'items' or 'additionalProperties'",
        "schema 含有不支持的 unevaluatedItems 或 unevaluatedProperties",
    )
