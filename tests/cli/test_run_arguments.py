"""Arguments of `orchestrator run` and `render` that a script does not have: told before a call."""

from pathlib import Path

import pytest

DECLARED = (
    "---\ninput: [language, {tone: {default: kind}}]\n---\nuser: 'In {{language}} {{tone}}'\n"
)


@pytest.mark.parametrize("verb", ["run", "render"])
@pytest.mark.parametrize(
    ("file", "text", "given", "told"),
    [
        (
            "a.ai.yaml",
            DECLARED,
            "langauge=French",
            "'langauge'; there is language, tone; did you mean 'language'?",
        ),
        (
            "a.ai.yaml",
            "user: 'On {{topic}}'\n",
            "topik=x",
            "'topik'; there is topic; did you mean 'topic'?",
        ),
        ("a.pl", "Do $plan -> said\n", "plna=x", "'plna'; there is plan; did you mean 'plan'?"),
        ("a.pl", "IF $size == 1:\n    Go -> x\nEND\n", "other=1", "'other'; there is size"),
    ],
)
def test_a_misspelt_argument_is_told_before_anything_is_paid(
    run, script, verb, file, text, given, told
):
    Path(file).write_text(text)
    options = [script("never")] if verb == "run" else []
    done = run(verb, file, given, *options)
    assert done.exit_code == 2
    assert f"there is no argument {told}" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("file", "text", "given"),
    [
        ("a.ai.yaml", DECLARED, ["language=French", "tone=cold"]),
        ("a.ai.yaml", "---\ntopic: rain\n---\nuser: 'On {{topic}}'\n", ["topic=x"]),
        ("a.ai.yaml", "user: 'All {{ this.topic }} {{ this }}'\n", ["topic=x", "any=y"]),
        ("a.ai.yaml", "user: 'See [[@$echo(topic)]]'\n", ["topic=x"]),
        ("a.ai.yaml", "user: 'Go'\n$if: size > 1\nthen: {user: on}\n", ["size=2"]),
        ("a.pl", "Do $plan -> said\n", ["plan=x", "said=y"]),
        ("a.pl", "IF $size == 1:\n    Go -> x\nEND\nSay ${them[0]} -> y\n", ["size=1", "them=[1]"]),
    ],
)
def test_arguments_that_a_script_has_are_taken(run, script, file, text, given):
    Path(file).write_text(text)
    assert run("run", file, *given, script("ok", "ok")).exit_code == 0
