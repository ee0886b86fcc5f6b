"""Attack 6: a user's own Jinja2 that would take all time or memory.

Each of these ends in a mistake; without bounds they would take minutes, or gigabytes.
"""

from __future__ import annotations

import pytest
from left_out import sampled

from orchestrator.prompts.jinja import Jinja
from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.work import MOST_CHARS, Work

JINJA = Jinja()
BIG = 200_000

GROWS = "{% set ns = namespace(a=START) %}{% for i in range(60) %}{% set ns.a = NEXT %}{% endfor %}"


def grows(start: str, then: str, end: str = "{{ ns.a }}") -> str:
    return GROWS.replace("START", start).replace("NEXT", then) + end


LOOP, END = "{% for i in range(90000) %}", "{% endfor %}"
CROWDED = [
    *("{% set x = [" + "i," * 6000 + "] %}", "{% set x = {" + "i:i," * 4000 + "} %}"),
    *("{% if i %}{% endif %}" * 800, "{% set x = l[0] %}" * 800, "{% set x = m.a %}" * 800),
    *("{{ i }}" * 2000, "{{ '' }}" * 2000, "x{{ '' }}" * 2000, "{% set x = 1 + 1 %}" * 800),
    *("{% set x = 'a'|upper %}" * 600, "{% set x = m.get('a') %}" * 600),
    *("{% if i is odd %}{% endif %}" * 600, "{% if i == 1 %}{% endif %}" * 600),
    *("{% if i in l %}{% endif %}" * 600, "{% set x = l[1:] %}" * 800, "{{ i ~ i }}" * 1000),
    *("{% set ns = namespace() %}" * 600, "{% for j in l %}{% endfor %}" * 600),
]
"""What may stand in a loop: an item counts by all that is done with it."""

CALLED = "{% macro f() %}BODY{% endmacro %}" + LOOP + "{{ f() }}" + END
BUSY = [
    *(LOOP + one + END for one in CROWDED),
    *(CALLED.replace("BODY", one) for one in CROWDED),
    "{% macro f() %}{{ caller() }}{% endmacro %}"
    + f"{LOOP}{{% call f() %}}{CROWDED[2]}{{% endcall %}}{END}",
    "{% for x in range(90000) if " + "m and " * 90 + "m %}{% endfor %}",
    CALLED.replace("f() %}BODY", "f(a=[" + "1," * 20_000 + "l]) %}"),
    "{{ range(90000)|map('upper')|map('lower')|map('upper')|map('lower')|list|length }}" * 900,
]

BOMBS = [
    "{{ 'x' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    "{{ 2 ** 1000000000 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{% for i in range(1000000000) %}{% endfor %}",
    "{{ range(1000000000)|list }}",
    "{% for a in range(90000) %}{% for b in range(90000) %}x{% endfor %}{% endfor %}",
    "{% for i in range(90000) %}{{ range(90000)|sum }}{% endfor %}",
    "{% for i in range(90000) %}{% if v == w %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{% if 'b' in v %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{% set x = v[1:] %}{% endfor %}",
    "{% for i in range(90000) %}{% set x = v.upper() %}{% endfor %}",
    "{% for i in range(90000) %}{% set x = v|upper %}{% endfor %}",
    "{% for i in range(90000) %}{% set x = v ~ 'a' %}{% endfor %}",
    "{% for i in range(90000) %}{% set x = v + 'a' %}{% endfor %}",
    "{% for i in range(90000) %}{% set x = v is eq w %}{% endfor %}",
    "{% for i in range(90000) %}{{ v }}{% endfor %}",
    "{% set x %}{{ v }}{% endset %}{% for i in range(90000) %}{{ x }}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 19
    # twice each: half a million pieces of a long text
    + "{{ v }}"
    + "{% endcall %}" * 19,
    "{{ v.replace('a', v) }}",
    "{{ v|replace('a', v) }}",
    "{{ v.replace('', v) }}",
    "{{ v.join(v) }}",
    "{{ v|list|join(v) }}",
    "{{ [v] * 100000 }}",
    "{{ ['a', 'a']|join('x' * 1000000000) }}",
    "{{ [1]|batch(1000000000, 'x')|list }}",
    "{{ [1]|slice(1000000000)|list }}",
    "{{ 'a'|indent(1000000000) }}",
    "{{ ('\n' * 100000)|indent(90) }}",
    "{{ v|list|join('\n')|indent(90) }}",
    "{{ [1]|tojson(indent=1000000000) }}",
    "{{ 'a'|center(1000000000) }}",
    "{{ 'a'|wordwrap(1, wrapstring=v) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.zfill(1000000000) }}",
    "{{ '\t'.expandtabs(1000000000) }}",
    "{{ [[1]]|sum(start=[1] * 100000000) }}",
    "{{ '%999999999d' is odd }}",
    "{{ ['%999999999d']|select('even')|list }}",
    "{{ '%999999999d' is divisibleby(num=3) }}",
    "{{ 1|round(30000000, 'ceil') }}",
    "{{ 1|round(-30000000) }}",
    grows("'x'", "ns.a + ns.a"),
    grows("'x'", "ns.a ~ ns.a"),
    grows("[1]", "ns.a + ns.a"),
    grows("[1]", "[ns.a, ns.a]"),
    grows("[1]", "[ns.a, ns.a]", "{{ ns.a|tojson }}"),
    grows("[1]", "[ns.a, ns.a]", "{{ ns.a == [ns.a] }}"),
    grows("[1]", "[ns.a, ns.a]", "{{ ns.a|string }}"),
    grows("[1]", "[ns.a, ns.a]", "{{ 'a' ~ ns.a }}"),
    grows("{'k': 1}", "{'k': ns.a, 'j': ns.a}"),
    grows("(1, 2)", "(ns.a, ns.a)", "{{ {ns.a: 1} }}"),
    grows("(1, 2)", "(ns.a, ns.a)", "{{ m[ns.a] }}"),
    grows("(1, 2)", "(ns.a, ns.a)", "{{ m.get(ns.a) }}"),
    grows("(1, 2)", "(ns.a, ns.a)", "{{ [ns.a]|unique|list }}"),
    grows("99999", "ns.a * ns.a"),
    grows("'&'", "ns.a|e|forceescape|replace('&', '&&&&')"),
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "not " * 50_000 + "1 }}",
    "{{ " + "1 + " * 50_000 + "1 }}",
    "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "{% for x in l %}" * 40 + "{% endfor %}" * 40,
    "{{ " + "9" * 5000 + " }}",
    "{{ " + "v|upper" + "|upper" * 20_000 + " }}",
]


@pytest.mark.parametrize("source", sampled(BOMBS), ids=range(len(BOMBS)))
def test_a_bomb_is_a_mistake(source: str) -> None:
    values = {"v": "a" * BIG, "w": "a" * BIG, "l": [1], "m": {}}
    with pytest.raises(Mistake):
        JINJA.compile_template(source).render(values)


@pytest.mark.parametrize("source", sampled(BUSY), ids=range(len(BUSY)))
def test_what_stands_in_a_loop_or_a_macro_counts(source: str) -> None:
    with pytest.raises(Mistake, match="does too much"):
        JINJA.compile_template(source).render({"l": [1], "m": {"a": 1}})


def test_loops_inside_of_loops_count_themselves() -> None:
    assert JINJA.compile_template(f"{LOOP}{{% if i %}}{{% endif %}}{END}").render({}) == ""
    nested = f"{{% for i in l %}}{{% for j in [] %}}{CROWDED[2]}{END}{END}"
    assert JINJA.compile_template(nested).render({"l": list(range(10_000))}) == ""


def test_a_rendering_has_a_size() -> None:
    text = "a" * (MOST_CHARS // 2)
    assert JINJA.compile_template("{{ v }}{{ v }}").render({"v": text}) == text * 2
    with pytest.raises(Mistake, match="characters"):
        JINJA.compile_template("{{ v }}{{ v }}!").render({"v": text})


def test_a_sum_of_tuples_counts_as_one_of_lists() -> None:
    # Python adds tuples one by one, each time to a copy of all before.
    amounts = []
    for start in ("()", "[]"):
        work = Work()
        template = JINJA.compile_template(f"{{{{ m|dictsort|sum(start={start})|length }}}}")
        assert template.render({"m": {str(i): i for i in range(1000)}}, work) == "2000"
        amounts.append(work.amount)
    assert amounts[0] == amounts[1]


def test_large_values_that_are_printed_once_are_fine() -> None:
    rows = [{"text": "x" * 1000, "n": n} for n in range(2000)]
    made = JINJA.compile_template("{% for r in rows if r.n >= 0 %}{{ r.text }}{% endfor %}").render(
        {"rows": rows}
    )
    assert len(made) == 2_000_000
