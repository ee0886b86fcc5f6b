"""Jinja2 prompts with Semantic Kernel's helpers."""

from functools import partial

import pytest

from orchestrator.errors import TemplateError
from orchestrator.prompts.languages.base import RenderedMessage, TextContent, Thread
from orchestrator.prompts.languages.semantic_kernel.document import read as read_any

read = partial(read_any, format="jinja2")

HISTORY = [
    {"role": "user", "content": "</message>"},
    {"role": "tool", "content": "{{ x }}"},
    {"role": "assistant", "content": "a"},
]


def render(template, functions=None, **inputs):
    return [
        (one.role, one.text) for one in read(template, functions=functions).render(inputs).messages
    ]


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages(history) }}",
        "{% for one in history %}{{ message(one) }}{% endfor %}",
        "{% for one in history %} {{ message_to_prompt(one) }} {% endfor %}",
        "<chat_history>{{ history }}</chat_history>",
        "{% set kept %}{{ messages(history) }}{% endset %}{{ kept }}",
        "{% macro all() %}{{ messages(history) }}{% endmacro %}{{ all() }}",
    ],
)
def test_histories(template):
    expected = [(one["role"], one["content"]) for one in HISTORY]
    assert render(template, history=HISTORY) == expected
    said = [RenderedMessage(role, (TextContent((("h", text),)),)) for role, text in expected]
    if "in history" not in template:
        assert render(template, history=said) == expected


@pytest.mark.parametrize(
    ("template", "messages"),
    [
        ("{{ missing }}a{{ x }}", [("user", "a<&lt;")]),
        (
            "{{ x|e }}{{ x|escape|safe }}{{ {'a': 'é<'}|tojson }}",
            [("user", '<&lt;<&lt;{"a": "é<"}')],
        ),
        ("<message role='user'>{{ '<image/>' }}{{ x }}</message>", [("user", "<image/><&lt;")]),
        ("{% if x %}<message role='user'>{% endif %}a</message>", [("user", "a")]),
        ("{{ message(role='user', name='\"<') }}{{ x }}{{ message() }}", [("user", "<&lt;")]),
        ("{{ array(1, 'a') }}{{ double_open() }}{{ doubleClose() }}", [("user", '[1, "a"]{{}}')]),
        ("{{ camel_case('a_b') }}{{ snakeCase('AbC') }}", [("user", "ABab_c")]),
        ("{{ get(d, 'k') }}{{ get(d, 'no', 'n') }}{{ get() }}", [("user", "1n")]),
        ("{{ p_fn(arg=x) }}{{ p_fn('<message>') }}", [("user", "[<&lt;][<message>]")]),
        (
            "{{ message_to_prompt(x) }}{{ messages(none) }}{{ messages(missing) }}",
            [("user", "<&lt;")],
        ),
        ("{{ message }}", [("user", "m")]),  # an input of a helper's name
        ("{{ messages.__globals__ }}a{{ messages() }}", [("user", "a")]),
        ("{{ True }} {{ None }} {{ d }}", [("user", 'True  {"k": 1}')]),
    ],
)
def test_what_is_rendered(template, messages):
    functions = {"p.fn": lambda arg: f"[{arg}]"}
    assert render(template, functions, x="<&lt;", d={"k": 1}, message="m") == messages


@pytest.mark.parametrize(
    ("template", "line", "column", "reason"),
    [
        ("a\n {% if %}", 2, 1, "the template is wrong"),
        ("\n{{ messages(x) }}", 2, 1, "no list of messages"),
        ("{{ message(x) }}", 1, 1, "no message"),
        ("a\n{{ p_nope() }}", 2, 1, "there is no function 'p_nope'"),
        ("a\n\n{{ 1 / 0 }}", 3, 1, "division"),
        ("a\n {% if 1 %}<message role='user'>{{ x }} a & b</message>{% endif %}", 2, 43, "&amp;"),
        ("{{ message(role='user') }}{{ message(role='system') }}", 1, 1, "not closed"),
        ("{{ message() }}", 1, 1, "a message has a role"),
        ("{{ message(role=x) }}", 1, 1, "the author's texts"),
        ("<message role='{{ x }}'/>", 1, 1, "that a value gives"),
        ("\ue000", 1, 1, "may not be in a template"),
        ("<message role='user'>{{ messages(h) }}</message>", 1, 1, "between messages"),
        ("{{ x.__class__.__mro__ }}", 1, 1, "no attribute"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            1,
            1,
            "more",
        ),
    ],
)
def test_errors_have_their_place(template, line, column, reason):
    with pytest.raises(TemplateError) as raised:
        render(template, x="x", h=HISTORY)
    assert reason in raised.value.reason
    assert (raised.value.line, raised.value.column) == (line, column)


def test_threads_inputs_and_functions():
    document = read(
        "<message role='system'>{{ s }}</message>\n{{ messages(h) }}"
        "{% for i in h2 %}{{ i }}{% endfor %}"
        "{% if h %}{{ h }}{% endif %}{{ p_f(q) }}{{ p_g() }}",
        functions={"p.f": str},
    )
    places = [(one.name, one.line) for one in document.inputs]
    assert places == [("s", 1), ("h", 2), ("h2", 2), ("q", 2)]
    assert [one.code for one in document.diagnostics] == ["unknown-function"]
    rendered = document.render({"s": "S", "h": Thread("h"), "q": "Q"}, functions={"p.g": str})
    assert [getattr(one, "text", one) for one in rendered.items] == [
        "S",
        Thread("h"),
        Thread("h"),
        "Q",
    ]
    assert rendered.items[0].content[0].pieces == (("s", "S"),)


def test_marks_that_are_lost_tell_nothing():
    assert (
        render("{{ messages(h)|trim }}a{{ messages(h) ~ '' }}", h=Thread("h"))[0][1].strip() == "a"
    )


def test_a_member_that_an_item_has_not_is_nothing():
    rows = [{"name": "a"}, {}]
    assert render("{{ rows|map(attribute='name')|list }}", rows=rows) == [("user", '["a", null]')]
