"""Attack 5: a hostile template or bundle tries to run code (server-side template injection)."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_agents import XML, Calls, agent, answer, texts_of

from orchestrator import Agent, TemplateError

HOSTILE = [
    "{{ tools.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ self._TemplateReference__context }}",
    "{{ tools|attr('__class__') }}",
    "{{ ''|attr('format') }}",
    "{{ '%s'|format(tools) }}",
    "{{ tools|map(attribute='__class__')|list }}",
    "{{ tools.append(1) }}",
    "{% set x = tools %}{{ x }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'x' %}",
    "{% macro x() %}{% endmacro %}{{ x() }}",
    "{% for x in range(1000000000) %}{{ x }}{% endfor %}",
    "{{ 'x' * 1000000000 }}",
    "{{ 2 ** 1000000000 }}",
    "{{ lipsum(n=100000) }}",
    "{{ namespace().x }}",
    "{{ [x for x in y] }}",
    "{% for t in tools recursive %}{{ loop(tools) }}{% endfor %}",
    "{{ tools",
    "{% endfor %}",
]


@pytest.mark.parametrize("partial", HOSTILE)
def test_a_hostile_partial_is_a_template_error(partial: str, tmp_path: Path) -> None:
    (tmp_path / "tools.j2").write_text(partial)
    with pytest.raises(TemplateError) as caught:
        agent(XML.model([]), Calls().groups(), templates=tmp_path)
    assert "tools.j2" in str(caught.value)


@pytest.mark.parametrize("partial", HOSTILE)
def test_a_partial_of_a_turn_fails_the_same_way(partial: str, tmp_path: Path) -> None:
    (tmp_path / "prompt_session_attributes.j2").write_text(partial.replace("tools", "attributes"))
    asked = agent(XML.model([answer("Hi.")] * 2), templates=tmp_path)
    with pytest.raises(TemplateError):
        asked.invoke("Hi", "s-1", prompt_session_attributes={"a": "b"})
    assert asked.invoke("Hi", "s-1").text == "Hi."


@pytest.mark.parametrize("text", HOSTILE)
def test_a_template_is_no_jinja(text: str) -> None:
    import json

    body = json.dumps({"system": text, "messages": [{"role": "user", "content": "$question$"}]})
    prompts = {"ORCHESTRATION": {"basePromptTemplate": body}}
    prompt = agent(XML.model([]), prompts=prompts).render("ORCHESTRATION", text)
    assert prompt.system == text
    assert prompt.messages == [{"role": "user", "content": [{"text": text}]}]


@pytest.mark.parametrize("text", HOSTILE)
def test_values_are_no_jinja(text: str) -> None:
    model = XML.model([XML.calls(("vacations::get_days", {"employee": "E"})), answer("Hi.")])
    asked = agent(model, Calls(text).groups())
    asked.invoke(text, prompt_session_attributes={"a": text})
    from orchestrator.prompts.partials import encode

    told = "\n".join(texts_of(model.requests[1]))
    assert told.count(encode(text)) >= 2


def test_a_hostile_tag_in_a_bundle_constructs_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(
        "agentName: !!python/object/apply:os.system ['touch owned']\ninstruction: x\n"
    )
    with pytest.raises(Exception, match=r"agent\.yaml") as caught:
        Agent.load(tmp_path, model=XML.model([]))
    assert type(caught.value).__name__ == "DefinitionError"
