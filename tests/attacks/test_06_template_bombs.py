"""Attack 6: templates and dialects that would take all time or memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from whole_agents import XML, Calls, agent, answer

from orchestrator import Agent, TemplateError, ValidationError
from orchestrator.testing import ScriptedModel

BODY = '{"system": "%s", "messages": [{"role": "user", "content": "$question$"}]}'
ASKS = {"role": "user", "content": "$question$"}


def made(text: str) -> object:
    return agent(XML.model([]), prompts={"ORCHESTRATION": {"basePromptTemplate": text}})


def test_a_template_has_a_hundred_thousand_characters_at_most() -> None:
    made(BODY % ("x" * 99_000))
    with pytest.raises(Exception, match=r"100,?000") as caught:
        made(BODY % ("x" * 100_000))
    assert caught.value.bedrock_name == "ValidationException"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["[" * 90_000, '{"a":' * 15_000, '{"system": ' + "[" * 80_000])
def test_deep_nesting_is_a_template_error(text: str) -> None:
    with pytest.raises(TemplateError):
        made(text)


@pytest.mark.parametrize(
    "text", ["patterns: " + "[" * 100_000, "a: {" * 50_000, "- " * 50_000, "? " * 50_000]
)
def test_a_deep_dialect_file_does_not_end_the_process(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "bomb"
    folder.mkdir()
    (folder / "dialect.yaml").write_text(text)
    with pytest.raises(TemplateError, match=r"dialect\.yaml"):
        agent(ScriptedModel([], "bomb-1"), templates=tmp_path, dialect="bomb")


def test_aliases_are_not_expanded(tmp_path: Path) -> None:
    folder = tmp_path / "bomb"
    folder.mkdir()
    laughs = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 15)
    )
    (folder / "dialect.yaml").write_text(laughs)
    with pytest.raises(TemplateError):
        agent(ScriptedModel([], "bomb-1"), templates=tmp_path, dialect="bomb")


def test_a_large_dialect_file_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "bomb"
    folder.mkdir()
    (folder / "dialect.yaml").write_text("# " + "x" * 1_000_001)
    with pytest.raises(TemplateError, match="larger than"):
        agent(ScriptedModel([], "bomb-1"), templates=tmp_path, dialect="bomb")


def test_nested_loops_over_large_values_are_bounded(tmp_path: Path) -> None:
    loops = "{% for a in attributes|items %}" * 4 + "x" + "{% endfor %}" * 4
    (tmp_path / "prompt_session_attributes.j2").write_text(loops)
    asked = agent(XML.model([answer("Hi.")]), templates=tmp_path)
    attributes = {str(n): "x" for n in range(300)}  # 8 billion rounds
    with pytest.raises(TemplateError, match="too many"):
        asked.invoke("Hi", "s-1", prompt_session_attributes=attributes)
    assert asked.invoke("Hi", "s-1").text == "Hi."


def test_a_partial_is_bounded_as_a_template_is(tmp_path: Path) -> None:
    (tmp_path / "tools.j2").write_text("x" * 100_001)
    with pytest.raises(TemplateError, match="100,000"):
        agent(XML.model([]), Calls().groups(), templates=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        BODY % ("$question$ " * 8_000),
        json.dumps({"messages": [ASKS] * 2_000}),
    ],
    ids=["one text", "many messages"],
)
def test_a_template_does_not_multiply_a_question_without_end(text: str) -> None:
    model = XML.model([answer("ok")])
    one = agent(model, prompts={"ORCHESTRATION": {"basePromptTemplate": text}})
    with pytest.raises(ValidationError, match=r"ORCHESTRATION.*'\$question\$' \d{4} times"):
        one.invoke("x" * 200_000, "one")
    assert not model.requests
    assert one.invoke("x", "two").text == "ok"


def test_a_template_does_not_multiply_an_instruction_without_end() -> None:
    text = BODY % ("$instruction$ " * 6_000)
    with pytest.raises(ValidationError, match=r"'\$instruction\$' 6000 times"):
        Agent(
            "hr",
            "x" * 20_000,
            XML.model([]),
            prompts={"ORCHESTRATION": {"basePromptTemplate": text}},
        )


def test_a_template_does_not_tell_the_history_without_end() -> None:
    told = {"role": "user", "content": "$conversation_history$"}
    text = json.dumps({"messages": [*[told] * 500, ASKS]})
    model = XML.model([answer("ok")] * 2)
    one = agent(model, prompts={"ORCHESTRATION": {"basePromptTemplate": text}})
    one.invoke("x" * 100_000, "one")
    with pytest.raises(ValidationError, match=r"conversation_history.* 500 times"):
        one.invoke("And now?", "one")
