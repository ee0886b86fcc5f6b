"""Submitted turns where content is encrypted: nobody without the keys reads or moves a row."""

import base64
import os
import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest
from durable_support import answer, make_agent

from orchestrator.agent.durable import DurableRuns
from orchestrator.errors import EncryptionError, ModelOutputError, ValidationError
from orchestrator.support.encryption import KEYS

REQUIRED = "ORCHESTRATOR_ENCRYPTION_REQUIRED"
LONG = 60


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setenv(KEYS, base64.b64encode(os.urandom(32)).decode())
    monkeypatch.setenv(REQUIRED, "1")


@pytest.fixture
def file(url):
    return Path(url.removeprefix("sqlite:///"))


def read_files(file):
    return b"".join(it.read_bytes() for it in file.parent.glob(f"{file.name}*"))


def test_no_row_holds_content_and_the_reply_is_whole(runs, sessions, work, file):
    agent, id = make_agent(sessions, [answer("canary-1")]), str(uuid4())
    given = {"session_attributes": {"token": "canary-2"}, "request_id": id}
    with work(agent):
        submission = agent.submit("canary-3", "s-1", runs=runs, **given)
        assert submission.result(LONG).text == "canary-1"
    assert b"canary" not in read_files(file)
    # The same again is the same turn, although it is never sealed to the same text.
    assert agent.submit("canary-3", "s-1", runs=runs, **given).id == submission.id
    assert submission.result(LONG).session_id == "s-1"


def test_no_row_holds_the_message_of_an_error(runs, sessions, work, file):
    agent = make_agent(sessions, [])
    with work(agent):
        submission = agent.submit("Hi", runs=runs)
        with pytest.raises(ModelOutputError, match="has 0 replies"):
            submission.result(LONG)
    assert b"has 0 replies" not in read_files(file)


def change_rows(file, statement):
    database = sqlite3.connect(file)
    with database:
        assert database.execute(statement).rowcount == 1
    database.close()


def test_a_row_that_was_moved_or_forged_is_refused(runs, sessions, work, file, monkeypatch):
    agent = make_agent(sessions, [answer("No."), answer("No.")])
    agent.submit("Pay Ann", "s-1", runs=runs)
    moved = agent.submit("Pay Bob", "s-2", runs=runs)
    change_rows(
        file,
        "UPDATE workflow_input SET inputs = (SELECT inputs FROM workflow_input WHERE "
        f"workflow_uuid != '{moved.id}') WHERE workflow_uuid = '{moved.id}'",
    )
    with monkeypatch.context() as forger:
        forger.delenv(KEYS)
        forger.delenv(REQUIRED)
        forged = agent.submit("Pay Eve", "s-3", runs=runs)
    with work(agent):
        with pytest.raises(EncryptionError, match="cannot be decrypted"):
            moved.result(LONG)
        with pytest.raises(EncryptionError, match="is not encrypted"):
            forged.result(LONG)
    assert not agent.turns("s-2") and not agent.turns("s-3")


def test_nothing_is_submitted_in_plain_text_where_that_is_forbidden(runs, sessions, monkeypatch):
    agent = make_agent(sessions, [])
    monkeypatch.delenv(KEYS)
    with pytest.raises(ValidationError, match="has no key"):
        agent.submit("Hi", runs=runs)
    assert runs.client.list_workflows() == []


def test_the_database_is_its_owners_alone(url, file, migrated_database):
    assert migrated_database.stat().st_mode & 0o777 == 0o600  # as it was made
    file.chmod(0o644)
    DurableRuns(url).close()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "wrong",
    ["postgres://bob:canary@host/db", "mysql://bob:canary@host/db", "postgresql://b:canary[@h/d"],
)
def test_no_message_shows_the_password_of_a_wrong_url(wrong):
    with pytest.raises(ValidationError) as raised:
        DurableRuns(wrong)
    assert "canary" not in str(raised.value)
