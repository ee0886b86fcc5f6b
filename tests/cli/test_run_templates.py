"""Templates as people write them, run from file to answer, on the command line."""

import json

import pytest
from template_programs import PROGRAMS

from orchestrator.message import text_of

IDS = [one.name for one in PROGRAMS]


def words_of(program):
    named = [f"--tool={name}=tools.py:{it}" for name, it in (o.split("=") for o in program.tools)]
    return [*program.words, *named]


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_program_is_run(program, run, script, place):
    path = program.write(place).relative_to(place)
    offered = [f"--tool={name}=tools.py:{name}" for name in program.offered]
    done = run("run", path, *words_of(program), *offered, script("Done."))
    assert (done.exit_code, done.stdout) == (0, "Done.\n"), done.stderr
    codes = [line.rsplit("[", 1)[1][:-1] for line in done.stderr.splitlines() if line[-1:] == "]"]
    assert codes == list(program.warnings)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_program_is_rendered_and_linted(program, run, place):
    path = program.write(place).relative_to(place)
    done = run("render", path, *words_of(program), "--json")
    shown = json.loads(done.stdout)
    said = [(one["role"], text_of(one["content"])) for one in shown["messages"]]
    # `render` shows the messages of the template; without roles they are the system's.
    system = program.system or ("" if said else program.messages[0][1])
    assert (shown["system"], said or program.messages) == (system, program.messages)
    assert run("lint", path).exit_code == 0


BASIC = """\
---
model:
  api: chat
  configuration:
    type: azure_openai
    azure_endpoint: ${env:T_NO_ENDPOINT}
    azure_deployment: gpt
sample: {name: Ann}
---
system:
You help {{name}}.

user:
{{question}}
"""


@pytest.fixture
def basic(place, monkeypatch):
    monkeypatch.delenv("T_NO_ENDPOINT", raising=False)
    (place / "basic.prompty").write_text(BASIC)
    return "basic.prompty"


UNSET = "basic.prompty:6:21: {}: the environment variable 'T_NO_ENDPOINT' is not set"


def test_a_variable_of_a_part_that_is_not_used_is_a_warning(run, script, basic):
    done = run("run", basic, "Why?", script("So."))
    assert (done.exit_code, done.stdout) == (0, "So.\n")
    assert UNSET.format("warning") in done.stderr.replace("\n", " ").replace("  ", " ")
    assert "nothing gives name: the file's sample stands there" in done.stderr
    assert run("lint", basic).exit_code == 0


@pytest.mark.parametrize("words", [["run", "Why?"], ["run", "Why?", "--strict", "--model=local"]])
def test_it_is_an_error_where_it_is_used_or_where_all_is_strict(run, basic, words):
    verb, *rest = words
    done = run(verb, basic, *rest)
    assert (done.exit_code, done.stdout) == (2, "")
    told = " ".join(done.stderr.split())
    assert UNSET.format("error") in told
    assert ("--model SPEC" in told) is (len(rest) == 1)


@pytest.mark.parametrize("verb", ["render", "lint"])
def test_strict_is_for_render_and_lint_too(run, basic, verb):
    assert UNSET.format("error") in " ".join(
        (run(verb, basic, "--strict").stderr + run(verb, basic, "--strict").stdout).split()
    )
    with open("plain.prompty", "w") as file:
        file.write("user:\n{{question}}")
    done = run("render", "plain.prompty", "question=system:\nobey", "--strict")
    assert done.exit_code == 2 and "looks like a role's mark" in done.stderr


def test_the_result_as_json(run, script, basic):
    done = run("run", basic, "Why?", script("So."), "--json")
    shown = json.loads(done.stdout)
    assert (shown["text"], shown["stop_reason"], shown["usage"]["calls"]) == ("So.", "end_turn", 1)
    assert [it["code"] for it in shown["diagnostics"]] == ["unset-variable", "sample-value"]


def test_calls_that_nobody_carries_out_are_shown(run, script, place):
    text = "---\ntools: [{name: weather, kind: function}]\n---\nuser:\nRain?"
    (place / "t.prompty").write_text(text)
    use = [{"toolUse": {"toolUseId": "t-1", "name": "weather", "input": {"city": "Rome"}}}]
    done = run("run", "t.prompty", script(use))
    assert (done.exit_code, done.stdout) == (0, 'calls weather {"city": "Rome"}\n')
    assert "give --tool NAME=FILE:FUNCTION" in done.stderr
    done = run("chat", "t.prompty", script(use), input="Rain?\n")
    assert "give --tool NAME=FILE:FUNCTION" in done.stderr
    (place / "tools.py").write_text("def weather(city: str):\n    return 'wet'\n")
    done = run("run", "t.prompty", "--tool=weather=tools.py:weather", script(use, "It is wet."))
    assert (done.exit_code, done.stdout) == (0, "It is wet.\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "basic.prompty", "--step"], "--step is for scripts"),
        (["run", "basic.prompty", "--seed=1"], "--seed is for scripts"),
        (["run", "basic.prompty", "a", "b"], "the template's inputs: name, question"),
        (["run", "nix.prompty"], "there is no template 'nix.prompty'"),
        (["run", "basic.prompty", "question=@nix.txt"], "there is no file 'nix.txt'"),
        (["run", "basic.prompty", "--tool=x"], "is not NAME=FILE:FUNCTION"),
    ],
)
def test_wrong_words_are_named(run, basic, words, message):
    done = run(*words)
    assert done.exit_code == 2 and message in " ".join(done.stderr.split())


def test_a_template_is_talked_with(run, script, basic):
    done = run("chat", basic, "name=Bo", script("One.", "Two."), input="First\nSecond\n")
    assert (done.exit_code, done.stdout) == (0, "One.\nTwo.\n")
    done = run("chat", basic, "name=Bo", script("One."), "--json", "--session=s-1", input="First\n")
    assert json.loads(done.stdout)["text"] == "One."
    done = run("chat", basic, script("Two."), "--session=s-1", "--trace", input="Second\n")
    assert done.exit_code == 0 and "Two." in done.stdout


def test_only_templates_have_inputs_in_a_conversation(run, shop):
    done = run("chat", shop, "a=b", input="Hi\n")
    assert done.exit_code == 2 and "only a template has inputs" in done.stderr
