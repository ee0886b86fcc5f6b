"""Attack 6: prompts in Handlebars, Mustache and Semantic Kernel that would take all time or memory.

Each of these ends in an error; without bounds they would take minutes, or gigabytes.
"""

from __future__ import annotations

import pytest
from left_out import sampled

from orchestrator import OrchestratorError, TemplateError
from orchestrator.prompts.languages import read_template

BIG = 200_000


def each(inside: str, count: int = 200_000, after: str = "") -> str:
    return f"{{{{#each (range {count})}}}}{inside}{{{{/each}}}}{after}"


TWICE = "{{set 'a' (array a a)}}"
HANDLEBARS = [
    each("{{set 'a' (concat 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' a)}}"),
    each("{{set 'a' (concat 'x' a a)}}", 60),
    each(TWICE, 60, "{{a}}"),
    each(TWICE, 60, "{{json a}}"),
    each(TWICE, 60, "{{concat a}}"),
    each(TWICE, 60, "{{same a}}"),
    each(TWICE, 60, "{{same value=a}}"),
    each(TWICE, 60, "{{messages a}}"),
    each(TWICE, 60, "{{#message role='user' name=a}}{{/message}}"),
    each(TWICE + "{{set 'b' (array b b)}}", 60, "{{#if (equals a b)}}{{/if}}"),
    each("{{range 200000}}"),
    each("{{set 'x' (range 200000)}}"),
    each("{{set 'x' (camelCase v)}}"),
    each("{{set 'x' (snakeCase v)}}"),
    each("{{set 'x' (equals v w)}}"),
    each("{{v}}"),
    each("{{#with v}}{{/with}}" * 3000),
    each("{{#if x}}{{/if}}" * 2000),
    each("<b>{{this}}</b>"),
    each("{{#user}}a{{/user}}"),
    each("{{set 'x' " + "(concat " * 49 + "'a'" + ")" * 49 + "}}"),
    each("{{set 'x' (concat" + " 'a'" * 4000 + ")}}"),
    each(each(each(""))),
    "{{range 1000000000}}",
    "{{#each @root.l}}" * 5 + "{{/each}}" * 5,
]
MUSTACHE = [
    "{{#l}}" * 5 + "{{/l}}" * 5,
    "{{#l}}" * 3 + "{{none}}" * 3000 + "{{/l}}" * 3,
    "{{#l}}" * 3 + "{{^v}}{{/v}}" * 2000 + "{{/l}}" * 3,
    "{{#l}}" * 3 + "{{! c }}x{{none}}" * 2000 + "{{/l}}" * 3,
    "{{#l}}" * 3 + "{{v}}" + "{{/l}}" * 3,
]
BOMBS = [
    *(("handlebars", one) for one in HANDLEBARS),
    *(("prompty", f"---\ntemplate: {{format: mustache}}\n---\n{one}") for one in MUSTACHE),
    ("semantic-kernel", "{{$v}}" * 16_000),
    ("semantic-kernel", "{{$rows}}" * 10_000),
    ("jinja2", "{% for i in range(3000) %}{{ rows }}{% endfor %}"),
    ("jinja2", "{% for i in range(3000) %}{{ messages(rows) }}{% endfor %}"),
    ("handlebars", "{{#each (range 3000)}}{{messages ../rows}}{{/each}}"),
]


@pytest.mark.parametrize(("language", "template"), sampled(BOMBS, 6), ids=range(len(BOMBS)))
def test_a_bomb_is_a_mistake(language: str, template: str) -> None:
    given = {"functions": {"same": lambda value: value}} if language == "handlebars" else {}
    document = read_template(template, language, **given)
    text = "a" * BIG
    values = {"v": text, "w": text + "", "l": list(range(100)), "x": "x", "a": "", "b": ""}
    values["rows"] = [{"role": "user", "content": "x"}] * 5_000
    with pytest.raises(OrchestratorError) as caught:
        document.render(values)
    assert not isinstance(caught.value, TemplateError) or caught.value.line


@pytest.mark.parametrize("language", ["handlebars", "prompty"])
def test_work_that_prompts_have_is_no_bomb(language: str) -> None:
    rows = [{"name": f"n{n}", "text": "x" * 500} for n in range(3000)]
    front = "---\ntemplate: {format: mustache}\n---\n" if language == "prompty" else ""
    template = "{{#rows}}- {{name}}: {{text}} {{#name}}y{{/name}}\n{{/rows}}"
    (said,) = read_template(front + template, language).render({"rows": rows}).messages
    assert len(said.text) > 1_500_000


@pytest.mark.parametrize(
    ("language", "template"),
    [
        ("prompty", "{{ v }}"),
        ("prompty", "---\ninputs: [{name: v, kind: thread}]\n---\n{{ v }}"),
        ("jinja2", "{{ v }}"),
        ("handlebars", "{{v}}"),
        ("ppe", "user: '{{ v }}'"),
    ],
)
def test_a_value_without_an_end_is_an_error(language: str, template: str) -> None:
    endless: list[object] = []
    endless.append({"role": "user", "content": endless})
    with pytest.raises(OrchestratorError, match="'v' is nested too deeply"):
        read_template(template, language).render({"v": endless})
