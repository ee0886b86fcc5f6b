"""Arguments as models write them: made to fit, or refused with a text that helps the model."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import DefinitionError
from orchestrator.actions import ActionGroup, Catalog, ReturnControl
from orchestrator.actions.arguments import CoercionError, compile_schema
from orchestrator.actions.schemas import SchemaReader

NESTED = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "number"}},
    },
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "names": {"type": "array", "items": {"type": "string"}},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "things": {"type": "array", "items": NESTED},
    "thing": NESTED,
    "free": {"type": "object"},
    "any": {},
    "choice": {"type": "string", "enum": ["OPEN", "CLOSED", "no"]},
    "level": {"type": "integer", "enum": [1, 2]},
    "bounded": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
    "code": {"type": "string", "pattern": "^c-[0-9]+$", "maxLength": 6},
    "few": {"type": "array", "items": {}, "minItems": 1, "maxItems": 2},
    "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
}


def build(required: bool = False) -> Catalog:
    parameters = [
        {"name": name, "in": "query", "required": required, "schema": schema}
        for name, schema in SCHEMAS.items()
    ]
    api = {
        "openapi": "3.0.0",
        "paths": {"/x": {"get": {"operationId": "f", "parameters": parameters}}},
    }
    return Catalog([ActionGroup("g", api_schema=api, executor=ReturnControl())])


def _refuse(message: str, place: object) -> DefinitionError:
    return DefinitionError(message)


CATALOG = build()
REQUIRED = build(required=True)


def check(**arguments: Any) -> tuple[dict[str, Any], list[str]]:
    return CATALOG.validate(CATALOG.operations[0], arguments)


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("text", "as it is ", "as it is "),
        ("text", 5, "5"),
        ("text", True, "true"),
        ("text", {"a": 1}, '{"a": 1}'),
        ("whole", "10", 10),
        ("whole", " -7.00 ", -7),
        ("whole", 3.0, 3),
        ("number", "2.5", 2.5),
        ("number", "1e3", 1000.0),
        ("number", "10", 10),
        ("number", 4, 4),
        ("flag", "True", True),
        ("flag", " no ", False),
        ("flag", 1, True),
        ("names", '["a", "b"]', ["a", "b"]),
        ("names", "a, 'b' ,c", ["a", "b", "c"]),
        ("names", "['a', 'b']", ["a", "b"]),
        ("names", "", []),
        ("names", "[]", []),
        ("names", "[not json", ["[not json"]),
        ("names", ("a",), ["a"]),
        ("numbers", "1,2", [1, 2]),
        ("numbers", 7, [7]),
        ("things", '{"id": "1"}', [{"id": 1}]),
        ("things", [{"id": "1", "tags": "2, 3"}], [{"id": 1, "tags": [2, 3]}]),
        ("thing", ' {"id": 1, "tags": null} ', {"id": 1}),
        ("free", '{"a": [1]}', {"a": [1]}),
        ("any", [None], [None]),
        ("choice", "open", "OPEN"),
        ("choice", " Closed ", "CLOSED"),
        ("level", "2", 2),
        ("bounded", "9", 9),
        ("code", "c-123", "c-123"),
        ("either", "5", 5),
        ("either", "1, 2", [1, 2]),
        ("either", [1], [1]),
        ("map", '{"a": "true"}', {"a": True}),
    ],
)
def test_what_is_meant_is_accepted(name: str, written: Any, value: Any) -> None:
    arguments, problems = check(**{name: written})
    assert problems == []
    assert arguments == {name: value}
    assert type(arguments[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "written", "says"),
    [
        ("whole", "ten", "must be an integer, not 'ten'"),
        ("whole", True, "must be an integer, not True"),
        ("whole", 1.5, "must be an integer, not 1.5"),
        ("whole", "1_0", "must be an integer"),
        ("whole", "\u0661", "must be an integer"),
        ("whole", "9" * 5000, "must be an integer"),
        ("number", "nan", "must be a number, not 'nan'"),
        ("number", math.inf, "must be a number"),
        ("number", "1e999", "must be a number"),
        ("flag", "maybe", "must be true or false, not 'maybe'"),
        ("flag", 2, "must be true or false"),
        (
            "numbers",
            "1, x",
            r"numbers ([1]) in the GET__g__f function call must be an integer, not 'x'",
        ),
        ("things", [{"id": 1}, {"id": 2, "tags": ["x"]}], "things ([1].tags[0])"),
        ("thing", "{}", "must have the member 'id'"),
        ("thing", {"id": 1, "ID": 2}, "has no member 'ID'; it may have id, tags"),
        ("thing", "not json", "must be a JSON object, not 'not json'"),
        ("thing", '{"id": NaN}', "must be a JSON object"),
        ("thing", "[" * 100_000, "must be a JSON object"),
        ("free", 5, "must be a JSON object, not 5"),
        ("choice", "OPENED", "must be one of OPEN, CLOSED, no; not 'OPENED'"),
        ("level", 3, "must be one of 1, 2; not 3"),
        ("bounded", 0, "must be at least 1, not 0"),
        ("bounded", 10, "must be less than 10, not 10"),
        ("code", "x", "must match the pattern ^c-[0-9]+$"),
        ("code", "c-" + "1" * 9, "must have at most 6 characters"),
        ("few", [], "must have at least 1 items"),
        ("few", "a,b,c", "must have at most 2 items"),
        ("either", "x", "must be integer or array, not 'x'"),
        ("map", {"a": "perhaps"}, "map (a) in the"),
    ],
)
def test_what_does_not_fit_is_explained_to_the_model(name: str, written: Any, says: str) -> None:
    arguments, problems = check(**{name: written})
    assert arguments == {} and len(problems) == 1
    assert problems[0].startswith(f"The argument {name}") and says in problems[0]
    assert problems[0].endswith("Please correct it and try again.")
    assert len(problems[0]) < 300


def test_missing_arguments_are_all_named() -> None:
    operation = REQUIRED.operations[0]
    arguments, problems = REQUIRED.validate(
        operation, {"text": "", "whole": "", "flag": None}, "xml"
    )
    assert arguments == {"text": ""}
    assert len(problems) == len(SCHEMAS) - 1
    assert problems[0].startswith(
        "Missing the argument whole in the GET::g::/x function call. Please add"
    )


def test_an_optional_argument_may_be_null_or_empty() -> None:
    assert check(whole=None, text=None, thing="", choice="", flag="") == ({}, [])
    assert check(text="") == ({"text": ""}, [])


def test_unknown_arguments_are_named_with_a_suggestion() -> None:
    arguments, problems = check(txt="a", whole=1)
    assert arguments == {"whole": 1}
    assert problems[0].startswith(
        "The GET__g__f function has no argument txt; did you mean 'text'?"
    )


def test_a_name_in_another_spelling_is_put_right() -> None:
    schema = [{"name": "f", "parameters": {"claimId": {"type": "string", "required": True}}}]
    made = Catalog([ActionGroup("g", functions=schema, executor=ReturnControl())])
    operation = made.operations[0]
    assert made.validate(operation, {"claim_id": "c-1"}) == ({"claimId": "c-1"}, [])
    assert made.validate(operation, {"claim_id": "x", "claimId": "y"})[1] != []
    assert made.validate(operation, {"claim_id": "x", "CLAIMID": "y"})[1] != []


@pytest.mark.parametrize(
    ("required", "missing"),
    [([["id"], {"id": 1}, None, 7], False), ([["id"], "id"], True), (7, False), ("id", False)],
)
def test_what_is_no_name_requires_nothing(required: Any, missing: bool) -> None:
    # Neither of one schema, nor of those that are merged into one.
    plain = {"type": "object", "required": required}
    for schema in (plain, {"allOf": [plain, {"type": "object"}]}):
        coerce = compile_schema(SchemaReader(schema, _refuse).schema(schema, ()))
        assert coerce({"id": 1}) == {"id": 1}
        if missing:
            with pytest.raises(CoercionError, match="id"):
                coerce({})
        else:
            assert coerce({}) == {}


def test_arguments_that_are_no_object() -> None:
    operation = CATALOG.operations[0]
    validate: Any = CATALOG.validate
    assert validate(operation, '{"whole": "3"}') == ({"whole": 3}, [])
    assert validate(operation, "") == validate(operation, None) == ({}, [])
    for wrong in ("nope", [1], 5, "[" * 100_000):
        arguments, problems = validate(operation, wrong)
        assert arguments == {} and "must be one JSON object" in problems[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "tags", "a"]) | st.text(max_size=4), inner, max_size=3
        )
    ),
    max_leaves=12,
)
texts = values.map(lambda value: json.dumps(value)) | values


@given(
    st.dictionaries(st.sampled_from(list(SCHEMAS)) | st.text(max_size=5), texts, max_size=6) | texts
)
def test_any_arguments_are_taken_or_explained(arguments: Any) -> None:
    operation = CATALOG.operations[0]
    out, problems = CATALOG.validate(operation, arguments)
    assert all(isinstance(problem, str) and problem for problem in problems)
    assert set(out) <= set(SCHEMAS)
    for name, value in out.items():
        kind = SCHEMAS[name].get("type")
        types = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
        assert kind not in types or type(value) is types[kind]
    # What was accepted is accepted again, unchanged.
    again = CATALOG.validate(operation, out)
    assert again == (out, []) or out != out or "nan" in repr(out).lower()


@given(st.integers(), st.text(), st.booleans(), st.lists(st.integers()))
def test_texts_of_values_come_back_as_the_values(
    whole: int, text: str, flag: bool, numbers: list[int]
) -> None:
    written = {"whole": str(whole), "text": text, "flag": str(flag), "numbers": json.dumps(numbers)}
    assert check(**written) == (
        {"whole": whole, "text": text, "flag": flag, "numbers": numbers},
        [],
    )
