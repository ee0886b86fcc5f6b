"""Files and memories on the command line."""

import json

import pytest
from cli_support import ANSWER, call

INTERPRETER = """
agentName: sums
instruction: You answer questions about numbers, and write programs for that.
foundationModel: local
actionGroups:
  - actionGroupName: code
    parentActionGroupSignature: AMAZON.CodeInterpreter
    actionGroupState: ENABLED
"""


def prompts(reply):
    steps = [part["trace"].get("orchestrationTrace", {}) for part in reply["trace"]]
    return [one["modelInvocationInput"]["text"] for one in steps if "modelInvocationInput" in one]


@pytest.fixture
def notes(place):
    (place / "notes.txt").write_text("It rains.")
    (place / "more.md").write_text("It snows.")
    return ["--file", "notes.txt", "--file=more.md"]


def test_files_come_with_the_question(run, shop, script, notes):
    done = run("invoke", shop, "What is this?", script(ANSWER), *notes, "--json")
    (prompt,) = prompts(json.loads(done.stdout))
    assert "The file 'notes.txt' (text/plain):" in prompt
    assert "It snows." in prompt


def test_files_come_with_the_first_question_of_a_conversation(run, shop, script, notes):
    given = "What is this?\nAnd now?\n"
    done = run("chat", shop, script(ANSWER, ANSWER), *notes, "--json", input=given)
    first, second = (prompts(json.loads(line))[0] for line in done.stdout.splitlines())
    assert "It rains." in first
    assert "It rains." not in second
    assert "(Files that came with this: 'notes.txt', 'more.md'.)" in second


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--file=absent.txt"], "there is no file 'absent.txt'"),
        (["--file=notes.txt", "--use-case=EAT"], "use case 'EAT'"),
        (["--file=notes.txt", "--use-case=CODE_INTERPRETER"], "does not have"),
    ],
)
def test_files_that_cannot_be_taken_are_named(run, shop, script, notes, options, said):
    done = run("invoke", shop, "What is this?", script(ANSWER), *options)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_memory_is_named(run, shop, script):
    done = run("invoke", shop, "Hi", script(ANSWER), "--memory-id=no spaces")
    assert done.exit_code == 2
    assert "memory_id 'no spaces' is not valid" in " ".join(done.stderr.split())
    assert run("invoke", shop, "Hi", script(ANSWER), "--memory-id=ana").exit_code == 0


def test_files_that_were_made_are_told_and_are_in_the_json(run, place, script):
    from orchestrator.actions.code_interpreter import CodeInterpreter
    from orchestrator.errors import DefinitionError, DependencyFailed

    try:
        interpreter = CodeInterpreter()
        interpreter.check()
        interpreter.close()
    except (DefinitionError, DependencyFailed) as error:
        pytest.skip(error.message)
    (place / "sums").mkdir()
    (place / "sums" / "agent.yaml").write_text(INTERPRETER)
    (place / "n.txt").write_text("7")
    code = call(
        "get__codeinterpreteraction__execute", code="open('m', 'w').write(open('n.txt').read())"
    )
    options = ["--file=n.txt", "--use-case=CODE_INTERPRETER"]
    done = run("invoke", "sums", "Copy it.", script(code, ANSWER), *options)
    assert "made the file 'm' (1 bytes)" in done.stderr
    done = run("invoke", "sums", "Copy it.", script(code, ANSWER), *options, "--json")
    (file,) = json.loads(done.stdout)["files"]
    assert (file["name"], file["bytes"]) == ("m", "Nw==")
