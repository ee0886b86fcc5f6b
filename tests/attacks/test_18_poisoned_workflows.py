"""Attack 18: somebody writes rows into the database of submitted turns."""

import base64
import json
import pickle
import sqlite3
from contextlib import closing, contextmanager

import pytest
from left_out import need_dbos

from orchestrator import Agent
from orchestrator.testing import ScriptedModel

pytest.importorskip("dbos")

from orchestrator.agent.durable import DurableRuns, Worker
from orchestrator.agent.durable.workflow import name_agent
from orchestrator.errors import OrchestratorError

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
LONG = 60

ran: list[str] = []


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (ran.append, ("pickle",))


PICKLE = base64.b64encode(pickle.dumps(Payload())).decode()


@pytest.fixture
def agent(tmp_path):
    model = ScriptedModel(["<answer>Yes.</answer>"] * 3, CLAUDE)
    instruction = "You help people who ask about orders of a shop."
    return Agent("shop", instruction, model, sessions=tmp_path / "sessions.sqlite")


@pytest.fixture
def runs(tmp_path):
    need_dbos()
    with DurableRuns(f"sqlite:///{tmp_path}/runs.sqlite") as runs:
        yield runs


@contextmanager
def database(runs):
    db = sqlite3.connect(runs.url.removeprefix("sqlite:///"))
    with closing(db), db:
        yield db


def list_columns(db):
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {it: [row[1] for row in db.execute(f"PRAGMA table_info({it})")] for it in tables}


def read_everything(runs):
    """Every value of the database, as a text."""
    with database(runs) as db:
        rows = [row for table in list_columns(db) for row in db.execute(f"SELECT * FROM {table}")]
    return [str(value) for row in rows for value in row]


def poison(runs, id, **values):
    """Writes values into the rows of a workflow that have them."""
    with database(runs) as db:
        for table, columns in list_columns(db).items():
            for name, value in values.items():
                if name in columns and "workflow_uuid" in columns:
                    where = f"workflow_uuid = ? AND {name} IS NOT NULL"
                    db.execute(f"UPDATE {table} SET {name} = ? WHERE {where}", (value, id))


def test_no_pickle_is_ever_written(agent, runs):
    with Worker(runs.url, [agent]):
        assert agent.submit("Hi", "s-1", runs=runs).result(LONG).text == "Yes."
        with pytest.raises(OrchestratorError):
            agent.for_tenant("t").submit(
                "Hi",
                "s-1",
                runs=runs,
                results={"invocationId": "x", "returnControlInvocationResults": [{}]},
            ).result(LONG)
    texts = read_everything(runs)
    assert any("portable_json" in text for text in texts)
    assert not [text for text in texts if "pickle" in text or text.startswith("gAS")]


def test_a_pickle_in_a_row_is_never_loaded(agent, runs):
    submission = agent.submit("Hi", "s-1", runs=runs)
    poison(runs, submission.id, serialization="py_pickle", inputs=PICKLE)
    assert PICKLE in read_everything(runs)
    with Worker(runs.url, [agent]), pytest.raises(OrchestratorError):
        submission.result(LONG)
    assert submission.status() == "failed"
    assert ran == []
    assert agent.turns("s-1") == []


WRONG = [
    {"agent": "another/TSTALIASID", "question": "Hi"},
    {"agent": ["shop"], "question": "Hi"},
    {"question": ["Hi"]},
    {"question": "Hi", "session_id": "../../etc"},
    {"question": "Hi", "tenant": 7},
    {"question": "Hi", "retries": 10**9},
    {"question": "Hi", "options": {"files": ["/etc/passwd"]}},
    {"question": "Hi", "options": {"session_state": {"files": []}}},
    {"question": "Hi", "options": {"colour": "red"}},
    {"question": "Hi", "__class__": "os.system"},
    "Hi",
    None,
]


def test_poisoned_inputs_are_refused(agent, runs):
    submissions = []
    for number, turn in enumerate(WRONG):
        submissions.append(agent.submit("Hi", f"s-{number}", runs=runs))
        given = {"agent": name_agent(agent), **turn} if isinstance(turn, dict) else turn
        inputs = json.dumps({"positionalArgs": [given], "namedArgs": {}})
        poison(runs, submissions[-1].id, inputs=inputs)
        assert inputs in read_everything(runs)
    with Worker(runs.url, [agent]):
        for submission in submissions:
            with pytest.raises(OrchestratorError) as refused:
                submission.result(LONG)
            assert "passwd" not in str(refused.value)
    assert list(agent.sessions.store.list()) == []
