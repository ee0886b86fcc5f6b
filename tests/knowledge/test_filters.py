"""Bedrock's metadata filters: what passes, and what is no filter."""

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ValidationError
from orchestrator.knowledge.filters import OPERATORS, compile_filter

METADATA = {
    "year": 2026,
    "topic": "time off",
    "draft": True,
    "for": ["staff", "leads"],
    "half": 0.5,
}


def one(operator, key, value):
    return {operator: {"key": key, "value": value}}


@pytest.mark.parametrize(
    ("operator", "key", "value", "passes"),
    [
        ("equals", "year", 2026, True),
        ("equals", "year", 2026.0, True),
        ("equals", "year", "2026", False),
        ("equals", "draft", True, True),
        ("equals", "draft", 1, False),
        ("equals", "for", "staff", False),
        ("equals", "gone", "x", False),
        ("notEquals", "year", 2025, True),
        ("notEquals", "year", 2026, False),
        ("notEquals", "gone", "x", True),
        ("greaterThan", "year", 2025, True),
        ("greaterThan", "year", 2026, False),
        ("greaterThan", "topic", 1, False),
        ("greaterThan", "draft", 0, False),
        ("greaterThanOrEquals", "year", 2026, True),
        ("lessThan", "half", 0.6, True),
        ("lessThan", "year", 2026, False),
        ("lessThanOrEquals", "year", 2026, True),
        ("in", "topic", ["pay", "time off"], True),
        ("in", "topic", ["pay"], False),
        ("in", "gone", ["pay"], False),
        ("notIn", "topic", ["pay"], True),
        ("notIn", "topic", ["time off"], False),
        ("notIn", "gone", ["pay"], True),
        ("startsWith", "topic", "time", True),
        ("startsWith", "topic", "off", False),
        ("startsWith", "year", "20", False),
        ("listContains", "for", "staff", True),
        ("listContains", "for", "sta", False),
        ("listContains", "topic", "time off", False),
        ("stringContains", "topic", "me o", True),
        ("stringContains", "for", "lead", True),
        ("stringContains", "for", "boss", False),
    ],
)
def test_an_operator(operator, key, value, passes):
    assert compile_filter(one(operator, key, value)).test(METADATA) is passes


def test_groups_may_be_nested():
    late = one("greaterThan", "year", 2025)
    pay = one("equals", "topic", "pay")
    staff = one("listContains", "for", "staff")
    compiled = compile_filter({"andAll": [late, {"orAll": [pay, staff]}]})
    assert compiled.test(METADATA)
    assert not compiled.test({**METADATA, "for": []})
    assert compiled.keys == {"year", "topic", "for"}


def test_the_operators_are_those_of_the_service():
    model = botocore.session.Session().get_service_model("bedrock-agent-runtime")
    assert set(OPERATORS) == set(model.shape_for("RetrievalFilter").members)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "exactly one member"),
        ("x", "exactly one member"),
        ({"equals": {"key": "a", "value": 1}, "in": {"key": "a", "value": [1]}}, "exactly one"),
        (
            {"matches": {"key": "a", "value": 1}},
            "has no operator 'matches'; there are equals",
        ),
        ({"equals": {"key": "a"}}, "filter.equals must be an object with the members"),
        ({"equals": {"key": "", "value": 1}}, "filter.equals.key"),
        ({"equals": {"key": "k" * 101, "value": 1}}, "100 characters"),
        ({"equals": {"key": "a", "value": ["secret"]}}, "attribute 'a' must be a text, a number"),
        ({"lessThan": {"key": "a", "value": "secret"}}, "must be a number"),
        ({"lessThan": {"key": "a", "value": True}}, "must be a number"),
        ({"in": {"key": "a", "value": "secret"}}, "must be a list"),
        ({"in": {"key": "a", "value": []}}, "must be a list"),
        ({"startsWith": {"key": "a", "value": 1}}, "must be a text"),
        ({"andAll": [{"equals": {"key": "a", "value": 1}}]}, "at least two"),
        (
            {"orAll": [{"equals": {"key": "a", "value": 1}}, {"nope": 1}]},
            r"filter.orAll\[1\] has no operator 'nope'",
        ),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(value, says):
    with pytest.raises(ValidationError, match=says) as caught:
        compile_filter(value)
    assert "secret" not in str(caught.value)


def test_depth_and_size_are_bounded():
    leaf = one("equals", "a", 1)
    deep = leaf
    for _ in range(5000):
        deep = {"andAll": [deep, leaf]}
    with pytest.raises(ValidationError, match="nested deeper"):
        compile_filter(deep)
    with pytest.raises(ValidationError, match="conditions"):
        compile_filter({"orAll": [leaf] * 1001})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*OPERATORS, "key", "value", "x"]), inner, max_size=2)
    ),
    max_leaves=12,
)


@given(VALUES, st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_any_value_is_a_filter_or_a_validation_error(value, metadata):
    try:
        compiled = compile_filter(value)
    except ValidationError:
        return
    assert isinstance(compiled.test(metadata), bool)
