"""Mustache: what the language says, and who wrote what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.prompts.jinja_pieces import tag_origin
from orchestrator.prompts.languages.mustache import Mustache
from orchestrator.prompts.languages.values import value_text
from orchestrator.prompts.mistakes import Mistake


def rendered(text: str, **values: Any) -> str:
    pieces = Mustache(text, value_text).pieces(values)
    return "".join([piece for _, piece in pieces])


@pytest.mark.parametrize(
    ("text", "values", "made"),
    [
        ("a {{x}} b", {"x": 1}, "a 1 b"),
        ("{{ x }}{{none}}", {"x": "y"}, "y"),
        ("{{x}} {{{x}}} {{&x}}", {"x": "<&>\"'"}, "&lt;&amp;&gt;&quot;' <&>\"' <&>\"'"),
        ("{{a.b.c}}{{a.x.y}}", {"a": {"b": {"c": 1}}}, "1"),
        ("{{#l}}{{.}},{{/l}}", {"l": [1, 2]}, "1,2,"),
        ("{{#l}}{{x}}{{y}},{{/l}}", {"l": [{"x": 1}, {"x": 2}], "y": "z"}, "1z,2z,"),
        ("{{#o}}{{x}}{{/o}}", {"o": {"x": 1}}, "1"),
        ("{{#b}}yes{{/b}}{{^b}}no{{/b}}", {"b": True}, "yes"),
        ("{{#b}}yes{{/b}}{{^b}}no{{/b}}", {"b": []}, "no"),
        ("{{#b}}yes{{/b}}{{^b}}no{{/b}}", {}, "no"),
        ("a{{! no }}b", {}, "ab"),
        ("a\n  {{! no }}  \nb", {}, "a\nb"),
        ("l:\n{{#l}}\n- {{.}}\n{{/l}}\nend", {"l": ["x"]}, "l:\n- x\nend"),
        ("{{#l}} {{.}} {{/l}}\n", {"l": ["x"]}, " x \n"),
        ("{{=<% %>=}}<%x%>{{x}}<%={{ }}=%>{{x}}", {"x": 1}, "1{{x}}1"),
        ("{{x}}", {"x": True}, "true"),
        ("{{x}}", {"x": {"a": 1}}, "{&quot;a&quot;: 1}"),
        ("{{x", {}, None),
        ("{{#x}}a", {}, None),
        ("{{#x}}a{{/y}}", {}, None),
        ("{{/x}}", {}, None),
        ("{{> other}}", {}, None),
        ("{{a b}}", {}, None),
        ("{{}}", {}, None),
        ("{{=x=}}", {}, None),
        ("{{#x}}" * 60, {}, None),
    ],
)
def test_it_is_mustache(text: str, values: dict[str, Any], made: str | None) -> None:
    if made is None:
        with pytest.raises(Mistake):
            rendered(text, **values)
    else:
        assert rendered(text, **values) == made


def test_a_mistake_has_its_line() -> None:
    with pytest.raises(Mistake) as caught:
        rendered("a\n{{x}}\n{{#s}}\n{{/t}}")
    assert caught.value.line == 4


def test_it_knows_its_names_and_who_wrote_what() -> None:
    template = Mustache("A {{x.y}} {{#l}}{{z}}{{.}}{{/l}}", value_text)
    assert template.names == {"x", "l", "z"}
    pieces = template.pieces(
        {name: tag_origin(it, name) for name, it in {"x": {"y": "v"}, "l": ["w"]}.items()}
    )
    assert pieces == [("template", "A "), ("x", "v"), ("template", " "), ("l", "w")]


def test_the_work_is_bounded() -> None:
    text = "{{#l}}" * 5 + "x" + "{{/l}}" * 5
    with pytest.raises(Mistake, match="more than"):
        rendered(text, l=[1] * 100)


@given(st.text(alphabet="{}#^/!>&= xy\n.", max_size=60), st.text(max_size=10))
def test_any_text_is_rendered_or_refused(text: str, value: str) -> None:
    try:
        template = Mustache(text, value_text)
    except Mistake:
        return
    template.pieces({"x": tag_origin(value, "x"), "y": [tag_origin(value, "y")]})
