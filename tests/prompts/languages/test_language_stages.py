"""Templates of other languages as an agent's stages: chosen, checked, filled, told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator import Agent, DefinitionError, TemplateError
from orchestrator.cli import app
from orchestrator.definition import parse_definition
from orchestrator.message import Message
from orchestrator.prompts import compile_template, lint_template, load_dialect
from orchestrator.prompts.placeholders import STAGES
from orchestrator.testing import ScriptedModel
from orchestrator.transfer.folder import read_folder
from orchestrator.transfer.portability import make_portable

MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"
PROMPTY = "system:\n{{instruction}}\nuser:\nP {{question}}"
BEDROCK = json.dumps({"messages": [{"role": "user", "content": "B $question$"}]})
PAST = [Message("user", [{"text": "q1"}]), Message("assistant", [{"text": "a1"}])]
STEPS = [Message("assistant", [{"text": "step"}]), Message("user", [{"text": "result"}])]


def compiled(text: str, stage: str = "ORCHESTRATION", **options: Any) -> Any:
    options = {"language": "prompty", **options}
    return compile_template(text, stage=stage, dialect=load_dialect("tool-use"), **options)


def render(
    text: str, values: dict[str, str] | None = None, **options: Any
) -> list[tuple[str, str]]:
    bound = compiled(text, **options).bind({"question": "Q", **(values or {})}, PAST)
    made = [("system", str(bound.system))] if bound.system else []
    return made + [
        (one["role"], "|".join(it["text"] for it in one["content"]))
        for one in bound.messages(STEPS)
    ]


def agent(**options: Any) -> Agent:
    return Agent(name="a", instruction="I", model=ScriptedModel(["x"], model_id=MODEL), **options)


def asked(made: Agent) -> str:
    return str(made.render("ORCHESTRATION", "Q")[-1]["content"][0]["text"])


# Which language


@pytest.mark.parametrize("where", ["", "tool-use/"])
def test_a_file_of_the_folder_overrides_the_shipped_one(tmp_path: Path, where: str) -> None:
    file = tmp_path / f"{where}orchestration.prompty"
    file.parent.mkdir(exist_ok=True)
    file.write_text(PROMPTY)
    made = agent(templates=tmp_path)
    assert asked(made) == "P Q"
    template = made.plan.stages["ORCHESTRATION"].template
    assert (template.language, template.source) == ("prompty", str(file))


def test_two_templates_for_one_stage_are_refused(tmp_path: Path) -> None:
    (tmp_path / "orchestration.prompty").write_text(PROMPTY)
    (tmp_path / "orchestration.json").write_text(BEDROCK)
    with pytest.raises(TemplateError, match=r"orchestration.json and orchestration.prompty; keep"):
        agent(templates=tmp_path)


def test_a_partial_is_no_template(tmp_path: Path) -> None:
    (tmp_path / "tools.j2").write_text("{% for tool in tools %}{{ tool.name }}{% endfor %}")
    assert agent(templates=tmp_path).plan.stages["ORCHESTRATION"].template.language == "bedrock"


DEFINITION = "agentName: a\ninstruction: Answers questions in short.\nfoundationModel: {model}\n"
PROMPTS = "promptOverrideConfiguration:\n  promptConfigurations:\n    - promptType: ORCHESTRATION\n"


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ({"basePromptTemplateFile": "x.prompty"}, "x.prompty"),
        ({"basePromptTemplateFile": "x.txt", "templateFormat": "prompty"}, "x.txt"),
        ({"basePromptTemplateFile": "x.txt", "template_format": "prompty"}, "x.txt"),
        ({"basePromptTemplate": PROMPTY, "templateFormat": "prompty"}, ""),
    ],
)
def test_a_definition_says_the_language(tmp_path: Path, members: dict[str, str], name: str) -> None:
    if name:
        (tmp_path / name).write_text(PROMPTY)
    rows = "".join(f"      {key}: {json.dumps(it)}\n" for key, it in members.items())
    (tmp_path / "agent.yaml").write_text(DEFINITION.format(model=MODEL) + PROMPTS + rows)
    assert asked(Agent.load(tmp_path)) == "P Q"
    found = CliRunner().invoke(app, ["lint", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.output
    shown = CliRunner().invoke(app, ["render", str(tmp_path), "Hello", "--json"])
    assert json.loads(shown.stdout)["messages"][0]["content"] == [{"text": "P Hello"}]


def test_python_says_the_language() -> None:
    prompts = {"ORCHESTRATION": {"basePromptTemplate": PROMPTY, "templateFormat": "prompty"}}
    made = agent(prompts=prompts)
    assert asked(made) == "P Q"
    other = {"basePromptTemplate": PROMPTY.replace("P ", "O "), "templateFormat": "prompty"}
    assert made.plan.digest != agent(prompts={"ORCHESTRATION": other}).plan.digest


def test_the_language_of_a_file_may_be_bedrocks_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "x.prompty"
    file.write_text(BEDROCK)
    template = compiled(BEDROCK, source=str(file), language="bedrock")
    assert template.language == "bedrock"


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"templateFormat": "prompty"}, "there is none: give basePromptTemplate"),
        ({"basePromptTemplate": "x", "templateFormat": "xml"}, "templateFormat"),
    ],
)
def test_a_wrong_member_is_an_error(member: dict[str, str], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        agent(prompts={"ORCHESTRATION": member})


def test_the_member_survives_a_dump() -> None:
    rows = "      basePromptTemplate: x\n      templateFormat: jinja2\n"
    definition = parse_definition(DEFINITION.format(model=MODEL) + PROMPTS + rows)
    prompt = definition.prompt("ORCHESTRATION")
    assert prompt is not None and prompt.template_format == "jinja2"
    assert prompt.model_dump(by_alias=True)["templateFormat"] == "jinja2"


# Where messages are


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (
            "system:\nS\nuser:\nE\n{{conversation_history}}\nuser:\n{{question}}\n{{agent_scratchpad}}\nX",
            [
                ("system", "S"),
                ("user", "E|q1"),
                ("assistant", "a1"),
                ("user", "Q"),
                ("assistant", "step"),
                ("user", "result|X"),
            ],
        ),
        (
            "user:\nE\nassistant:\nF\nuser:\n{{question}}\nassistant:\nPrefill",
            [
                ("user", "E"),
                ("assistant", "F"),
                ("user", "q1"),
                ("assistant", "a1"),
                ("user", "Q"),
                ("assistant", "step"),
                ("user", "result"),
                ("assistant", "Prefill"),
            ],
        ),
        (
            "system:\nS\ndeveloper:\nD\n{{conversation_history}}\nT\nuser:\n{{question}}\nassistant:\n",
            [
                ("system", "S\nD\nT"),
                ("user", "q1"),
                ("assistant", "a1"),
                ("user", "Q"),
                ("assistant", "step"),
                ("user", "result"),
            ],
        ),
    ],
)
def test_history_and_steps_are_where_the_author_puts_them(
    text: str, made: list[tuple[str, str]]
) -> None:
    assert render(text) == made


def test_calls_and_results_of_the_author_are_native() -> None:
    text = (
        "---\ntemplate: {parser: {options: {dialect: legacy}}}\n---\nuser:\nE\n"
        "assistant[type=tool_call]:\nid: '1'\nfunction: {name: f}\ntool[tool_call_id=1]:\nR\n"
        "user:\n{{question}}\n![image](data:image/png;base64,aGk=)"
    )
    messages = compiled(text).bind({"question": "Q"}).messages()
    use, result = messages[1]["content"][0], messages[2]["content"]
    assert use == {"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}
    assert result[0] == {"toolResult": {"toolUseId": "1", "content": [{"text": "R"}]}}
    assert result[2] == {"image": {"format": "png", "source": {"bytes": "aGk="}}}
    json.dumps(messages)


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_may_be_in_another_language(stage: str) -> None:
    known = ("question", "query", "search_results", "latest_response", "conversation")
    names = "".join(f"{{{{{name}}}}}" for name in (*known, "last_user_request"))
    values = dict.fromkeys((*known, "last_user_request"), "V")
    bound = compiled(f"system:\nS\nuser:\n{names}", stage=stage).bind(values, PAST)
    assert str(bound.system) == "S"
    assert "V" in bound.messages()[-1]["content"][-1]["text"]
    assert bool(len(bound.messages()) > 1) == (stage in ("ORCHESTRATION", "PRE_PROCESSING"))


def test_only_the_loop_has_the_calls_of_earlier_turns() -> None:
    use = Message("assistant", [{"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}])
    result = Message("user", [{"toolResult": {"toolUseId": "1", "content": [{"text": "R"}]}}])
    past = [PAST[0], use, result, PAST[1]]
    text = "{{conversation_history}}\nuser:\n{{question}}"
    for stage, count in (("ORCHESTRATION", 5), ("PRE_PROCESSING", 3)):
        bound = compiled(text, stage=stage).bind({"question": "Q"}, past)
        assert len(bound.messages()) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{agent_scratchpad}}{{conversation_history}}\nuser:\nQ", "earlier turns come first"),
        ("{{agent_scratchpad}}{{agent_scratchpad}}\nuser:\nQ", "may each have one place"),
        ("system:\nS", "has no message"),
        ("user:\n", "has no message"),
        ("{% for m in conversation_history %}x{% endfor %}", "has no items here"),
        ("user:\n{% for %}", "the template is wrong"),
        (
            "---\ninputs: [{name: i, kind: image, default: 'https://x/i.png'}]\n---\nuser:\n{{i}}",
            "fetches no image",
        ),
        ("---\ninputs: {x: '${file:secret.txt}'}\n---\nuser:\n{{x}}", "names no other files"),
    ],
)
def test_mistakes_are_found_before_the_first_turn(text: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        compiled(text)
    (found,) = lint_template(
        text, stage="ORCHESTRATION", dialect=load_dialect("tool-use"), language="prompty"
    )
    assert (found.severity, found.code) == ("error", "broken-template")


def test_findings_have_their_places() -> None:
    text = (
        "---\ninputs: {tone: kind}\n---\nsystem:\n{{tone}} {{ qestion }}\n"
        "user:\n$question$ {{conversation_history}}"
    )
    found = compiled(text).diagnostics
    assert [(it.code, it.line, it.column, it.suggestion) for it in found] == [
        ("unknown-placeholder", 5, 13, "did you mean 'question'?"),
        ("missing-placeholder", None, None, "put question where it belongs"),
        ("missing-placeholder", None, None, "put instruction where it belongs"),
        ("missing-placeholder", None, None, "put agent_scratchpad where it belongs"),
        ("misspelt-placeholder", 7, 1, "write question as the language writes its inputs"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "---\ntools: [{name: find, kind: function}, {id: query}]\n---\nuser:\n{{question}}",
        "---\ntemplate: {parser: {options: {dialect: legacy}}}\n---\n"
        "tools:\n- {id: find}\n- {id: query}\nthread:\nX\nuser:\n{{question}}",
    ],
)
def test_tools_that_nothing_carries_out_are_a_finding(text: str) -> None:
    model = ScriptedModel(["x"], model_id=MODEL)
    prompts = {"ORCHESTRATION": {"basePromptTemplate": text, "templateFormat": "prompty"}}
    made = Agent(name="a", instruction="I", model=model, prompts=prompts)
    found = {it.code: it for it in made.plan.stages["ORCHESTRATION"].template.diagnostics}
    assert "find, query" in found["unused-tools"].message
    assert "RETURN_CONTROL" in found["unused-tools"].suggestion
    assert ("thread-text" in found) == ("thread" in text)
    made.invoke("Q", "s-1")
    assert "find" not in str(model.requests[0].tools)


def test_unknown_inputs_are_empty_and_defaults_are_used() -> None:
    front = "---\ninputs: [{name: a, required: true}, {name: tone, default: kind}]\n---\n"
    assert render(front + "user:\n[{{a}}{{b}}{{tone}}{{tools}}] {{question}}")[2] == (
        "user",
        "[kind] Q",
    )


def test_values_of_the_process_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P_SECRET", "secret")
    file = tmp_path / "x.prompty"
    front = "---\ninputs: {x: '${env:P_SECRET}', y: '${file:y.txt}'}\n---\n"
    text = front + "user:\n{{x}}{{y}}{{question}}"
    file.write_text(text)
    (tmp_path / "y.txt").write_text("Y")
    template = compiled(text, source=str(file), language=None)
    bound = template.bind({"question": "Q"})
    assert bound.messages()[0]["content"][0]["text"] == "${env:P_SECRET}YQ"
    assert "unread-variable" in [it.code for it in template.diagnostics]


def test_the_template_says_how_the_model_generates() -> None:
    text = (
        "---\nmodel: {id: gpt-4, options: {temperature: 0.3, maxOutputTokens: 9}}\n---\n"
        f"{PROMPTY}"
    )
    configuration = {
        "basePromptTemplate": text,
        "templateFormat": "prompty",
        "inferenceConfiguration": {"maximumLength": 5},
    }
    stage = agent(prompts={"ORCHESTRATION": configuration}).plan.stages["ORCHESTRATION"]
    assert (stage.inference["temperature"], stage.inference["maximumLength"]) == (0.3, 5)
    assert stage.model.model_id == MODEL, "the agent's model answers"


def test_system_texts_are_made_once_for_many_turns() -> None:
    template = compiled(PROMPTY).fill_fixed({"instruction": "I"})
    one, two = (template.bind({"question": it}).system for it in ("A", "B"))
    assert one is two
    assert [tuple(span) for span in one.spans] == [(0, 0, 1, "instruction")]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("prompts/x.prompty", "      basePromptTemplateFile: prompts/x.prompty\n"),
        ("prompts/x.txt", "      basePromptTemplate: Hi\n      templateFormat: prompty\n"),
        ("templates/orchestration.prompty", ""),
    ],
)
def test_bedrock_is_given_no_template_that_it_does_not_read(
    tmp_path: Path, name: str, rows: str
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(PROMPTY)
    text = DEFINITION.format(model=MODEL) + (PROMPTS + rows if rows else "")
    (tmp_path / "agent.yaml").write_text(text)
    made = make_portable(read_folder(tmp_path), {})
    assert PROMPTY not in json.dumps(made.data) and "templateFormat" not in json.dumps(made.data)
    assert sum("prompty" in it.message for it in made.left) == 1
