"""The fixture `bedrock_cassette`: what models answered once, and what of changed prompts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
TEST = """
import pytest
from orchestrator import Agent
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
{mark}
def test_greeting(bedrock_cassette{fixture}):
    real = ScriptedModel(["<answer>Hello Ana.</answer>"], CLAUDE)
    model = bedrock_cassette(real)
    {body}
    assert len(real.requests) == (1 if bedrock_cassette.recording else 0)
"""
DIRECT = """
    agent = Agent("greeter", "{instruction}", model)
    assert agent.invoke("I am Ana").text == "{expected}"
"""
SERVED = """
    bedrock_agents.use(CLAUDE, model)
    agent = bedrock_agents.create(
        foundationModel=CLAUDE, instruction="You greet people in a friendly way, always.",
    )
    assert agent.ask("I am Ana").text == "Hello Ana."
"""
OPTIONS = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:inline_snapshot"]


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test file that is written anew within a second is read anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def written(
    pytester: pytest.Pytester,
    *,
    mark: str = "",
    instruction: str = "You greet people.",
    expected: str = "Hello Ana.",
) -> None:
    body = DIRECT.format(instruction=instruction, expected=expected)
    pytester.makepyfile(test_greeter=TEST.format(mark=mark, fixture="", body=body.strip()))


def recording(pytester: pytest.Pytester) -> Path:
    return pytester.path / "cassettes" / "test_greeter" / "test_greeting.jsonl"


def test_it_is_recorded_when_asked_for_and_replayed_else(pytester: pytest.Pytester) -> None:
    written(pytester)
    pytester.runpytest_inprocess(*OPTIONS, "--bedrock-record").assert_outcomes(passed=1)
    (line,) = recording(pytester).read_text().splitlines()
    assert json.loads(line)["model_id"] == CLAUDE
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)


def test_it_stands_behind_the_server(pytester: pytest.Pytester) -> None:
    fixture = ", bedrock_agents"
    pytester.makepyfile(test_greeter=TEST.format(mark="", fixture=fixture, body=SERVED.strip()))
    pytester.runpytest_inprocess(*OPTIONS, "--bedrock-record").assert_outcomes(passed=1)
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)


def test_a_test_without_recording_says_how_to_make_one(pytester: pytest.Pytester) -> None:
    written(pytester)
    result = pytester.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*there is no recording*test_greeting.jsonl*pytest --bedrock-record*::test_greeting*"]
    )


def test_a_prompt_that_has_changed_fails_and_shows_how(pytester: pytest.Pytester) -> None:
    written(pytester)
    pytester.runpytest_inprocess(*OPTIONS, "--bedrock-record").assert_outcomes(passed=1)
    before = recording(pytester).read_text()
    written(pytester, instruction="You greet people loudly.")
    result = pytester.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["*-*You greet people.*", "*+*You greet people loudly.*"])
    result.stdout.fnmatch_lines(["*pytest --bedrock-record*"])
    assert recording(pytester).read_text() == before


def test_a_test_that_fails_keeps_the_old_recording(pytester: pytest.Pytester) -> None:
    written(pytester)
    pytester.runpytest_inprocess(*OPTIONS, "--bedrock-record").assert_outcomes(passed=1)
    before = recording(pytester).read_text()
    written(pytester, instruction="You greet people loudly.", expected="Something else.")
    pytester.runpytest_inprocess(*OPTIONS, "--bedrock-record").assert_outcomes(failed=1)
    assert recording(pytester).read_text() == before
    assert [file.name for file in recording(pytester).parent.iterdir()] == ["test_greeting.jsonl"]


def test_the_marker_names_the_file(pytester: pytest.Pytester) -> None:
    written(pytester, mark='@pytest.mark.bedrock_cassette("data/hello.jsonl")')
    strict = [*OPTIONS, "--strict-markers"]
    pytester.runpytest_inprocess(*strict, "--bedrock-record").assert_outcomes(passed=1)
    assert (pytester.path / "data" / "hello.jsonl").is_file()
    pytester.runpytest_inprocess(*strict).assert_outcomes(passed=1)


def test_recording_leaves_the_credentials_that_there_are(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAREALONE")
    monkeypatch.delenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", raising=False)
    pytester.makepyfile(
        """
        import os

        def test_environment(bedrock_agents, request):
            recording = request.config.getoption("--bedrock-record")
            assert os.environ["AWS_ACCESS_KEY_ID"] == ("AKIAREALONE" if recording else "testing")
            assert ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME" in os.environ) is not recording
        """
    )
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)
    pytester.runpytest_inprocess(*OPTIONS, "--bedrock-record").assert_outcomes(passed=1)
