"""Attack 5: a hostile template of a user's own Jinja2 tries to run code, or to reach an object."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.prompts.jinja import Jinja
from orchestrator.prompts.jinja_pieces import tag_origin
from orchestrator.prompts.mistakes import Mistake

JINJA = Jinja()

HOSTILE = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ v.__class__.__mro__[1].__subclasses__() }}",
    "{{ v|attr('__class__') }}",
    "{{ v|map(attribute='__class__')|list }}",
    "{{ [v]|map(attribute='__class__.__mro__')|list }}",
    "{{ [v]|map('attr', '__class__')|list }}",
    "{{ [v]|selectattr('__class__')|list }}",
    "{{ [v]|rejectattr('x.__class__')|list }}",
    "{{ [v]|groupby('__class__')|list }}",
    "{{ [v]|sort(attribute='__class__') }}",
    "{{ [v]|unique(attribute='__class__')|list }}",
    "{{ [v]|sum(attribute='__class__') }}",
    "{{ [v]|join(attribute='__class__') }}",
    "{{ [v]|min(attribute='__init__') }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__ }}",
    "{{ joiner.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self }}",
    "{{ self.__init__ }}",
    "{{ range.__self__ }}",
    "{{ range }}",
    "{{ dict }}",
    "{{ dict.__base__ }}",
    "{{ dict.mro() }}",
    "{{ dict.fromkeys([1]) }}",
    "{{ namespace }}",
    "{{ namespace().__class__ }}",
    "{{ namespace()._Namespace__attrs }}",
    "{{ namespace().__init__.__globals__ }}",
    "{{ v.upper }}",
    "{{ [v.upper] }}",
    "{{ v.upper ~ '' }}",
    "{{ v.upper|string }}",
    "{{ [v.upper]|join }}",
    "{{ v.upper.__self__ }}",
    "{{ v.format(v) }}",
    "{{ v.format_map({}) }}",
    "{{ (v|safe).format(v) }}",
    "{{ '{0.__class__}'.format(v) }}",
    "{{ '%s' % v }}",
    "{{ '%s'|format(v) }}",
    "{{ v.encode() }}",
    "{{ v.translate({}) }}",
    "{{ m.pop('a') }}",
    "{{ m.update(a=2) }}",
    "{{ m.clear() }}",
    "{{ m.setdefault('z', 1) }}",
    "{{ l.append(1) }}",
    "{{ l.sort() }}",
    "{% for x in l %}{{ loop }}{% endfor %}",
    "{% for x in l %}{{ loop._iterable }}{% endfor %}",
    "{% for x in l %}{{ loop.__init__ }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle.__func__ }}{% endfor %}",
    "{% for x in l recursive %}{{ loop(l) }}{% endfor %}",
    "{% macro m1() %}{% endmacro %}{{ m1 }}",
    "{% macro m1() %}{% endmacro %}{{ m1.__call__ }}",
    "{% macro m1() %}{% endmacro %}{{ m1._environment }}",
    "{% macro m1() %}{{ caller.__globals__ }}{% endmacro %}{% call m1() %}{% endcall %}",
    "{{ v.upper is callable }}",
    "{{ v is sameas v.upper.__self__ }}",
    "{{ l|tojson(indent=l) }}",
    "{{ v.upper|tojson }}",
    "{{ v|pprint }}",
    "{{ l|random }}",
    "{{ m|xmlattr }}",
    "{{ v|urlize }}",
    "{% include '/etc/passwd' %}",
    "{% include v %}",
    "{% import 'os' as os %}",
    "{% from 'os' import path %}",
    "{% extends '/etc/passwd' %}",
    "{{ (v|map('upper')).gi_frame }}",
    "{{ (v|map('upper')).gi_frame.f_builtins }}",
    "{{ v|map('authors!')|list }}",
    "{{ v|authors }}",
    "{{ get_flashed_messages() }}",
    "{{ config }}{{ request }}{{ environment }}",
    "{{ undefined_name.__class__ }}",
    "{{ x.__class__.__init__.__globals__ }}",
    "{% set v.__class__ = 1 %}",
    "{% set ns = namespace() %}{% set ns.__class__ = dict %}{{ ns.__class__ }}",
    "{% set ns = namespace() %}{% set ns.__init__ = v %}{{ ns.__init__ }}",
]
NEVER = ("<class", "<built-in", "<function", "<bound", "0x", "jinja2", "root:", "object at")


@pytest.mark.parametrize("source", HOSTILE)
def test_a_template_reaches_nothing_of_python(source: str) -> None:
    values: dict[str, Any] = {"v": "text", "l": [1], "m": {"a": 1}}
    before = {"v": "text", "l": [1], "m": {"a": 1}}
    try:
        made = JINJA.compile_template(source).render(values)
    except Mistake as mistake:
        made = mistake.message
    assert not any(one in made for one in NEVER)
    assert values == before


class Thing:
    secret = "canary"

    def __str__(self) -> str:
        return "canary"


@pytest.mark.parametrize(
    "source",
    [
        *("{{ x }}", "{{ x.secret }}", "{{ x['secret'] }}", "{{ [x] }}", "{{ x|string }}"),
        *("{{ x ~ '' }}", "{{ [x]|map(attribute='secret')|join }}", "{{ x == 1 }}", "{{ x() }}"),
    ],
)
def test_an_object_among_the_values_tells_nothing(source: str) -> None:
    try:
        made = JINJA.compile_template(source).render({"x": Thing()})
    except Mistake as mistake:
        made = mistake.message
    assert "canary" not in made


@pytest.mark.parametrize("source", HOSTILE)
def test_a_value_is_no_template(source: str) -> None:
    made = JINJA.compile_template("a{{ v }}b").pieces({"v": tag_origin(source, "v")})
    assert made[1] == ("v", source)
