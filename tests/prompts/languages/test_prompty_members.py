"""What lint says of members of a front matter that are nearly those of Prompty."""

from __future__ import annotations

import pytest

from orchestrator.prompts.languages import read_template

FRONT = """\
---
naem: x
model:
  id: m
  optons: {}
  options: {temprature: 0.2, top_k: 3, mirostat: 1}
inputs:
  - {name: a, requird: true, kind: strng}
---
user:
{{a}}
"""


def render(text, **options):
    return [
        (it.severity, it.code, it.message, it.suggestion, it.line, it.column)
        for it in read_template(text, "prompty", **options).diagnostics
    ]


@pytest.mark.parametrize("dialect", ["v2", "legacy"])
def test_misspelt_members_are_findings_with_their_place(dialect):
    assert [
        (message, instead, line) for *_, message, instead, line, _ in render(FRONT, dialect=dialect)
    ] == [
        ("Prompty has no 'naem' here", "did you mean 'name'?", 2),
        ("Prompty has no 'optons' here", "did you mean 'options'?", 5),
        ("Prompty has no 'temprature' here", "did you mean 'temperature'?", 6),
        ("Prompty has no 'requird' here", "did you mean 'required'?", 8),
        ("Prompty has no 'strng' here", "did you mean 'string'?", 8),
    ]
    assert render(FRONT)[0][:2] == ("warning", "misspelt-member") and render(FRONT)[3][5] == 15


@pytest.mark.parametrize(
    "inputs",
    [
        "a: {requird: true}",
        "properties: {a: {requird: true}}",
        "properties: [{name: a, requird: true}]",
    ],
)
def test_inputs_in_any_form_are_looked_at(inputs):
    (found,) = render(f"---\ninputs: {{{inputs}}}\n---\nuser:\n{{{{a}}}}")
    assert found[3] == "did you mean 'required'?"


@pytest.mark.parametrize(
    "front", ["", "inputs: {kind: x}", "inputs: [a]", "owner: me", "model: m", "inputs: {a: strng}"]
)
def test_members_of_ones_own_are_let_alone(front):
    assert not render(f"---\n{front}\n---\nuser:\n{{{{a}}}}")


def test_a_sample_that_is_no_map_is_told():
    # As the first files of Prompty's had it, for its editor alone.
    front = "---\nname: t\nsample: chat.json\n---\nuser:\n{{q}}"
    (found,) = read_template(front, "prompty").diagnostics
    assert (found.code, found.line) == ("ignored-member", 3)
    assert "${file:NAME.json}" in found.suggestion


@pytest.mark.parametrize(
    ("front", "name"),
    [
        ("model: 5", "'model'"),
        ("model: [gpt]", "'model'"),
        ("model: {id: m, options: [0.2]}", "'options'"),
        ("model: {id: m, parameters: fast}", "'parameters'"),
        ("tools: 5", "'tools'"),
        ("tools: [search]", "a tool"),
        ("tools: {search: 5}", "a tool"),
        ("model: ''", "'model'"),
        ("model: {id: 5}", "'id'"),
        ("model: {id: ''}", "'id'"),
        ("model: {id: m, options: '${env:OPTIONS:x}'}", "'options'"),
    ],
)
def test_members_of_another_kind_are_told(front, name):
    (found,) = read_template(f"---\nname: t\n{front}\n---\nuser:\n{{{{q}}}}", "prompty").diagnostics
    assert (found.code, found.line) == ("ignored-member", 3)
    assert found.message.startswith(f"{name} must be ") and "write" in found.suggestion


@pytest.mark.parametrize("environ", [None, {}])
@pytest.mark.parametrize("front", ["model: {options: '${env:X}'}", "tools: ['${env:X}']"])
def test_what_an_unset_variable_stands_for_is_not_told(front, environ):
    text = f"---\n{front}\n---\nuser:\n{{{{q}}}}"
    codes = [it.code for it in read_template(text, "prompty", environ=environ).diagnostics]
    assert codes == ["unread-variable" if environ is None else "unset-variable"]
