"""Expressions of conditions: what they mean, and that nothing breaks their reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.flows.node_graph.conditions import (
    ConditionSyntaxError,
    ConditionTypeError,
    parse_condition,
)

VALUES = {"n": 3, "m": 2.5, "t": "cat", "yes": True, "list": [1]}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("n == 3", True),
        ("n == 3.0", True),
        ("n != 3", False),
        ("n > m and n <= 3", True),
        ("n < m or m >= 2.5", True),
        ("not n > m", False),
        ("not (n > m and t == 'dog')", True),
        ("n == 1 or n == 3 and t == 'dog'", False),
        ('(n == 3 or n == 1) and t == "cat"', True),
        ("not yes or n==3", True),
        ("yes", True),
        ("yes == true", True),
        ("true and not false", True),
        ("t == 'and'", False),
        ("-1 < n", True),
        # The data type must be equal, too.
        ("n == '3'", False),
        ("n != '3'", True),
        ("yes == 1", False),
        ("list == 1", False),
    ],
)
def test_expressions_compare_inputs_and_constants(text: str, holds: bool) -> None:
    assert parse_condition(text).evaluate(VALUES) is holds


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "missing before the end"),
        ("n ==", "missing before the end"),
        ("n == 3 and", "missing before the end"),
        ("and n == 3", "missing before 'and'"),
        ("n == 3)", "nothing may follow before ')'"),
        ("(n == 3", "a parenthesis is not closed"),
        ("n = 3", "'= 3' cannot be read"),
        ("n == 3 && m == 2", "'&& m == 2' cannot be read"),
        ("n == 1 == 2", "nothing may follow before '=='"),
        ("t > 'a'", "'a' is no number: > compares numbers"),
        ("'a'", "'a' is compared with nothing"),
        ('t == "a', "cannot be read"),
        ("n == 1.2.3", "cannot be read"),
        ("n == __import__('os')", "nothing may follow before '('"),
        ("(" * 65, "the most are 64"),
        ("n == 1" + " " * 100_000, "the most are 64"),
    ],
)
def test_what_is_no_expression_says_why(text: str, wrong: str) -> None:
    with pytest.raises(ConditionSyntaxError) as found:
        parse_condition(text)
    assert wrong in str(found.value)


def test_values_of_a_wrong_type_are_named() -> None:
    with pytest.raises(ConditionTypeError, match=r"t is of the type String, where .* a Number"):
        parse_condition("t > 1").evaluate(VALUES)
    with pytest.raises(ConditionTypeError, match=r"n is of the type Number, where .* a Boolean"):
        parse_condition("not n").evaluate(VALUES)


WORDS = ["n", "t", "yes", "and", "or", "not", "(", ")", "==", "!=", "<", ">=", "1", "2.5", "'a'"]
WORDS += ["true", '"', "-", "\n", "é", "\0", "."]


@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)))
def test_every_text_is_an_expression_or_none(text: str) -> None:
    try:
        condition = parse_condition(text)
        result: Any = condition.evaluate({name: VALUES.get(name) for name in condition.names})
    except (ConditionSyntaxError, ConditionTypeError):
        return
    assert result in (True, False)


numbers = st.integers(-50, 50)
comparisons = st.builds(
    lambda left, sign, right: (f"{left} {sign} {right}", sign, left, right),
    st.sampled_from(["n", "m"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    numbers,
)


@given(numbers, numbers, st.lists(comparisons, min_size=1, max_size=3), st.booleans())
def test_expressions_mean_what_python_means(
    n: int, m: int, parts: list[tuple[Any, ...]], both: bool
) -> None:
    joined = " and " if both else " or "
    text = joined.join(it[0] for it in parts)
    values = {"n": n, "m": m}
    tests = {
        "==": int.__eq__,
        "!=": int.__ne__,
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
    }
    wanted = [tests[sign](values[left], right) for _, sign, left, right in parts]
    found = parse_condition(text).evaluate(values)
    assert found is (all(wanted) if both else any(wanted))
    assert parse_condition(f"not ({text})").evaluate(values) is not found
