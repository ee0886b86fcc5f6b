"""What agents and aliases that were deleted have left: it is deleted, and nothing else."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from control_support import CLAUDE, Served, says, served
from server_requests import ID, OTHER_ID, OTHER_SECRET, SECRET, write_keys
from waiting import until

from orchestrator.memory import SessionSummary
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

MEMORY = {"memoryConfiguration": {"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 30}}


class Waiting(Model):
    """A model that answers when it is let."""

    model_id = CLAUDE

    def __init__(self) -> None:
        self.asked, self.go = Event(), Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        assert self.go.wait(60)
        return ScriptedModel([says("Still here.")], CLAUDE).complete(request)


def sessions(server: Served) -> set[str]:
    """The sessions that are kept, by agent and alias."""
    return {it.label.rsplit("/", 1)[0] for it in server.world.sessions.store.list()}


def remember(server: Served, owner: str) -> None:
    topics = [{"topic": "dogs", "summary": "likes them"}]
    server.world.memory.add(owner, SessionSummary("ada", "s-9", 1, None, topics, "Likes dogs."))
    server.world.memory.touch(owner, "ada", "s-8", 1)


def remembers(server: Served, owner: str) -> bool:
    memory = server.world.memory
    return bool(memory.recent(owner, "ada", 2, 9) or memory.find_unsummarised(owner, 2))


@pytest.mark.parametrize("kept", [True, False])
def test_an_agents_sessions_and_memories_go_with_it(tmp_path: Path, kept: bool) -> None:
    state = tmp_path / "state.sqlite" if kept else None
    with served(lambda request: says("Yes."), state=state) as server:
        ids = [server.ready(name, **MEMORY) for name in ("one", "two")]
        owners = []
        for id in ids:
            alias = server.alias(id)["agentAliasId"]
            for alias_id in ("TSTALIASID", alias):
                owners.append(f"{id}/{alias_id}")
                remember(server, owners[-1])
                assert server.ask(id, alias_id) == "Yes."
        assert sessions(server) == {*owners}
        for number in range(250):  # more than are looked at at once
            server.world.sessions.store.append(
                server.world.sessions.key(f"{owners[0]}/s{number}"),
                0,
                [{"kind": "closed", "reason": "ended", "at": 1}],
                label=f"{owners[0]}/s{number}",
            )
        server.control.delete_agent(agentId=ids[0], skipResourceInUseCheck=True)
        until(lambda: sessions(server) == {*owners[2:]})
        assert [remembers(server, it) for it in owners] == [False, False, True, True]
        assert server.ask(ids[1]) == "Yes."


def test_an_alias_takes_its_own_with_it() -> None:
    with served(lambda request: says("Yes.")) as server:
        id = server.ready()
        alias, other = (server.alias(id, name)["agentAliasId"] for name in ("one", "two"))
        for alias_id in (alias, other):
            server.ask(id, alias_id)
            remember(server, f"{id}/{alias_id}")
        server.control.delete_agent_alias(agentId=id, agentAliasId=alias)
        until(lambda: sessions(server) == {f"{id}/{other}"})
        assert not remembers(server, f"{id}/{alias}")
        assert remembers(server, f"{id}/{other}")


def test_a_tenant_deletes_its_own_alone(tmp_path: Path) -> None:
    with served(lambda request: says("Yes."), keys=write_keys(tmp_path)) as server:
        owners = []
        for who in ((ID, SECRET), (OTHER_ID, OTHER_SECRET)):
            server.control, server.runtime = server.control_as(*who), server.runtime_as(*who)
            id = server.ready()
            assert server.ask(id) == "Yes."
            (owner,) = sessions(server) - {*owners}
            owners.append(owner)
            # As if ids of both had been the same.
            label = f"{id}/TSTALIASID/{'0' * 32}/s-1"
            ended = [{"kind": "closed", "reason": "ended", "at": 1}]
            server.world.sessions.store.append(label, 0, ended, label=label)
            owners.append(label.rsplit("/", 1)[0])
        server.control.delete_agent(agentId=id)
        until(lambda: sessions(server) == {*owners} - {owners[2]})


def test_a_session_whose_turn_runs_is_deleted_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.server.agents.cleanup._FIRST", 0.01)
    model = Waiting()
    with served(model=model) as server:
        id = server.ready()
        answers = server.runtime.invoke_agent(
            agentId=id, agentAliasId="TSTALIASID", sessionId="s-1", inputText="Hello?"
        )
        assert model.asked.wait(60)
        server.control.delete_agent(agentId=id)
        model.go.set()
        with closing(answers["completion"]) as stream:
            assert b"".join(it["chunk"]["bytes"] for it in stream) == b"Still here."
        until(lambda: not sessions(server))


def test_another_process_goes_on_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.server.agents.cleanup._FIRST", 0.01)
    state = tmp_path / "state.sqlite"
    with served(lambda request: says("Yes."), state=state) as server:
        id = server.ready()
        server.ask(id)
        with closing(sqlite3.connect(state)) as db:
            db.execute("ALTER TABLE session RENAME TO hidden")
            with caplog.at_level(logging.WARNING):
                server.control.delete_agent(agentId=id)
                until(lambda: "is not deleted yet" in caplog.text)
    with closing(sqlite3.connect(state)) as db:
        db.execute("ALTER TABLE hidden RENAME TO session")
        db.execute("UPDATE journal SET record = 'no JSON'")
        db.commit()
    with served((), state=state) as server:
        until(lambda: not sessions(server))
    with closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT count(*) FROM journal").fetchone() == (0,)
