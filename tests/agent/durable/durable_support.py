"""A database of submitted turns, an agent, and its worker."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.actions import ActionGroup
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def call(name, **values):
    return [{"toolUse": {"toolUseId": "t-1", "name": f"shop__{name}", "input": values}}]


def answer(text):
    return f"<answer>{text}</answer>"


def make_agent(sessions, replies, *actions, **options):
    groups = [ActionGroup("shop", actions=list(actions))] if actions else []
    model = replies if hasattr(replies, "complete") else ScriptedModel(replies, CLAUDE)
    instruction = "You help people who ask about orders of a shop."
    return Agent("shop", instruction, model, action_groups=groups, sessions=sessions, **options)


@pytest.fixture(scope="session")
def migrated_database():
    """A database with DBOS's tables: to make them takes longer than most tests."""
    from left_out import need_dbos  # not where a process of its own imports this file

    need_dbos()
    from orchestrator.agent.durable import DurableRuns

    # A hundred small transactions, each of which a real disk would wait for.
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-durable-", dir=shared))
    DurableRuns(f"sqlite:///{folder}/migrated.sqlite").close()
    yield folder / "migrated.sqlite"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(migrated_database):
    """The URL of a database of its own, without any turn."""
    file = Path(tempfile.mkdtemp(dir=migrated_database.parent)) / "runs.sqlite"
    shutil.copy(migrated_database, file)
    return f"sqlite:///{file}"


@pytest.fixture
def runs(url):
    from orchestrator.agent.durable import DurableRuns

    with DurableRuns(url) as runs:
        yield runs


@pytest.fixture
def sessions(url):
    """A file of sessions."""
    return url.removeprefix("sqlite:///").replace("runs.sqlite", "sessions.sqlite")


@pytest.fixture
def work(url, monkeypatch):
    """Starts the worker of this process, which looks for turns often: `with work(agent):`."""
    from orchestrator.agent.durable import Worker, partitions, worker

    monkeypatch.setattr(worker, "_POLLING", 0.02)
    monkeypatch.setattr(partitions, "_INTERVAL", 0.02)
    return lambda *agents, **options: Worker(url, agents, **options)
