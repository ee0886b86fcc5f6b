"""A server whose state is in a database needs no disk that another one has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from control_support import CLAUDE, says, served

SUMMARY = '<summary><topic name="Ana">She asked for days.</topic></summary>'
MEMORY = {"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 30}


@pytest.mark.parametrize("kind", ["postgres", "dynamodb"])
def test_another_server_finds_agent_session_and_memory(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state: Any = request.getfixturevalue(f"{kind}_url")
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.chdir(folders[0])
    first = [says("You have ten days."), says("Bye."), SUMMARY]
    with served(first, state=state) as server:
        agent = server.ready(memoryConfiguration=MEMORY, foundationModel=CLAUDE)
        alias = server.alias(agent)["agentAliasId"]
        asked = {"memoryId": "ana", "endSession": True, "sessionId": "s-1"}
        assert server.ask(agent, alias, "How many days?", sessionId="s-2") == "You have ten days."
        assert server.ask(agent, alias, "I am Ana.", **asked) == "Bye."
    monkeypatch.chdir(folders[1])
    with served([says("Ten, as I said.")], state=state) as server:
        (listed,) = server.control.list_agents()["agentSummaries"]
        assert (listed["agentId"], listed["agentStatus"]) == (agent, "PREPARED")
        found = server.runtime.get_agent_memory(
            agentId=agent, agentAliasId=alias, memoryType="SESSION_SUMMARY", memoryId="ana"
        )
        (content,) = found["memoryContents"]
        assert content["sessionSummary"]["summaryText"] == "Ana: She asked for days."
        assert server.ask(agent, alias, "Again?", sessionId="s-2") == "Ten, as I said."
        (prompt,) = server.model.requests
        assert "How many days?" in str(prompt.messages)
    assert [file for folder in folders for file in folder.iterdir()] == []
