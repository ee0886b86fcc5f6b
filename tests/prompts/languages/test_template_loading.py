"""`load_template`: which language a file is written in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import orchestrator
from orchestrator import TemplateError, ValidationError, load_template, prompts
from orchestrator.cli import app
from orchestrator.errors import ResourceNotFound
from orchestrator.prompts.languages import ENDINGS, LANGUAGES, language_of, read_template

TAGS = '<message role="user">Q</message>'


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.prompty", "user:\nQ", "prompty"),
        ("A.PROMPTY", "user:\nQ", "prompty"),
        ("a.sk.txt", TAGS, "semantic-kernel"),
        ("a.hbs", TAGS, "handlebars"),
        ("a.handlebars", TAGS, "handlebars"),
        ("a.j2", TAGS, "jinja2"),
        ("a.jinja", TAGS, "jinja2"),
        ("a.jinja2", TAGS, "jinja2"),
        ("a.ai.yaml", "user: Q", "ppe"),
        ("a.ppe.yaml", "user: Q", "ppe"),
        ("a.sk.yaml", f"template: '{TAGS}'", "semantic-kernel"),
        ("a.yaml", f"template_format: semantic-kernel\ntemplate: '{TAGS}'", "semantic-kernel"),
    ],
)
def test_the_ending_tells_the_language(tmp_path: Path, name: str, text: str, language: str) -> None:
    file = tmp_path / name
    file.write_text(f"\ufeff{text}", encoding="utf-8")
    document = load_template(file)
    assert (document.language, document.source) == (language, str(file))
    system, messages, tools = document.render({}).converse()
    assert (system, messages, tools) == ("", [{"role": "user", "content": [{"text": "Q"}]}], [])


def test_the_caller_may_name_the_language(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("user:\nQ")
    assert load_template(str(file), language="prompty").language == "prompty"
    with pytest.raises(ValidationError, match=r"'a.txt' tells no template language"):
        load_template(file)
    with pytest.raises(ValidationError, match="did you mean 'prompty'"):
        load_template(file, language="promty")


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    with pytest.raises(ResourceNotFound, match="there is no template"):
        load_template(file)
    file.write_bytes(b"\xff")
    with pytest.raises(TemplateError, match="UTF-8"):
        load_template(file)
    file.write_bytes(b"x" * 1_000_001)
    with pytest.raises(TemplateError, match="larger than"):
        load_template(file)
    with pytest.raises(TemplateError, match="up to 100,000"):
        read_template("x" * 100_001, "prompty")
    with pytest.raises(ValidationError, match="'prompty' have no option 'colour'"):
        read_template("x", "prompty", colour="red")


def test_what_runs_a_template_has_what_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    file.write_text("---\nname: a\n---\nuser:\n{{x}}")
    template, document = orchestrator.load_template(file), prompts.load_template(file)
    assert orchestrator.load_template is load_template
    for name in ("language", "text", "source", "inputs", "settings", "diagnostics", "straight"):
        assert getattr(template, name) == getattr(document, name)
    assert template.render({"x": 1}) == document.render({"x": 1})


def test_every_language_has_an_ending() -> None:
    assert set(ENDINGS.values()) == set(LANGUAGES)
    assert language_of("orchestration.json") is language_of("x.txt") is None


def test_agents_without_such_templates_load_no_languages() -> None:
    code = (
        "import json, sys\nfrom orchestrator import Agent\n"
        "from orchestrator.testing import ScriptedModel\n"
        "Agent(name='a', instruction='I', model=ScriptedModel(['x'])).invoke('Q', 's-1')\n"
        "rooms = ('orchestrator.prompts.languages.', 'orchestrator.flows')\n"
        "print(json.dumps([name for name in sys.modules if name.startswith(rooms)]))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == []


def test_a_template_is_rendered_and_checked_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    front = "---\nmodel: {id: m, options: {temperature: 0.5}}\ninputs: {c: {kind: thread}}\n---\n"
    file.write_text(front + "system:\nS {{x}}\nuser:\n{{q}}\n{{c}}")
    thread = '[{"role": "assistant", "content": "a1"}]'
    words = ["render", str(file), "x=X", "q=[no json", f"c={thread}"]
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (told["stage"], told["model_id"], told["system"]) == ("TEMPLATE", "m", "S X")
    assert told["system_spans"][1]["origin"] == "x"
    assert [it["content"][0]["text"] for it in told["messages"]] == ["[no json", "a1"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0 and "a1" in shown.stdout
    assert CliRunner().invoke(app, ["lint", str(file)]).exit_code == 0
    file.write_text("{{ x")
    found = CliRunner().invoke(app, ["lint", str(file), "--json"])
    assert found.exit_code == 1 and json.loads(found.stdout)["diagnostics"][0]["line"] == 1
    wrong = CliRunner().invoke(app, ["render", str(file), "question"])
    assert wrong.exit_code != 0
