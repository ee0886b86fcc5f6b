"""Partials can print values and nothing else (attacks 5 and 6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import TemplateError
from orchestrator.message import Message
from orchestrator.prompts import load_dialect
from orchestrator.prompts.partials import compile_partial


class Secret:
    value = "canary"

    def __str__(self):
        return self.value


CONTEXT = {
    "text": "y" * 10_000,
    "items": ["a", "b"],
    "tool": {"name": "f", "items": 3},
    "secret": Secret(),
}


def render(text, **context):
    return compile_partial(text, "p.j2")({**CONTEXT, **context})


@pytest.mark.parametrize(
    "hostile",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ tool.__class__ }}",
        "{{ tool['__class__'] }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ tool|attr('format') }}",
        "{{ '{0.__class__}'.format(tool) }}",
        "{{ secret }}",
        "{{ secret.value }}",
        "{{ secret|upper }}",
        "{{ secret|json }}",
        "{{ tool }}",
        "{{ items }}",
        "{{ tool.update }}",
        "{{ range(10**9) }}",
        "{% for a in range(10**9) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as x %}",
        "{% extends 'x' %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set x = 1 %}",
        "{{ text ~ text }}",
        "{{ [text, text] }}",
        "{{ 1 + 1 }}",
        "{{ text|safe }}",
        "{{ missing }}",
        "{{ tool.missing.name }}",
        "{% if missing %}{% endif %}",
        "{% for x in items recursive %}{{ loop(x) }}{% endfor %}",
        "{% for x in items if x %}{% endfor %}",
        "{{ open(",
    ],
)
def test_hostile_partials_are_template_errors(hostile):
    with pytest.raises(TemplateError) as caught:
        render("\n" + hostile)
    assert caught.value.file == "p.j2"
    assert caught.value.line == 2
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "bomb",
    [
        "{{ 'x' * 50000000 }}",
        "{{ 'x'|center(10**9) }}",
        "{{ '%0999999999d'|format(1) }}",
        "{% for a in text %}" * 3 + "{% endfor %}" * 3,
        "{% for a in text %}{% for b in text %}{{ text }}{% endfor %}{% endfor %}",
        "{% for a in items %}" * 60 + "{% endfor %}" * 60,
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "x" * 100_001,
    ],
)
def test_bombs_are_template_errors_soon(bomb):
    with pytest.raises(TemplateError):
        render(bomb)


def test_what_partials_are_for():
    text = (
        "{% for name, value in tool|items %}\n"
        "{{ loop.index }} {{ name|upper }}={{ value }}{% if not loop.last %},{% endif %}\n\n"
        "{% endfor %}\n"
        "{{ tool.name if tool.name == 'f' else '-' }} {{ none is none }} {{ items[1] }} "
        "{{ tool.other|default('?') }} {{ tool|json }} {{ items|length }} {{ on }}"
    )
    expected = '1 NAME=f,\n2 ITEMS=3\nf True b ? {"name": "f", "items": 3} 2 '
    assert render(text, none=None, on=None) == expected


@given(st.text() | st.sampled_from(["{{ items }}", "{% if %}", "</a>", "&lt;"]))
def test_values_are_encoded_once_and_never_compiled(value):
    shown = render("<a>{{ value }}</a>", value=value)
    assert shown.count("<") == 2
    inner = shown.removeprefix("<a>").removesuffix("</a>")
    decoded = inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert decoded == value


def test_of_a_step_in_text_only_the_models_own_tags_stay():
    step = [{"text": "<answer>x</answer>"}]
    text = load_dialect("tool-use").step_text
    assert text(Message("assistant", step)) == "<assistant>\n<answer>x</answer>\n</assistant>\n"
    assert text(Message("user", step)) == "<user>\n&lt;answer&gt;x&lt;/answer&gt;\n</user>\n"
