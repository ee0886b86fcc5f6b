"""Expressions of both scripting languages: read whole, and calculated as Python would."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.flows.evaluation import UNDEFINED, evaluate, path_value
from orchestrator.flows.expressions import parse_arguments, parse_expression
from orchestrator.flows.members import MOST
from orchestrator.flows.tree import ScriptError, names_in, path_of
from orchestrator.flows.work import ScriptWork


class Names:
    """Names and their values."""

    def __init__(self, **values: Any) -> None:
        self.values = values
        self.work = ScriptWork()

    def variable(self, steps: Sequence[str | int], written: str) -> Any:
        return path_value(self.values, steps)

    def text(self, text: str) -> str:
        return text

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise ScriptError(f"no {name}")


def value(text: str, **values: Any) -> Any:
    return evaluate(parse_expression(text), Names(**values))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("7 % 4", 3),
        ("-a", -2),
        ("+a", 2),
        ("'a' + \"b\"", "ab"),
        ("[1] + [2]", [1, 2]),
        ("1 < 2 and 2 <= 2", True),
        ("1 == 1.0", True),
        ("1 === 1", True),
        ("1 < a < 3", True),
        ("1 < a < 3 < 3", False),
        ("a == 2 == 2", True),
        ("a < 1 < b", False),
        ("a in [2] == true", True),
        ("not a in [2] == true", False),
        ("(a == 2) == true", True),
        ("'1' == 1", False),
        ("a != 2 or b == 'x'", True),
        ("a > 1 && !(b == 'y')", True),
        ("false || a", 2),
        ("not nope", True),
        ("nope == None", True),
        ("nope == null", True),
        ("nope && x", UNDEFINED),
        ("'x' in b", True),
        ("3 not in [1, 2]", True),
        ("'k' in m", True),
        ("[1] in m", False),
        ("1 in m", False),
        ("m.k[0].d", 5),
        ('m["k"][0]["d"]', 5),
        ("m.k[1]", UNDEFINED),
        ("m.k.x", UNDEFINED),
        ("b[0]", "x"),
        ("b[-1]", "x"),
        ("[nope, 1]", [None, 1]),
        ("{a: nope, 'b': 2, 3: 4}", {"a": None, "b": 2, "3": 4}),
        ("$a + ${m.k[0].d}", 7),
        ("'\\n\\'\\\\'", "\n'\\"),
        ("'''\n    x\n      y\n    '''", "x\n  y"),
        ("'''x\n    y\n      z\n    '''", "x\ny\n  z"),
        ("'''  \n  x'''", "x"),
        (".5 + 1e2", 100.5),
        ("true and True", True),
        ("notable", UNDEFINED),
        ("order or android", UNDEFINED),
        ("回答", 42),
    ],
)
def test_values(text: str, found: Any) -> None:
    names = {"a": 2, "b": "x", "m": {"k": [{"d": 5}]}, "回答": 42}
    assert value(text, **names) == found


@pytest.mark.parametrize(
    ("text", "what", "zh"),
    [
        ("'a' < 1", "a text and a number cannot be compared", "文本"),
        ("[1] > [0]", "a list and a list cannot be compared", "列表"),
        ("nope < 1", "undefined and a number", "未定义的值"),
        ("true < 2", "a truth value", "布尔值"),
        ("'a' * 3", "cannot be calculated", "不能做"),
        ("1 + 'a'", "cannot be calculated", "不能做"),
        ("{} + {}", "a map and a map", "字典"),
        ("1 in 2", "cannot be looked for in a number", "查找"),
        ("1 in 'a'", "cannot be looked for in a text", "查找"),
        ("-'a'", "a text has no sign", "正负号"),
        ("1 / 0", "divided by zero", "除数为零"),
        ("1 % 0", "divided by zero", "除数为零"),
        ("f(1)", "no f", ""),
        ("a.b(1)", "only texts and lists have functions", "只有文本"),
        ("'a'.big()", "texts have no function 'big'", "文本没有函数"),
        ("[1].slize(0)", "did you mean 'slice'", "列表没有函数"),
        ("9" * 300 + "* 9" * 40, "too large", "数字过大"),
        ("1e300 * 1e300", "too large", "数字过大"),
        ("1e1000", "too large", "数字过大"),
        ("9" * 5000, "too large", "数字过大"),
    ],
)
def test_values_that_do_not_go_together(text: str, what: str, zh: str) -> None:
    with pytest.raises(ScriptError, match=what) as caught:
        value(text, a={"b": 1})
    assert zh in caught.value.message_zh


def test_texts_and_lists_stay_small() -> None:
    for start in ("x" * MOST, [0] * MOST):
        with pytest.raises(ScriptError, match="longer"):
            value("a + a", a=start)


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("", "ends too early", 0),
        ("1 +", "ends too early", 2),
        ("(1", "ends too early", 1),
        ("a b", "'b' is not expected here", 2),
        ("a == 'b", "quote ' is not closed", 5),
        ("f(a、b)", "full-width", 3),
        ("a ＝ b", "full-width", 2),
        ("a => b", "is a function in JavaScript", 2),
        ("lambda: 1", "is not expected", 6),
        ("a := 1", "is not expected", 2),
        ("[x for x in y]", "is not expected", 3),
        ("a if b else c", "is not expected", 2),
        ("a ** 2", "is not expected", 3),
        ("f'{a}'", "is not expected", 1),
        ("${a b}", "no path", 0),
        ("1.2.3", "is not expected", 4),
        ("a; b", "is not expected", 1),
    ],
)
def test_what_is_no_expression(text: str, what: str, at: int) -> None:
    with pytest.raises(ScriptError, match=what) as caught:
        parse_expression(text)
    assert caught.value.offset == at
    assert caught.value.message_zh


@pytest.mark.parametrize(
    "text",
    [
        "(" * 6000 + "1" + ")" * 6000,
        "[" * 40_000,
        "not " * 20_000 + "1",
        "- " * 40_000 + "1",
        "!" * 90_000 + "1",
        "1" + "+1" * 40_000,
        "a" + ".a" * 40_000,
        "a" + "[0]" * 30_000,
        "a" + "()" * 30_000,
        "f(" * 20_000 + ")" * 20_000,
        "1 or " * 19_000 + "1",
        "x" * 100_001,
        "'" + "\\" * 99_000,
        "{a:" * 20_000 + "1" + "}" * 20_000,
    ],
    ids=range(14),
)
def test_deep_and_long_expressions_are_refused(text: str) -> None:
    with pytest.raises(ScriptError):
        parse_expression(text)
    with pytest.raises(ScriptError):
        parse_arguments(text)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", []),
        ("1, 'a', [1, {}], x=true", [("", 1), ("", "a"), ("", [1, {}]), ("x", True)]),
        ("a='b=c'", [("a", "b=c")]),
        ("'a, b', 2,", [("", "a, b"), ("", 2)]),
        ("a == 1", [("", False)]),
    ],
)
def test_arguments(text: str, given: list[tuple[str, Any]]) -> None:
    found = [(one.name, evaluate(one.node, Names())) for one in parse_arguments(text)]
    assert found == given


def test_arguments_by_name_come_last_and_once() -> None:
    with pytest.raises(ScriptError, match="without a name follows") as caught:
        parse_arguments("a=1, 2")
    assert caught.value.offset == 5
    with pytest.raises(ScriptError, match="'a' is given twice"):
        parse_arguments("a=1, a=2")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        (" a.b[0][-1]['k']. c".replace(" c", "c"), ("a", "b", 0, -1, "k", "c")),
        ("a.0", ("a", "0")),
        ("名.字", ("名", "字")),
        ("a..b", None),
        ("a[b]", None),
        ("", None),
        ("0a", None),
        ("a b", None),
        ("a.", None),
    ],
)
def test_paths(text: str, steps: tuple[str | int, ...] | None) -> None:
    assert path_of(text) == steps


def test_bare_names_members_and_calls_are_found() -> None:
    node = parse_expression("[a, {k: b.c}, f(d)[0], $e, 'f']")
    assert sorted(str(one.value) for one in names_in(node) if one.kind == "name") == [
        *("a", "b", "d", "f"),
    ]


# Numbers, texts, lists, and what Python says of them.

NUMBERS = st.one_of(st.integers(0, 99), st.sampled_from([0.5, 2.0, 1e3])).map(repr)
STRINGS = st.text("ab '\"\\\nß文", max_size=4).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
)


def bigger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
    binary += ["and", "or"]
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(binary), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "*", "and", "or"]), inner),
        inner.map("not {}".format).map("({})".format),
        inner.map("(-{})".format),
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.builds("({})[{}]".format, inner, st.sampled_from(["0", "1", "-1"])),
    )


EXPRESSIONS = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["True", "False", "None", "n", "s", "l"])),
    bigger,
    max_leaves=8,
)
VALUES = {"n": 3, "s": "ab", "l": [1, "a", 2.5]}


@given(EXPRESSIONS)
def test_a_value_is_pythons(text: str) -> None:
    try:
        ours = value(text, **VALUES)
    except ScriptError:
        return  # stricter: of truth values, and of what is repeated
    try:
        with warnings.catch_warnings(action="ignore"):
            theirs = eval(text, {"__builtins__": {}}, VALUES)
    except (IndexError, TypeError, SyntaxError):
        assert "[" in text  # what is not there is undefined
        return
    assert ours is UNDEFINED or ours == theirs
    assert ours is UNDEFINED or isinstance(ours, bool) == isinstance(theirs, bool)


@given(st.one_of(st.text(max_size=60), st.text("ab1.,()[]{}'\"\\+-*/%=<>!&|$: \n", max_size=40)))
def test_any_text_is_an_expression_or_wrong(text: str) -> None:
    for read in (parse_expression, parse_arguments):
        try:
            read(text)
        except ScriptError as wrong:
            assert wrong.message
            assert 0 <= wrong.offset <= len(text)


@given(st.text(max_size=30))
def test_what_a_value_says_is_no_expression(text: str) -> None:
    assert value("[a, a + 'x', {k: a}]", a=text) == [text, text + "x", {"k": text}]
    assert value("a == b", a=text, b="1 == 1") is (text == "1 == 1")
