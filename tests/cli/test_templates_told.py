"""What `lint` and `render` tell of templates in other languages."""

import json
from pathlib import Path

import pytest

FRONT = "---\ninputs:\n  - {name: question}\n  - {name: tone, default: kind}\n---\n"


def found_by(run, *words):
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    return [
        (it["code"], it["message"], it["suggestion"], it["line"])
        for it in json.loads(done.stdout)["diagnostics"]
    ]


@pytest.mark.parametrize("verb", ["lint", "render"])
@pytest.mark.parametrize("name", ["nix.prompty", "nix.hbs"])
def test_a_template_that_is_not_there_is_told(run, verb, name):
    done = run(verb, name)
    assert done.exit_code == 2
    assert f"there is no template '{name}'" in done.stderr


def test_render_tells_inputs_that_are_misspelt(run):
    Path("a.prompty").write_text("user:\n{{qestion}} {{tone}}")
    assert found_by(run, "render", "a.prompty", "question=Hi", "tone=x", "zzz=1") == [
        ("unknown-input", "the template reads no 'question'", "did you mean 'qestion'?", None),
        ("unknown-input", "the template reads no 'zzz'", "it reads qestion, tone", None),
        ("missing-input", "nothing gives 'qestion', which is empty here", "give qestion=...", 2),
    ]
    done = run("render", "a.prompty", "question=Hi", "tone=x")
    assert done.exit_code == 0
    assert "did you mean 'qestion'?" in done.stderr and "qestion" not in done.stdout


def test_lint_tells_inputs_that_are_declared_otherwise_than_read(run):
    Path("a.prompty").write_text(FRONT + "user:\n{{qestion}} {{tone}} {{other}}")
    assert found_by(run, "lint", "a.prompty") == [
        (
            "undeclared-input",
            "the template reads 'qestion', which it does not declare",
            "did you mean 'question'?",
            7,
        ),
        (
            "unused-input",
            "the template declares the input 'question' and does not read it",
            "write it where it belongs",
            None,
        ),
    ]


def test_templates_whose_inputs_fit_are_clean(run):
    Path("a.prompty").write_text(FRONT + "user:\n{{question}} {{tone}}")
    Path("b.hbs").write_text('<message role="user">{{question}}</message>')
    for name in ("a.prompty", "b.hbs"):
        assert not found_by(run, "lint", name)
        assert not found_by(run, "render", name, "question=Hi")


def test_what_is_doubtful_about_a_rendering_is_told(run):
    Path("a.prompty").write_text("system:\nA\nuser:\n{{question}}")
    found = found_by(run, "render", "a.prompty", "question=user:")
    assert [it[0] for it in found] == ["inert-mark"]


def test_the_prompt_that_a_script_replaces_is_told_to_be_never_sent(run, shop):
    assert not found_by(run, "render", shop, "Hi")
    (shop / "flow.pl").write_text("Say hi to $question -> answer\n")
    with (shop / "agent.yaml").open("a") as file:
        file.write("\norchestration: flow.pl\n")
    (found,) = found_by(run, "render", shop, "Hi")
    assert found[0] == "replaced-stage"
    assert "never sent: 'flow.pl' orchestrates the agent" in found[1]
    assert not found_by(run, "render", shop, "PRE_PROCESSING", "Hi")
    assert "never sent" in run("render", shop, "Hi").stderr
