"""Users' Jinja2: what templates come to, and who wrote which piece of it."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import SandboxedEnvironment

from orchestrator.message import AUTHOR
from orchestrator.prompts.jinja import CompiledTemplate, Jinja
from orchestrator.prompts.jinja_pieces import VALUE, tag_origin
from orchestrator.prompts.mistakes import Mistake

JINJA = Jinja()
PLAIN = SandboxedEnvironment()


@cache
def compiled(source: str) -> CompiledTemplate:
    return JINJA.compile_template(source)


@cache
def plain(source: str) -> Any:
    return PLAIN.from_string(source)


def pieces(source: str, **values: Any) -> list[tuple[str, str]]:
    return compiled(source).pieces({name: tag_origin(one, name) for name, one in values.items()})


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("a{{ v }}b", [(AUTHOR, "a"), ("v", "V"), (AUTHOR, "b")]),
        ("{{ v }}{{ v }}", [("v", "V"), ("v", "V")]),
        ("{{ v|upper }}", [(VALUE, "V")]),
        ("{{ v ~ 'x' }}", [(VALUE, "Vx")]),
        ("{{ 'x' }}", [(VALUE, "x")]),
        ("{% set x %}a{{ v }}{% endset %}{{ x }}", [(AUTHOR, "a"), ("v", "V")]),
        ("{% set x %}a{{ v }}{% endset %}{{ x|upper }}", [(VALUE, "AV")]),
        ("{% set x %}a{{ v }}{% endset %}{{ x|length }}", [(VALUE, "2")]),
        ("{% set x|replace('a', 'b') %}a{% endset %}{{ x }}", [(VALUE, "b")]),
        ("{% filter replace('a', v) %}a{% endfilter %}", [(VALUE, "V")]),
        ("{% filter upper %}a{% endfilter %}", [(VALUE, "A")]),
        ("{% macro m(x) %}a{{ x }}{% endmacro %}{{ m(v) }}", [(AUTHOR, "a"), ("v", "V")]),
        (
            "{% macro m() %}a{{ caller() }}{% endmacro %}{% call m() %}b{{ v }}{% endcall %}",
            [(AUTHOR, "ab"), ("v", "V")],
        ),
        ("{% for x in [v, v] %}{{ x }},{% endfor %}", [("v", "V"), (AUTHOR, ",")] * 2),
        ("{% autoescape true %}a{{ v }}{% endautoescape %}", [(VALUE, "a"), (VALUE, "V")]),
        ("{% block b %}a{{ v }}{% endblock %}", [(AUTHOR, "a"), ("v", "V")]),
        ("{% if v == 'V' %}a{% else %}b{% endif %}", [(AUTHOR, "a")]),
        ("{{ nope }}", []),
        ("{% for x in nope %}{{ x }}{% endfor %}", []),
    ],
)
def test_who_wrote_what(source: str, made: list[tuple[str, str]]) -> None:
    assert pieces(source, v="V") == made


def test_neighbouring_texts_of_the_author_are_one_piece() -> None:
    assert pieces("a{% if true %}b{% endif %}c{# no #}d") == [(AUTHOR, "abcd")]


TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from(list("{}%#'\"<>&\ue000\ue001\x00\n:0123456789.")),
    )
)
FORGED = st.one_of(
    TEXTS,
    st.builds(lambda n, at: f"\ue000{n}.{at}\ue001", st.integers(0, 2**64), st.integers(0, 9)),
    st.sampled_from(["{{ secret }}", "{% raw %}", "{{ 7*7 }}", "user:", "\n\nHuman:", "{#"]),
)
SHAPES = [
    "S[{{ v }}]E",
    "S[{% set x %}({{ v }}){% endset %}{{ x }}{{ x|upper }}]E",
    "S[{% macro m(y) %}<{{ y }}>{% endmacro %}{{ m(v) }}{{ m(m(v)) }}]E",
    "S[{% filter replace('k', v) %}k{{ v }}{% endfilter %}]E",
    "S[{% for one in [v, v|upper, v ~ v] %}{{ loop.index }}{{ one }};{% endfor %}]E",
    "S[{{ [v, w]|join(w) }}{{ {'k': v}.k }}{{ (v ~ w)|replace(w, v) }}]E",
    "S[{% if v %}{{ v|tojson }}{% else %}{{ w|e }}{% endif %}]E",
    "S[{{ v|string|list|last }}{{ v[:3] }}{{ v.replace('a', w) }}]E",
    "S[{% autoescape true %}{{ v }}{{ v|safe }}{% endautoescape %}]E",
    "S[{{ w|default(v, true) }}{{ (v, w)|sort|first }}{{ v.split()|join }}]E",
]


@pytest.mark.parametrize("shape", SHAPES)
@given(v=FORGED, w=FORGED)
def test_pieces_joined_are_the_plain_rendering(shape: str, v: str, w: str) -> None:
    try:
        rendered = plain(shape).render(v=v, w=w)
    except Exception:
        with pytest.raises(Mistake):
            pieces(shape, v=v, w=w)
        return
    made = pieces(shape, v=v, w=w)
    if "autoescape" not in shape:  # escaped before it is known what is printed
        assert "".join(text for _, text in made) == rendered
    assert compiled(shape).render({"v": v, "w": w}) == "".join(text for _, text in made)


@pytest.mark.parametrize("shape", SHAPES)
@given(v=FORGED, w=FORGED)
def test_a_value_never_becomes_the_authors(shape: str, v: str, w: str) -> None:
    try:
        made = pieces(shape, v=v, w=w)
    except Mistake:
        return
    written = [text for origin, text in made if origin == AUTHOR]
    expected = [text for origin, text in pieces(shape, v="v", w="w") if origin == AUTHOR]
    if v and w and shape.find("{% if") < 0:
        assert written == expected
    assert set("".join(written)) <= set(shape)
    for origin, text in made:
        assert origin in (AUTHOR, VALUE, "v", "w")
        assert origin not in ("v", "w") or text == {"v": v, "w": w}[origin]


@given(source=st.one_of(TEXTS, st.text("{}%# abv|.()[]'+*~-\n", max_size=60)), v=TEXTS)
def test_any_text_is_a_template_or_a_mistake(source: str, v: str) -> None:
    try:
        compiled(source).render({"a": v, "b": [v], "v": {"a": v}})
    except Mistake as mistake:
        assert mistake.line >= 1


@pytest.mark.parametrize(
    "source",
    [
        "{{ v|join(',') }}",
        "{{ v|batch(2)|map('list')|list }}",
        "{{ v|slice(2)|map('list')|list }}",
        "{{ v|sum }} {{ v|map('string')|list|length }}",
        "{{ [[1], [2, 3]]|sum(start=[]) }}",
        "{{ 'a\nb'|indent(2) }}|{{ 'a\nb'|indent('> ', true) }}",
        "{{ 'aaa'|replace('a', 'b', 2) }}{{ 'aaa'.replace('a', 'b') }}{{ ','.join(['a', 'b']) }}",
        "{{ m|items|list }}{{ m|dictsort }}{{ m|tojson }}{{ m|tojson(indent=2) }}",
        "{{ v|select('odd')|list }}{{ v|reject('odd')|list }}{{ v|unique|list }}",
        "{{ rows|map(attribute='n')|list }}{{ rows|selectattr('n', 'gt', 1)|list }}",
        "{% for g in rows|groupby('n') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}",
        "{{ rows|sort(attribute='n', reverse=true) }}{{ rows|sum(attribute='n') }}",
        "{% set ns = namespace(n=0) %}{% for i in v %}{% set ns.n = i %}{% endfor %}{{ ns.n }}",
        "{% for i in v %}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{% endfor %}",
        "{% for i in v %}{{ loop.changed(i) }}{{ loop.nextitem }}{% endfor %}",
        "{% for i in v if i > 1 %}{{ i }}{% else %}none{% endfor %}",
        "{{ v[1:] }}{{ v[-1] }}{{ m['a'] }}{{ m.get('z', 0) }}{{ 'ab'[0] }}",
        "{{ dict(b=1, **m) }}{{ range(3)|list }}{{ 7 // 2 }}{{ 7 % 2 }}{{ 2 ** 3 }}",
        "{{ 1 in v }}{{ 'a' in m }}{{ v == [1, 2, 3] }}{{ 1 if m else 2 }}{{ m is mapping }}",
    ],
)
def test_what_stays_within_bounds_is_jinjas(source: str) -> None:
    values = {"v": [1, 2, 3], "m": {"a": 1}, "rows": [{"n": 2}, {"n": 1}, {"n": 2}]}
    assert compiled(source).render(values) == plain(source).render(values)


def test_a_mistake_has_its_line() -> None:
    with pytest.raises(Mistake, match="unknown tag 'nope'") as caught:
        compiled("a\nb {% nope %}")
    assert caught.value.line == 2
    with pytest.raises(Mistake, match="'x' is undefined") as caught:
        compiled("a\n\n{{ x.y }}").render({})
    assert caught.value.line == 3


@pytest.mark.parametrize(
    "source",
    [
        "{{ v() }}",
        "{{ v|filesizeformat }}",
        "{{ v.nope() }}",
        "{{ {'a': 1}[v].x }}",
        "{{ [1][v]() }}",
        "{{ [1]|map(v)|list }}",
        "{{ [1]|select(v)|list }}",
        "{{ [1]|map(v ~ 'x')|list }}",
        "{{ [1]|reject(v|lower)|list }}",
        "{{ [1, 2]|groupby(v)|list }}",
        "{{ [1]|sum(attribute=v ~ '.x') }}",
        "{{ {'a': 1}[v ~ ''].x }}",
        "{{ [1]['1234'|int + n].x }}",
        "{{ 'a'|upper(**m) }}",
        "{% macro f(a) %}{% endmacro %}{{ f(**m) }}",
        "{{ range(**m) }}",
        "{{ 1 + v }}",
        "{{ -v }}",
        "{% macro f() %}{{ v }}{% endmacro %}{{ f() / 2 }}",
    ],
)
def test_a_mistake_tells_no_value(source: str) -> None:
    values = {"v": "canary", "m": {"canary": 1}, "n": 4321}
    with pytest.raises(Mistake) as caught:
        compiled(source).render({name: tag_origin(value, name) for name, value in values.items()})
    assert not {"canary", "5555"} & set(re.findall(r"\w+", caught.value.message))
    assert not re.search(r"jinja_pieces|\bValue\b|OutputText", caught.value.message)  # our classes


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("{{ m.nope.x }}", "'nope'"),
        ("{{ m['nope'].x }}", "'nope'"),
        ("{{ [1][7].x }}", "7"),
        ("{{ [m]|sum(attribute='a.nope.x') }}", "'nope'"),
        ("{{ [1]|map('nope')|list }}", "'nope'"),
        ("{{ 'a'|upper(nope=1) }}", "'nope'"),
        ("{{ m.Value.x }}", "'Value'"),
        ("{% macro f() %}{% endmacro %}{{ f(**m) if m.b else m.nope.x }}", "'nope'"),
    ],
)
def test_a_mistake_tells_what_the_author_wrote(source: str, name: str) -> None:
    with pytest.raises(Mistake, match=name):
        compiled(source).render({"m": {"a": {}}})


def test_the_names_that_a_template_reads() -> None:
    source = "{% set a = b %}{% for c in d %}{{ c }}{{ loop.index }}{% endfor %}{{ range(e) }}"
    assert compiled(source).names == {"b", "d", "e"}


def test_finalize_says_what_values_print() -> None:
    quoted = Jinja(lambda value: json.dumps(value))
    assert quoted.compile_template("{{ v }}{{ [1] }}{{ none }}").render({"v": "x"}) == '"x"[1]null'
