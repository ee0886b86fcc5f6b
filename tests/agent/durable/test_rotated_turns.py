"""`rotate-key --database`: submitted turns outlive the key that sealed them."""

import base64
import json

import pytest
from durable_support import answer, make_agent
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import EncryptionError, ModelOutputError
from orchestrator.support.encryption import KEYS

LONG = 60


def make_key(byte):
    return base64.b64encode(bytes([byte]) * 32).decode()


@pytest.fixture
def keys(monkeypatch):
    """Sets the keys, by numbers."""
    pytest.importorskip("cryptography")

    def give(*numbers):
        monkeypatch.setenv(KEYS, ",".join(map(make_key, numbers)))

    give(1)
    return give


@pytest.fixture
def rotate(url, sessions):
    def run():
        words = ["sessions", "rotate-key", "--state", sessions, "--database", url, "--json"]
        return CliRunner().invoke(app, words)

    return run


def test_turns_outlive_the_key_that_sealed_them(runs, sessions, work, keys, rotate):
    agent = make_agent(sessions, [answer("The old key's.")])
    with work(agent):
        ended = agent.submit("Hi", "s-1", runs=runs)
        assert ended.result(LONG).text == "The old key's."
        failed = agent.submit("Hi", "s-2", runs=runs)
        with pytest.raises(ModelOutputError):
            failed.result(LONG)
    waits = agent.submit("And now?", "s-1", runs=runs)
    runs.schedule(agent, "morning", "0 7 29 2 *", "Which are late?", "s-3")
    keys(2, 1)
    done = rotate()
    # The inputs of three turns, a result, an error, and a schedule's turn.
    assert (done.exit_code, json.loads(done.stdout)["turns"]) == (0, 6)
    keys(2)
    agent = make_agent(sessions, [answer("The new key's."), answer("None.")])
    assert agent.find_submission(ended.id, runs=runs).result(0).text == "The old key's."
    with pytest.raises(ModelOutputError, match="was asked for reply 2"):
        agent.find_submission(failed.id, runs=runs).result(0)
    with work(agent):
        assert agent.find_submission(waits.id, runs=runs).result(LONG).text == "The new key's."
        (schedule,) = runs.client.list_schedules()
        fired = runs.client.trigger_schedule(schedule["schedule_name"])
        assert fired.get_result()
    assert [turn.text for turn in agent.turns("s-3")] == ["None."]
    # What the schedule's turn came to is of the new key by itself.
    assert json.loads(rotate().stdout)["turns"] == 0


def test_what_was_written_before_there_was_a_key_is_sealed(
    runs, sessions, work, keys, rotate, monkeypatch
):
    monkeypatch.delenv(KEYS)
    agent = make_agent(sessions, [answer("Plain.")])
    with work(agent):
        ended = agent.submit("Hi", "s-1", runs=runs)
        ended.result(LONG)
    runs.schedule(agent, "morning", "0 7 29 2 *", "Which are late?")
    keys(1)
    assert json.loads(rotate().stdout)["turns"] == 3
    monkeypatch.setenv("ORCHESTRATOR_ENCRYPTION_REQUIRED", "1")
    assert make_agent(sessions, []).find_submission(ended.id, runs=runs).result(0).text == "Plain."


def test_what_cannot_be_read_stays_and_is_named(runs, sessions, work, keys, rotate):
    agent = make_agent(sessions, [answer("Yes.")])
    submission = agent.submit("Hi", "s-1", runs=runs)
    keys(2)
    done = rotate()
    assert done.exit_code == 1
    assert f"the input of '{submission.id}'" in json.loads(done.stdout)["failed"][0]
    with work(agent), pytest.raises(EncryptionError, match="is not given"):
        submission.result(LONG)
