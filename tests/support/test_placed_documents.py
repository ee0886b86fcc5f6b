"""YAML and JSON with places: bounded, and read by one set of rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DefinitionError, TemplateError
from orchestrator.support.documents import Place, Rules, compose, parse, parse_json

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def refusal(text: str, rules: Rules | None = None) -> str:
    with pytest.raises(DefinitionError) as caught:
        parse(text, "f.yaml", rules or Rules())
    return str(caught.value)


@given(data=DATA)
def test_what_is_written_is_read(data: Any) -> None:
    text = json.dumps(data)
    assert parse_json(text).data == data
    assert parse_json(text).root == parse(text).root


@given(depth=st.integers(0, 60), most=st.integers(0, 60))
def test_depth_is_counted_in_lists_and_mappings(depth: int, most: int) -> None:
    text = "".join("[" if n % 2 else "{a: " for n in range(depth))
    text += "1" + "".join("]" if n % 2 else "}" for n in reversed(range(depth)))
    rules = Rules(max_depth=most)
    if depth <= most:
        assert compose(text, rules=rules) is not None
        return
    with pytest.raises(DefinitionError, match=f"nested deeper than {most} levels") as caught:
        compose(text, rules=rules)
    assert caught.value.column == 1 + sum(1 if n % 2 else 4 for n in range(most + 1))


def test_every_value_and_name_has_its_place() -> None:
    document = parse("a: 1\nb:\n  - x\n  - {c: x,\n     d: y}\n")
    assert document.root.follow(("b", 1, "c"))[0].key == (4, 6)
    assert document.root.children["a"] == Place(1, 4, (1, 1), "1")
    around, found = document.root.follow(("b", 7))
    assert ((around.line, around.column), found) == ((3, 3), False)


@pytest.mark.parametrize(
    ("version", "read"),
    [
        ("1.2", ["yes", 10, 1.5, "12:30", "2026-01-31", "", "x"]),
        ("1.1", [True, 8, 1.5, 750, "2026-01-31", "", "x"]),
        ("text", ["yes", "010", "1.5", "12:30", "2026-01-31", "", "x"]),
    ],
)
def test_plain_scalars_are_those_of_the_version(version: Any, read: list[Any]) -> None:
    text = "[yes, 010, 1.5, 12:30, 2026-01-31, '', x]"
    assert parse(text, rules=Rules(scalars=version)).data == read


def test_aliases_are_refused_unless_they_are_allowed() -> None:
    text = "a: &x [1]\nb: *x\n"
    assert refusal(text) == "f.yaml:2:4: aliases are not understood here; repeat the value"
    assert parse(text, rules=Rules(aliases=True)).data == {"a": [1], "b": [1]}
    assert "no anchor &y before" in refusal("a: *y", Rules(aliases=True))


def test_an_alias_counts_as_all_that_it_repeats() -> None:
    text = "a: &x [1, 2, 3]\nb: [*x, *x, *x]\n"
    assert len(parse(text, rules=Rules(aliases=True, max_nodes=18)).data["b"]) == 3
    assert "more than 17 values" in refusal(text, Rules(aliases=True, max_nodes=17))
    assert "more than 9 values" in refusal(f"[{'1, ' * 30}]", Rules(max_nodes=9))


def test_merge_keys_add_what_is_not_there() -> None:
    rules = Rules(aliases=True, merge_keys=True)
    text = "a: &x {p: 1, q: 2}\nb: {<<: [*x, {q: 3, r: 4}], p: 5}\n"
    assert parse(text, rules=rules).data["b"] == {"p": 5, "q": 2, "r": 4}
    assert refusal("a: {<<: 1}", rules).startswith("f.yaml:1:4: a merge key (<<) has a mapping")
    assert "merge keys (<<) are not supported" in refusal(text, Rules(aliases=True))


def test_a_tag_means_what_its_reader_says() -> None:
    rules = Rules(tags=lambda tag, value: {tag: value})
    text = "a: !Sub x\nb: !Join [',', [!Ref C]]\n"
    assert parse(text, rules=rules).data == {
        "a": {"!Sub": "x"},
        "b": {"!Join": [",", [{"!Ref": "C"}]]},
    }
    assert refusal("a: !Sub x") == "f.yaml:1:4: the tag '!Sub' is not supported; leave it out"
    assert parse("a: !!str 1\nb: !!int '2'").data == {"a": "1", "b": 2}


def test_names_may_look_like_numbers() -> None:
    assert parse("200: a\nyes: b\n").data == {"200": "a", "yes": "b"}
    assert 'write "200"' in refusal("200: a", Rules(any_names=False))


def test_all_mistakes_are_in_one_error_of_the_kind_that_was_asked_for() -> None:
    with pytest.raises(TemplateError) as caught:
        parse("a: 1\na: 2\nb: !x 1\n", rules=Rules(error=TemplateError), line=11)
    assert [(it.line, it.code) for it in caught.value.diagnostics] == [
        (12, "duplicate-member"),
        (13, "tag"),
    ]


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\t- a", "a: 'x", "- a\nb", "{a: 1]", "\x07"])
def test_messages_are_the_same_without_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert refusal(text) == message
